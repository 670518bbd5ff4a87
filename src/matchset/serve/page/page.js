/** Page: what happens when someone types, chooses or goes back? */

import { get, post, RequestError } from "./api.js";
import * as columns from "./columns.js";
import { answered, handle, watchConnection } from "./connection.js";
import { areNumbersRight, drawModel, fillControls, isUsual, readControls, watchControls } from "./controls.js";
import { byId, count, make, setFieldError } from "./dom.js";
import { drawFailure, drawReasons, drawWaiting } from "./reasons.js";
import { optionsOf, search, stopSearch } from "./search.js";
import { drawTabs, isNarrow, watchTabs } from "./tabs.js";
import { NUMBERS, readView, writeView } from "./view.js";

const MISSING = 40; // products that were missed and are listed

let model = null;
let view = readView(location.search);
let found = null; // what the last search found
let closing = null; // the view whose product is being closed by going back
let searching = null; // promise of the running search
let explaining = null;

function matchers() {
  const chosen = model.matchers.filter(({ name }) => view.columns?.includes(name));
  return chosen.length ? chosen : model.matchers.filter(isUsual);
}

async function start() {
  try {
    model = await get("v1/model");
  } catch (error) {
    if (!handle(error)) throw error;
    return;
  }
  answered();
  drawModel(model, view, useExample);
  refresh();
}

/** Show the view. */
function refresh() {
  if (!model) return;
  document.title = view.q ? `${view.q} – matchset` : "matchset";
  const isEmpty = !view.q.trim();
  byId("start").hidden = !isEmpty;
  byId("missing").hidden = isEmpty;
  if (isEmpty) {
    stopSearch();
    found = null;
    showError(null);
    draw();
  } else searching = search(view, matchers(), model, show);
  if (view.product && !isEmpty) openReasons();
}

function showError(error) {
  for (const field of ["q", "where", ...Object.keys(NUMBERS)]) {
    setFieldError(field, error?.field === field ? error.message : "");
  }
  if (!error) areNumbersRight(); // an earlier search may answer after a wrong number was typed
}

function show(result) {
  showError(result.error);
  if (result.error) {
    byId("status").textContent = found ? "Showing the last valid results." : "";
    return;
  }
  found = result;
  draw();
  const version = result.columns.find(({ answer }) => answer)?.answer.model_version;
  if (result.isDone && version && version !== model.model_version) renewModel();
}

function draw() {
  const shown = found?.columns ?? [];
  columns.drawColumns(shown, found?.bought, model?.purchases_are);
  drawTabs(shown.map(({ matcher }) => matcher), view.tab);
  byId("status").textContent = found?.isDone ? summarize(found) : "";
  drawMissing(missingOf(found));
}

/** Ids of the products in any column. */
function idsOf(shown) {
  return new Set(shown.flatMap(({ answer }) => answer?.products.map(({ id }) => id) ?? []));
}

function summarize({ columns: shown, bought }) {
  const all = idsOf(shown);
  const isOne = shown.length === 1;
  const sum = `${count(all.size, "product")}${isOne ? "" : ` in ${count(shown.length, "column")}`}`;
  if (bought === null) return `${sum}.`;
  const isBought = model.purchases_are === "bought";
  if (!bought.size) return `${sum}. ${isBought ? "Nothing was bought after" : "Nothing is relevant to"} this query in the log.`;
  const hits = [...bought].filter((id) => all.has(id)).length;
  const what = isBought ? "bought after" : "relevant to";
  return `${sum}. Found ${hits} of ${count(bought.size, "product")} ${what} this query in the log.`;
}

function missingOf(result) {
  if (!result?.isDone || !result.bought) return [];
  const all = idsOf(result.columns);
  return [...result.bought].filter((id) => !all.has(id));
}

function drawMissing(ids) {
  byId("missing-bought").hidden = !ids.length;
  const rest = ids.length > MISSING ? `, of which ${MISSING} are listed` : "";
  byId("missing-count").textContent = `${count(ids.length, "product")} ${model?.purchases_are} but not found${rest}:`;
  const rows = ids.slice(0, MISSING).map((id) => {
    const button = make("button", { type: "button", className: "chip chip-bought" }, make("bdi", {}, id));
    button.addEventListener("click", () => open(id, ""));
    return make("li", {}, button);
  });
  byId("missing-list").replaceChildren(...rows);
}

async function renewModel() {
  try {
    model = await get("v1/model");
    drawModel(model, view, useExample);
  } catch (error) {
    if (!handle(error)) throw error;
  }
}

/** Put the view into the address; `isStep` ends a step of the history. */
function updateAddress(isStep = false) {
  const method = history.state?.isStep ? "pushState" : "replaceState";
  const isSame = writeView(view) === writeView(readView(location.search));
  if (isSame && (!isStep || history.state?.isStep)) return;
  history[method]({ isStep }, "", writeView(view));
}

function change(changes, isStep) {
  view = { ...view, ...changes };
  updateAddress(isStep);
  refresh();
}

function useExample(query) {
  change({ q: query }, true);
  fillControls(view);
  byId("q").focus();
}

function open(product, column) {
  view = { ...view, product, column };
  history.replaceState({ ...history.state, isStep: true }, "");
  history.pushState({ isStep: true, isOpened: true }, "", writeView(view));
  openReasons();
}

async function openReasons() {
  explaining?.abort();
  explaining = new AbortController();
  const { signal } = explaining;
  const { product } = view;
  drawWaiting(product, titleOf(product));
  if (!byId("reasons").open) byId("reasons").showModal();
  byId("reasons-title").focus();
  try {
    const [reasons] = await Promise.all([post("v1/explain", askWhy(product), signal), searching]);
    if (signal.aborted) return;
    drawReasons(reasons, ranks(product), view);
  } catch (error) {
    if (signal.aborted) return;
    const isRequestError = error instanceof RequestError;
    drawFailure(isRequestError ? error.message : "The server does not answer.", ranks(product));
    if (!handle(error) && !isRequestError) throw error;
  }
}

/** The column's own matcher explains, or else the first that can. */
function askWhy(product) {
  const able = model.matchers.filter(({ can_explain: canExplain }) => canExplain);
  const explainer = able.find(({ name }) => name === view.column) ?? able[0];
  if (!explainer) return { query: view.q, product };
  const { q: query, ...options } = optionsOf(explainer, view, model);
  const given = Object.entries(options).filter(([, value]) => value !== "");
  return { query, product, ...Object.fromEntries(given) };
}

function ranks(id) {
  const shown = found?.columns ?? [];
  return shown.map(({ matcher, answer }) => [matcher.label, columns.ranksOf(answer).get(id) ?? null]);
}

function titleOf(id) {
  const products = found?.columns.flatMap(({ answer }) => answer?.products ?? []) ?? [];
  return products.find((product) => product.id === id)?.title ?? "";
}

/** The panel was closed: by its button, by Escape or by going back. */
function closed() {
  if (byId("reasons").open) return; // opened again before this event
  explaining?.abort();
  // The browser restores the focus, unless its element was redrawn.
  const isLost = document.activeElement === document.body;
  const { product, column } = closing ?? view;
  if (isLost && !columns.focusProduct(column, product)) byId("q").focus();
  closing = null;
  if (!view.product) return;
  view = { ...view, product: "", column: "" };
  if (history.state?.isOpened) history.back();
  else history.replaceState(history.state, "", writeView(view));
}

function comeBack() {
  const before = view;
  view = readView(location.search);
  if (!model) return;
  fillControls(view);
  if (!view.product && byId("reasons").open) {
    closing = before;
    byId("reasons").close();
  }
  const isSame = writeView({ ...before, product: "" }) === writeView({ ...view, product: "" });
  if (!isSame) refresh();
  else if (view.product) openReasons();
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  const isTyping = event.target.matches("input");
  if (event.key === "/" && !isTyping) byId("q").select();
  else if (event.key === "ArrowDown" && event.target.id === "q") {
    if (!columns.enterColumns()) return;
  } else if (isTyping || !columns.moveFocus(event.key)) return;
  event.preventDefault();
}

function watchProducts() {
  const area = byId("columns");
  const rowOf = (event) => event.target.closest(".product");
  area.addEventListener("click", (event) => {
    const row = rowOf(event);
    if (row) open(row.dataset.id, row.closest(".column").dataset.name);
  });
  const mark = (event) => columns.markSame(rowOf(event)?.dataset.id ?? null);
  area.addEventListener("pointerover", mark);
  area.addEventListener("focusin", mark);
  area.addEventListener("pointerleave", () => columns.markSame(null));
  byId("ask-product").addEventListener("submit", (event) => {
    event.preventDefault();
    open(byId("product").value.trim(), "");
  });
}

watchConnection(start);
watchControls((isStep) => change(readControls(), isStep));
watchTabs((tab) => {
  view = { ...view, tab };
  updateAddress();
  drawTabs(found.columns.map(({ matcher }) => matcher), tab);
}, draw);
watchProducts();
byId("reasons-close").addEventListener("click", () => byId("reasons").close());
byId("reasons").addEventListener("close", closed);
addEventListener("popstate", comeBack);
document.addEventListener("keydown", onKey);
history.replaceState({ ...history.state, isStep: true }, "");
fillControls(view);
if (!view.q && !isNarrow()) byId("q").focus(); // a phone would show its keyboard
start();

/** Columns: how do the results of each matcher look next to the others? */

import { byId, count, drawn, make, showScore, showTime, spoken } from "./dom.js";

const FITTING = 4; // columns that a desktop has room for
const SHORT = {
  match_set: "Set",
  xr_linear: "XR",
  bm25: "BM25",
  title_similarity: "Title",
  nearest_queries: "Queries",
  popularity: "Popular",
  towers: "Towers",
  lexical: "Lexical",
  neighbors: "Queries",
};

/** A short name of a matcher, for a product's line. */
export function shortName(matcher) {
  return SHORT[matcher.name] ?? matcher.label;
}

/**
 * Redraw the columns. A column is a matcher with its `answer` (null before the first response), its
 * `roundTrip` in milliseconds and its `error` (a sentence or ""). Products that are `bought` are
 * marked as that, or by another `word` where nothing was bought. The focus stays on its product.
 */
export function drawColumns(columns, bought, word) {
  const area = byId("columns");
  const held = heldProduct();
  const ranks = columns.map((column) => ranksOf(column.answer));
  area.replaceChildren(...columns.map((column, at) => drawColumn(column, at, columns, ranks, { bought, word })));
  area.style.setProperty("--columns", String(columns.length));
  area.classList.toggle("is-many", columns.length > FITTING);
  area.classList.toggle("is-single", columns.length === 1);
  if (held) focusProduct(held.column, held.id);
}

/** Rank of each product of an answer, from 1. */
export function ranksOf(answer) {
  return new Map((answer?.products ?? []).map((product, at) => [product.id, at + 1]));
}

/** The product that has the focus, and its column. */
export function heldProduct() {
  const row = document.activeElement?.closest?.(".product");
  return row ? { column: row.closest(".column").dataset.name, id: row.dataset.id } : null;
}

/** Focus a product in this column, or else in any. */
export function focusProduct(column, id) {
  const rows = [...document.querySelectorAll(".product")].filter((row) => row.dataset.id === id);
  const row = rows.find((each) => each.closest(".column").dataset.name === column) ?? rows[0];
  if (row) focusRow(row);
  return Boolean(row);
}

/** Move the focus with an arrow key; true if the key was used. */
export function moveFocus(key) {
  const row = document.activeElement?.closest?.(".product");
  if (!row) return false;
  const target = neighbor(row, key);
  if (target === null && key === "ArrowUp") byId("q").focus();
  if (target) focusRow(target);
  return target !== undefined;
}

/** Focus the first visible product. */
export function enterColumns() {
  const rows = [...document.querySelectorAll(".product")];
  const first = rows.find((row) => row.offsetParent !== null);
  if (first) focusRow(first);
  return Boolean(first);
}

/** Highlight a product in every column; null: none. */
export function markSame(id) {
  for (const row of document.querySelectorAll(".product")) {
    row.classList.toggle("same", id !== null && row.dataset.id === id);
  }
}

// undefined: another key; null: nowhere to go.
function neighbor(row, key) {
  const rows = [...row.closest("ol").querySelectorAll(".product")];
  const at = rows.indexOf(row);
  const steps = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: rows.length - 1 };
  if (key in steps) return rows[steps[key]] ?? null;
  if (key !== "ArrowLeft" && key !== "ArrowRight") return undefined;
  const columns = [...document.querySelectorAll(".column")].filter((each) => each.offsetParent);
  const next = columns.indexOf(row.closest(".column")) + (key === "ArrowRight" ? 1 : -1);
  const others = [...(columns[next]?.querySelectorAll(".product") ?? [])];
  return others.find((each) => each.dataset.id === row.dataset.id) ?? others[at] ?? others.at(-1) ?? null;
}

// The Tab key stops once per column, at the product that had the focus last.
function focusRow(row) {
  for (const each of row.closest("ol").querySelectorAll(".product")) each.tabIndex = -1;
  row.tabIndex = 0;
  row.focus();
}

function drawColumn(column, at, columns, ranks, known) {
  const { matcher, answer, error } = column;
  const products = answer?.products ?? [];
  const others = columns.map((each, index) => ({ matcher: each.matcher, ranks: ranks[index] }));
  others.splice(at, 1);
  // A part ranks by what it knows alone, and its scores mean nothing beside those of the whole.
  const hasScores = matcher.part_of === null;
  const rows = products.map((product, index) => drawProduct(product, index + 1, others, { ...known, hasScores }));
  if (rows.length) rows[0].firstChild.tabIndex = 0;
  return make(
    "section",
    { className: "column", id: `column-${matcher.name}`, data: { name: matcher.name } },
    drawHead(column, known),
    error ? make("p", { className: "error" }, error) : null,
    answer && !rows.length && !error ? make("p", { className: "nothing" }, "No products.") : null,
    make("ol", { className: "products", "aria-label": `Products of ${matcher.label}` }, ...rows),
  );
}

function drawHead({ matcher, answer, roundTrip }, { bought, word }) {
  const name = make("div", {}, make("h2", { id: `head-${matcher.name}` }, matcher.label));
  const head = make("header", { className: "column-head" }, name);
  if (!answer) return head;
  const { products, microseconds } = answer;
  if (bought?.size) {
    const found = products.filter((product) => bought.has(product.id)).length;
    const text = `${found} of ${bought.size} ${word}`;
    const mark = found ? drawn("", "✓ ") : null;
    name.append(make("span", { className: found ? "found" : "" }, mark, text));
  }
  const times = `${showTime(microseconds)} server, ${showTime(roundTrip * 1000)} round trip`;
  const size = make("span", {}, count(products.length, "product"));
  head.append(make("div", {}, size, make("span", { className: "time" }, times)));
  return head;
}

function drawProduct(product, rank, others, { bought, word, hasScores }) {
  const isBought = bought?.has(product.id) ?? false;
  const title = product.title ?? product.id;
  const button = make(
    "button",
    { type: "button", className: "product", tabIndex: -1, data: { id: product.id } },
    make("span", { className: "rank" }, String(rank), spoken(".")),
    make("span", { className: "title", dir: "auto" }, title),
    hasScores ? make("span", { className: "score" }, spoken(", score "), showScore(product.score)) : null,
    isBought ? make("span", { className: "bought" }, drawn("", "✓"), spoken(`, ${word}`)) : null,
    drawFacts(product, others),
  );
  button.classList.toggle("is-bought", isBought);
  return make("li", {}, button);
}

function drawFacts(product, others) {
  const facts = make("span", { className: "facts" });
  facts.append(spoken(", id "), make("bdi", { className: "id" }, product.id));
  for (const [name, value] of Object.entries(product.attributes ?? {})) {
    const shown = typeof value === "number" ? value.toLocaleString("en") : String(value);
    facts.append(spoken(", "), make("span", { className: "attribute" }, `${name} `, make("bdi", {}, shown)));
  }
  for (const { matcher, ranks } of others) {
    if (!ranks.size) continue;
    const rank = ranks.get(product.id);
    facts.append(
      spoken(rank ? `, rank ${rank} in ${matcher.label}` : `, not in ${matcher.label}`),
      drawn(rank ? "other" : "other other-none", `${shortName(matcher)} ${rank ?? "–"}`),
    );
  }
  return facts;
}

/** Controls: what was asked for, and what can be asked for? */

import { byId, count, make, setFieldError } from "./dom.js";
import { isAllowed, NUMBERS, readNumber } from "./view.js";

const PAUSES = { q: 120, where: 400 }; // milliseconds without a key
const PAUSE = 250; // for a number

/** Call `ask(isStep)` when the controls have settled; Enter does not wait. */
export function watchControls(ask) {
  let timer = null;
  const settle = (isStep) => {
    clearTimeout(timer);
    if (areNumbersRight()) ask(isStep);
  };
  const form = byId("search");
  form.addEventListener("input", (event) => {
    clearTimeout(timer);
    const isBox = event.target.type === "checkbox";
    timer = setTimeout(settle, isBox ? 0 : (PAUSES[event.target.id] ?? PAUSE), false);
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    settle(true);
  });
  byId("more").addEventListener("click", () => {
    const isOpen = form.classList.toggle("is-open");
    byId("more").setAttribute("aria-expanded", String(isOpen));
  });
}

/** The part of the view that the controls show; columns only once they are known. */
export function readControls() {
  const boxes = [...byId("shown").querySelectorAll("input")];
  const chosen = boxes.filter((box) => box.checked).map((box) => box.value);
  const isUsual = boxes.every((box) => box.checked === (box.dataset.isUsual === "true"));
  const numbers = Object.keys(NUMBERS).map((name) => [name, readNumber(name, byId(name).value)]);
  return {
    q: byId("q").value,
    where: byId("where").value.trim(),
    ...Object.fromEntries(numbers),
    ...(boxes.length && { columns: chosen.length === 0 || isUsual ? null : chosen }),
  };
}

/** Set the controls to the view. */
export function fillControls(view) {
  for (const field of ["q", "where", ...Object.keys(NUMBERS)]) {
    if (byId(field).value !== String(view[field])) byId(field).value = view[field];
  }
  checkColumns(view);
}

function checkColumns({ columns }) {
  for (const box of byId("shown").querySelectorAll("input")) {
    box.checked = columns?.includes(box.value) ?? box.dataset.isUsual === "true";
  }
}

/** Show the model, and offer its columns, attributes and examples. */
export function drawModel(model, view, useExample) {
  byId("model").textContent = `${count(model.products, "product")} · model ${model.model_version}`;
  const boxes = model.matchers.map(drawBox);
  const parts = model.matchers.findIndex(({ part_of: whole }) => whole !== null);
  if (parts >= 0) boxes.splice(parts, 0, make("span", { className: "hint" }, "Parts of the match set:"));
  byId("shown").replaceChildren(byId("shown").firstElementChild, ...boxes);
  byId("shown").hidden = model.matchers.length === 1;
  byId("examples").replaceChildren(...model.examples.map((query) => drawExample(query, useExample)));
  byId("start-title").hidden = !model.examples.length;
  byId("k").max = model.limits.k;
  byId("beam").max = model.limits.beam;
  byId("beam-field").hidden = !model.matchers.some(({ has_beam: hasBeam }) => hasBeam);
  byId("score-hint").textContent = explainScores(model);
  drawAttributes(model.attributes);
  checkColumns(view); // nothing else: a query may be half typed
}

/** Whether a matcher has a column unless one chooses: parts of a match set have not. */
export function isUsual(matcher) {
  return matcher.part_of === null;
}

function drawBox(matcher) {
  const { name, label } = matcher;
  const data = { isUsual: String(isUsual(matcher)) };
  const box = make("input", { type: "checkbox", value: name, data });
  return make("label", { className: "box" }, box, label);
}

function explainScores({ matchers: [model] }) {
  const meaning =
    model.name === "match_set"
      ? "A score of the match set is the chance that customers want the product."
      : `Min score is on the scale of ${model.label}.`;
  return `${meaning} Min share is the share of a query's best score.`;
}

function drawExample(query, useExample) {
  const button = make("button", { type: "button", className: "chip", dir: "auto" }, query);
  button.addEventListener("click", () => useExample(query));
  return make("li", {}, button);
}

function drawAttributes(attributes) {
  const kinds = Map.groupBy(attributes, ({ type }) => type);
  const lists = [...kinds].map(([kind, of]) => `${of.map(({ name }) => name).join(", ")} (${kind})`);
  byId("where-hint").textContent = lists.length
    ? `Filter by ${lists.join("; ")}.`
    : "The catalog has no attributes to filter by.";
  byId("where").disabled = !attributes.length;
  byId("where").placeholder = exampleFilter(attributes);
}

function exampleFilter(attributes) {
  const number = attributes.find(({ type }) => type === "number");
  if (number) return `${number.name} < 100`;
  return attributes.length ? `${attributes[0].name} is not null` : "";
}

/** Whether every number is allowed; shows the rule at those that are not. */
export function areNumbersRight() {
  const names = Object.keys(NUMBERS);
  // A browser gives "" for a text that is no number, and says so elsewhere.
  const isRight = (name) => isAllowed(name, byId(name).value) && !byId(name).validity.badInput;
  for (const name of names) setFieldError(name, isRight(name) ? "" : NUMBERS[name].rule);
  return names.every(isRight);
}

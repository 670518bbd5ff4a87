/** Controls: what was asked for, and what can be asked for? */

import { byId, count, make, setFieldError } from "./dom.js";
import { positive } from "./view.js";

const PAUSES = { q: 120, where: 400, k: 250, beam: 250 }; // milliseconds without a key

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
    timer = setTimeout(settle, PAUSES[event.target.id] ?? 0, false);
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    settle(true);
  });
}

/** The part of the view that the controls show; columns only once they are known. */
export function readControls() {
  const boxes = [...byId("shown").querySelectorAll("input")];
  const chosen = boxes.filter((box) => box.checked).map((box) => box.value);
  const isAll = chosen.length === 0 || chosen.length === boxes.length;
  return {
    q: byId("q").value,
    where: byId("where").value.trim(),
    k: positive(byId("k").value, 1),
    beam: positive(byId("beam").value, 1),
    ...(boxes.length && { columns: isAll ? null : chosen }),
  };
}

/** Set the controls to the view. */
export function fillControls(view) {
  for (const field of ["q", "where", "k", "beam"]) {
    if (byId(field).value !== String(view[field])) byId(field).value = view[field];
  }
  checkColumns(view);
}

function checkColumns({ columns }) {
  for (const box of byId("shown").querySelectorAll("input")) {
    box.checked = columns?.includes(box.value) ?? true;
  }
}

/** Show the model, and offer its columns, attributes and examples. */
export function drawModel(model, view, useExample) {
  byId("model").textContent = `${count(model.products, "product")} · model ${model.model_version}`;
  byId("shown").replaceChildren(byId("shown").firstElementChild, ...model.matchers.map(drawBox));
  byId("shown").hidden = false;
  byId("examples").replaceChildren(...model.examples.map((query) => drawExample(query, useExample)));
  byId("start-title").hidden = !model.examples.length;
  byId("k").max = model.limits.k;
  byId("beam").max = model.limits.beam;
  drawAttributes(model.attributes);
  checkColumns(view); // nothing else: a query may be half typed
}

function drawBox({ name, label }) {
  return make("label", { className: "box" }, make("input", { type: "checkbox", value: name }), label);
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

function areNumbersRight() {
  const wrong = ["k", "beam"].filter((field) => positive(byId(field).value, 0) === 0);
  for (const field of ["k", "beam"]) {
    const sentence = `${field} must be a whole number of at least 1`;
    setFieldError(field, wrong.includes(field) ? sentence : "");
  }
  return wrong.length === 0;
}

/** Dom: how is an element made, with text that is never markup? */

/** The element of the page with this id. */
export function byId(id) {
  return document.getElementById(id);
}

/**
 * A new element. Properties are set as such, those with a dash as attributes; children are
 * elements or text, and text stays text.
 */
export function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.includes("-") || name === "role") element.setAttribute(name, value);
    else if (name === "data") Object.assign(element.dataset, value);
    else element[name] = value;
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

/** Text for screen readers only. */
export function spoken(text) {
  return make("span", { className: "spoken" }, text);
}

/** A mark that screen readers skip. */
export function drawn(className, text) {
  return make("span", { className, "aria-hidden": "true" }, text);
}

/** Show an error at a field, or remove it with "". */
export function setFieldError(id, sentence) {
  const error = byId(`${id}-error`);
  error.textContent = sentence;
  error.hidden = sentence === "";
  byId(id).setAttribute("aria-invalid", String(sentence !== ""));
}

/** A score with three significant digits; null was not a number. */
export function showScore(score) {
  if (score === null) return "–";
  const size = Math.abs(score);
  if (size !== 0 && size < 0.001) return score.toExponential(1);
  return size >= 100 ? score.toFixed(0) : score.toPrecision(3);
}

/** A time in microseconds or milliseconds. */
export function showTime(microseconds) {
  if (microseconds < 1000) return `${Math.round(microseconds)} µs`;
  const milliseconds = microseconds / 1000;
  return `${milliseconds.toFixed(milliseconds < 10 ? 1 : 0)} ms`;
}

/** "1 product", "2,000 products". */
export function count(number, noun) {
  return `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;
}

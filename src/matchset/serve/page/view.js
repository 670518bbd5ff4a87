/** View: what does the address bar show? */

export const DEFAULT_K = 50;

// What a number must be; "" stands for none where a field may be empty.
export const NUMBERS = {
  k: { isRight: isPositive, rule: "k must be a whole number of at least 1" },
  min_score: { isRight: isNumber, rule: "min score must be a number", mayBeEmpty: true },
  min_relative: { isRight: isShare, rule: "min share must be from 0 to 1", mayBeEmpty: true },
  beam: { isRight: isPositive, rule: "beam must be a whole number of at least 1", mayBeEmpty: true },
};

/**
 * What is shown: query, filter, numbers ("": the model's own), columns (null: the usual ones), the
 * opened product ("": none) and its column, and the column that a narrow screen shows ("": the first).
 */
export function readView(search) {
  const given = new URLSearchParams(search);
  const numbers = Object.keys(NUMBERS).map((name) => [name, readNumber(name, given.get(name) ?? "")]);
  return {
    q: given.get("q") ?? "",
    where: given.get("where") ?? "",
    ...Object.fromEntries(numbers),
    columns: given.get("columns")?.split(",").filter(Boolean) ?? null,
    product: given.get("product") ?? "",
    column: given.get("column") ?? "",
    tab: given.get("tab") ?? "",
  };
}

/** The address of a view, without defaults. */
export function writeView(view) {
  const given = new URLSearchParams();
  for (const name of ["q", "where"]) if (view[name]) given.set(name, view[name]);
  for (const name of Object.keys(NUMBERS)) {
    if (view[name] !== defaultOf(name)) given.set(name, view[name]);
  }
  if (view.columns) given.set("columns", view.columns.join(","));
  if (view.tab) given.set("tab", view.tab);
  if (view.product) {
    given.set("product", view.product);
    if (view.column) given.set("column", view.column);
  }
  const search = given.toString();
  return search ? `?${search}` : location.pathname;
}

/** Whether a text is a number that a field takes. */
export function isAllowed(name, text) {
  const { isRight, mayBeEmpty } = NUMBERS[name];
  return text.trim() === "" ? Boolean(mayBeEmpty) : isRight(Number(text));
}

/** The number that a text stands for, or else the default. */
export function readNumber(name, text) {
  return text.trim() !== "" && isAllowed(name, text) ? Number(text) : defaultOf(name);
}

function defaultOf(name) {
  return name === "k" ? DEFAULT_K : "";
}

function isPositive(number) {
  return Number.isInteger(number) && number >= 1;
}

function isNumber(number) {
  return Number.isFinite(number);
}

function isShare(number) {
  return number >= 0 && number <= 1;
}

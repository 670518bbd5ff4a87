/** View: what does the address bar show? */

export const DEFAULT_K = 50;
export const DEFAULT_BEAM = 10;

/**
 * What is shown: query, filter, k, beam, columns (null: all), the opened product ("": none), and
 * the column that a narrow screen shows ("": the first).
 */
export function readView(search) {
  const given = new URLSearchParams(search);
  return {
    q: given.get("q") ?? "",
    where: given.get("where") ?? "",
    k: positive(given.get("k"), DEFAULT_K),
    beam: positive(given.get("beam"), DEFAULT_BEAM),
    columns: given.get("columns")?.split(",").filter(Boolean) ?? null,
    product: given.get("product") ?? "",
    tab: given.get("tab") ?? "",
  };
}

/** The address of a view, without defaults. */
export function writeView(view) {
  const given = new URLSearchParams();
  if (view.q) given.set("q", view.q);
  if (view.where) given.set("where", view.where);
  if (view.k !== DEFAULT_K) given.set("k", view.k);
  if (view.beam !== DEFAULT_BEAM) given.set("beam", view.beam);
  if (view.columns) given.set("columns", view.columns.join(","));
  if (view.tab) given.set("tab", view.tab);
  if (view.product) given.set("product", view.product);
  const search = given.toString();
  return search ? `?${search}` : location.pathname;
}

/** A whole number of at least 1, or else the other value. */
export function positive(text, otherwise) {
  const number = Number(text);
  return Number.isInteger(number) && number >= 1 ? number : otherwise;
}

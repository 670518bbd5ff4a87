/** Search: what does every matcher find, and what is known to be right? */

import { get, RequestError } from "./api.js";
import { answered, handle } from "./connection.js";
import { NUMBERS } from "./view.js";

const SLOW = 250; // milliseconds until columns are shown one by one
const CONTROLS = ["q", "where", ...Object.keys(NUMBERS)]; // parameters with a control of the same name

let running = null;

/** Cancel the running search. */
export function stopSearch() {
  running?.abort();
  running = null;
}

/**
 * Query the matchers and call `show({columns, bought, isDone, error})` when all have answered, and
 * earlier if some are slow. A new search cancels the one before.
 */
export async function search(view, matchers, model, show) {
  stopSearch();
  const mine = (running = new AbortController());
  const found = { columns: matchers.map(emptyColumn), bought: null, isDone: false, error: null };
  let isLate = false;
  const showIfCurrent = () => running === mine && show(found);
  const hasAnswer = () => found.columns.some(({ answer }) => answer);
  const step = () => isLate && !found.error && hasAnswer() && showIfCurrent();
  const late = setTimeout(() => {
    isLate = true;
    step();
  }, SLOW);
  const attributes = filteredBy(view.where, model.attributes).join(",");
  const tasks = found.columns.map((column) => {
    const asked = { ...optionsOf(column.matcher, view, model), attributes };
    return fillColumn(column, asked, mine.signal, found).then(step);
  });
  if (model.has_purchases) tasks.push(fillBought(view, mine.signal, found).then(step));
  await Promise.all(tasks);
  clearTimeout(late);
  found.isDone = true;
  showIfCurrent();
}

function emptyColumn(matcher) {
  return { matcher, answer: null, roundTrip: 0, error: "" };
}

/** What is asked of a matcher; a least score is one of the model's scale, and for it alone. */
export function optionsOf({ name, has_beam: hasBeam }, view, model) {
  const isModel = name === model.matchers[0].name;
  return {
    q: view.q,
    k: view.k,
    where: view.where,
    min_score: isModel ? view.min_score : "",
    min_relative: view.min_relative,
    beam: hasBeam ? view.beam : "",
    matcher: name,
  };
}

/** Names of the attributes that a filter mentions. */
function filteredBy(where, attributes) {
  const outside = where.replace(/'(?:[^'\\]|\\.)*'?|"(?:[^"\\]|\\.)*"?/g, " "); // of texts
  const words = new Set(outside.match(/`[^`]*`|[\p{L}_][\p{L}\p{N}_]*/gu));
  const isNamed = (name) => words.has(name) || words.has(`\`${name}\``);
  return attributes.map(({ name }) => name).filter((name) => isNamed(name) && !name.includes(","));
}

async function fillColumn(column, parameters, signal, found) {
  const start = performance.now();
  try {
    column.answer = await get("v1/match", parameters, signal);
    column.roundTrip = performance.now() - start;
    answered();
  } catch (error) {
    if (signal.aborted) return;
    const { parameter, message } = error;
    if (handle(error)) found.error = { field: "", message: "" };
    else if (CONTROLS.includes(parameter)) found.error = { field: parameter, message };
    else if (error instanceof RequestError) column.error = message;
    else throw error;
  }
}

async function fillBought(view, signal, found) {
  try {
    found.bought = new Set((await get("v1/purchases", { q: view.q }, signal)).products);
  } catch (error) {
    if (!signal.aborted && !handle(error) && !(error instanceof RequestError)) throw error;
  }
}

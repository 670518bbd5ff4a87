/** Search: what does every matcher find, and what was bought? */

import { get, RequestError } from "./api.js";
import { answered, handle } from "./connection.js";

const SLOW = 250; // milliseconds until columns are shown one by one
const CONTROLS = ["q", "where", "k", "beam"]; // parameters that have a control of the same name

let running = null;

/** Cancel the running search. */
export function stopSearch() {
  running?.abort();
  running = null;
}

/**
 * Query every matcher and call `show({columns, bought, isDone, error})` when all have answered, and
 * earlier if some are slow. A new search cancels the one before.
 */
export async function search(view, matchers, hasPurchases, show) {
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
  const tasks = found.columns.map((column) => fillColumn(column, view, mine.signal, found).then(step));
  if (hasPurchases) tasks.push(fillBought(view, mine.signal, found).then(step));
  await Promise.all(tasks);
  clearTimeout(late);
  found.isDone = true;
  showIfCurrent();
}

function emptyColumn(matcher) {
  return { matcher, answer: null, roundTrip: 0, error: "" };
}

async function fillColumn(column, view, signal, found) {
  const { name, has_beam: hasBeam } = column.matcher;
  const parameters = { q: view.q, k: view.k, where: view.where, matcher: name };
  if (hasBeam) parameters.beam = view.beam;
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

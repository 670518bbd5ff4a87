/** Search: what does every matcher answer to the view, and who bought what? */

import { get, Refused } from "./api.js";
import { answered, handle } from "./connection.js";

const PATIENCE = 250; // milliseconds until columns are shown one by one

// The control that a refusal is about, by its code.
const FIELDS = {
  query_too_long: "q",
  bad_filter: "where",
  filter_too_long: "where",
  k_out_of_range: "k",
  beam_out_of_range: "beam",
};

let running = null;

/** Forget what is being asked. */
export function stopSearch() {
  running?.abort();
  running = null;
}

/**
 * Ask every matcher for the view and call `show({columns, bought, isDone, fault})` when all have
 * answered, and before that where some are slow. A later search makes an earlier one fall silent.
 */
export async function search(view, matchers, hasBought, show) {
  stopSearch();
  const mine = (running = new AbortController());
  const found = { columns: matchers.map(emptyColumn), bought: null, isDone: false, fault: null };
  let isLate = false;
  const tell = () => running === mine && show(found);
  const late = setTimeout(() => (isLate = true) && !found.fault && tell(), PATIENCE);
  const step = () => isLate && !found.fault && tell();
  const tasks = found.columns.map((column) => fillColumn(column, view, mine.signal, found).then(step));
  if (hasBought) tasks.push(fillBought(view, mine.signal, found).then(step));
  await Promise.all(tasks);
  clearTimeout(late);
  found.isDone = true;
  tell();
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
    if (handle(error)) found.fault = { field: "", message: "" };
    else if (FIELDS[error.code]) found.fault = { field: FIELDS[error.code], message: error.message };
    else if (error instanceof Refused) column.error = error.message;
    else throw error;
  }
}

async function fillBought(view, signal, found) {
  try {
    found.bought = new Set((await get("v1/bought", { q: view.q }, signal)).products);
  } catch (error) {
    if (!signal.aborted && !handle(error) && !(error instanceof Refused)) throw error;
  }
}

/** Api: how does the page ask the server, and what can go wrong? */

const KEY = "matchset-key";
const PATIENCE = 15_000; // milliseconds for one answer

/** The server answered, and refused: its code and its sentence. */
export class Refused extends Error {
  constructor(status, code, message, retryAfter) {
    super(message);
    this.status = status;
    this.code = code;
    this.retryAfter = retryAfter; // seconds
  }
}

/** Nobody answered. */
export class Unreachable extends Error {}

let key = sessionStorage.getItem(KEY) ?? "";

/** Keep the key until the tab is closed; "" forgets it. */
export function setKey(value) {
  key = value;
  if (value) sessionStorage.setItem(KEY, value);
  else sessionStorage.removeItem(KEY);
}

/** Is a key kept? */
export function hasKey() {
  return key !== "";
}

/** GET a path with these parameters; those that are "" or null are left out. */
export function get(path, parameters = {}, signal = undefined) {
  const given = Object.entries(parameters).filter(([, value]) => value !== "" && value !== null);
  const query = new URLSearchParams(given).toString();
  return ask(query ? `${path}?${query}` : path, { signal });
}

/** POST a body as JSON. */
export function post(path, body, signal = undefined) {
  const headers = { "Content-Type": "application/json" };
  return ask(path, { method: "POST", body: JSON.stringify(body), headers, signal });
}

/** Does the server take requests? Never an error. */
export async function isReady() {
  try {
    const answer = await fetch("readyz", { cache: "no-store", signal: AbortSignal.timeout(3000) });
    return answer.ok;
  } catch {
    return false;
  }
}

async function ask(path, options) {
  const headers = { ...options.headers, ...(key && { Authorization: `Bearer ${key}` }) };
  const timeout = AbortSignal.timeout(PATIENCE);
  const signal = options.signal ? AbortSignal.any([options.signal, timeout]) : timeout;
  try {
    const answer = await fetch(path, { ...options, headers, signal, cache: "no-store" });
    const body = await answer.text();
    if (answer.ok) return JSON.parse(body);
    throw refusal(answer, body);
  } catch (error) {
    if (error instanceof Refused || options.signal?.aborted) throw error;
    throw new Unreachable(String(error), { cause: error });
  }
}

function refusal(answer, body) {
  const retryAfter = Number(answer.headers.get("Retry-After")) || 1;
  try {
    const { code, message } = JSON.parse(body).error;
    return new Refused(answer.status, code, message, retryAfter);
  } catch {
    // Whatever stands between the page and the server speaks for itself.
    return new Refused(answer.status, "", `The server answered ${answer.status}.`, retryAfter);
  }
}

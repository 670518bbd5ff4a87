/** Api: how does the page ask the server, and what can go wrong? */

const KEY = "matchset-key";
const TIMEOUT = 15_000; // milliseconds for one response

/** The server answered with an error: its code, its message and the parameter at fault. */
export class RequestError extends Error {
  constructor(status, { code = "", message = "", parameter = "" }, retryAfter) {
    super(message);
    this.status = status;
    this.code = code;
    this.parameter = parameter;
    this.retryAfter = retryAfter; // seconds
  }
}

/** There was no response. */
export class Unreachable extends Error {}

let key = sessionStorage.getItem(KEY) ?? "";

/** Keep the key until the tab is closed; "" removes it. */
export function setKey(value) {
  key = value;
  if (value) sessionStorage.setItem(KEY, value);
  else sessionStorage.removeItem(KEY);
}

/** Whether there is a key. */
export function hasKey() {
  return key !== "";
}

/** GET a path with these parameters, without those that are "" or null. */
export function get(path, parameters = {}, signal = undefined) {
  const given = Object.entries(parameters).filter(([, value]) => value !== "" && value !== null);
  const query = new URLSearchParams(given).toString();
  return request(query ? `${path}?${query}` : path, { signal });
}

/** POST a body as JSON. */
export function post(path, body, signal = undefined) {
  const headers = { "Content-Type": "application/json" };
  return request(path, { method: "POST", body: JSON.stringify(body), headers, signal });
}

/** Whether the server takes requests. */
export async function isReady() {
  try {
    const response = await fetch("readyz", { cache: "no-store", signal: AbortSignal.timeout(3000) });
    return response.ok;
  } catch {
    return false;
  }
}

/** Send a request with the key, limited in time. */
export function send(path, options) {
  const headers = { ...options.headers, ...(key && { Authorization: `Bearer ${key}` }) };
  const timeout = AbortSignal.timeout(TIMEOUT);
  const signal = options.signal ? AbortSignal.any([options.signal, timeout]) : timeout;
  return fetch(path, { ...options, headers, signal, cache: "no-store" });
}

async function request(path, options) {
  try {
    const response = await send(path, options);
    const body = await response.text();
    if (response.ok) return JSON.parse(body);
    throw toError(response, body);
  } catch (error) {
    if (error instanceof RequestError || options.signal?.aborted) throw error;
    throw new Unreachable(String(error), { cause: error });
  }
}

function toError({ status, headers }, body) {
  const retryAfter = Number(headers.get("Retry-After")) || 1;
  try {
    return new RequestError(status, JSON.parse(body).error, retryAfter);
  } catch {
    // A proxy answered instead of the server.
    return new RequestError(status, { message: `The server answered ${status}.` }, retryAfter);
  }
}

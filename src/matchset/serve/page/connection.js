/** Connection: what happens while the server is away or busy, or needs a key? */

import { hasKey, isReady, setKey, Unreachable } from "./api.js";
import { byId } from "./dom.js";

const DELAYS = [1, 2, 4, 8, 15]; // seconds to the next try; the last stays
const SENDABLE = /^[!-~]+$/; // in a header

let tries = 0;
let timer = null;
let onReturn = () => {};

/** Set up the notice and the key dialog; `action` runs when the server is back. */
export function watchConnection(action) {
  onReturn = action;
  byId("notice-retry").addEventListener("click", tryNow);
  addEventListener("online", () => timer !== null && tryNow());
  document.addEventListener("visibilitychange", () => {
    if (timer !== null && !document.hidden) tryNow();
  });
  byId("key-form").addEventListener("submit", useKey);
  byId("key").addEventListener("cancel", () => notify("This server needs an API key."));
  byId("forget-key").addEventListener("click", () => {
    setKey("");
    location.reload();
  });
}

/** Handle an error that is not about the request itself; false if it is. */
export function handle(error) {
  if (error instanceof Unreachable) retry("The server does not answer. Retrying…");
  else if (error.status === 429 || error.status === 503) {
    retry("The server is busy. Retrying…", error.retryAfter);
  } else if (error.status === 401) askKey();
  else return false;
  return true;
}

/** The server answered: clear the notice. */
export function answered() {
  tries = 0;
  clearTimeout(timer);
  timer = null;
  byId("notice").hidden = true;
  byId("forget-key").hidden = !hasKey();
}

function notify(text) {
  // A screen reader reads out what changes, so the same text is not set twice.
  if (byId("notice-text").textContent !== text) byId("notice-text").textContent = text;
  byId("notice").hidden = false;
}

function retry(text, atLeast = 0) {
  notify(text);
  if (timer !== null) return;
  const delay = Math.max(DELAYS[Math.min(tries, DELAYS.length - 1)], atLeast);
  tries += 1;
  timer = setTimeout(tryNow, delay * 1000 * (0.8 + 0.4 * Math.random()));
}

async function tryNow() {
  clearTimeout(timer);
  timer = null;
  if (await isReady()) onReturn();
  else retry("The server does not answer. Retrying…");
}

function askKey() {
  if (byId("key").open) return; // every column gets the same error
  showKeyError(hasKey() ? "The server did not accept this key." : "");
  setKey("");
  byId("key").showModal();
  byId("key-input").focus();
}

function showKeyError(sentence) {
  byId("key-error").textContent = sentence;
  byId("key-error").hidden = sentence === "";
}

function useKey(event) {
  const key = byId("key-input").value.trim();
  if (!SENDABLE.test(key)) {
    event.preventDefault();
    showKeyError("A key consists of printable ASCII characters, without spaces.");
    return;
  }
  setKey(key);
  byId("key-input").value = "";
  onReturn();
}

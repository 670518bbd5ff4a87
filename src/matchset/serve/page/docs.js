/** Docs: how does one try a request from its description? */

import { send, setKey } from "./api.js";
import { byId, make } from "./dom.js";

const EXAMPLE = "http://127.0.0.1:8080"; // the address in examples

/** Put this server's address into the commands, and a button beside each that copies it. */
function completeCommands() {
  for (const command of document.querySelectorAll(".curl")) {
    command.textContent = command.textContent.replace(EXAMPLE, location.origin);
    if (!navigator.clipboard) continue; // only where the page came over a safe connection
    const button = make("button", { type: "button", className: "button" }, "Copy");
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(command.textContent);
      button.textContent = "Copied";
      setTimeout(() => (button.textContent = "Copy"), 1500);
    });
    const box = make("div", { className: "copied" });
    command.replaceWith(box);
    box.append(command, button);
  }
}

async function tryRequest(event) {
  event.preventDefault();
  const form = event.target;
  const { method, path } = form.dataset;
  const fields = [...new FormData(form)].filter(([, value]) => value !== "");
  const body = fields.find(([name]) => name === "body")?.[1];
  const isInPath = ([name]) => path.includes(`{${name}}`);
  const given = fields.filter((field) => field[0] !== "body" && !isInPath(field));
  const query = new URLSearchParams(given).toString();
  const place = (at, [name, value]) => at.replace(`{${name}}`, encodeURIComponent(value));
  const address = fields.filter(isInPath).reduce(place, path).slice(1) + (query ? `?${query}` : "");
  const headers = body === undefined ? {} : { "Content-Type": "application/json" };
  const start = performance.now();
  try {
    const response = await send(address, { method, body, headers });
    const text = await response.text();
    const milliseconds = Math.max(1, Math.round(performance.now() - start));
    if (response.status === 401) askKey();
    showAnswer(form, `${response.status} ${response.statusText}, ${milliseconds} ms`, text, response.ok);
  } catch {
    showAnswer(form, "The server does not answer.", "", false);
  }
}

function showAnswer(form, sentence, text, isGood) {
  const head = form.parentElement.querySelector(".answer-head");
  const answer = form.parentElement.querySelector(".answer");
  head.textContent = sentence;
  head.classList.toggle("is-bad", !isGood);
  answer.textContent = indent(text);
  answer.hidden = text === "";
}

function indent(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text; // not JSON, as metrics are not
  }
}

function askKey() {
  byId("key-form").hidden = false;
  byId("key-input").focus();
}

completeCommands();
for (const form of document.querySelectorAll(".try form")) form.addEventListener("submit", tryRequest);
byId("key-form").addEventListener("submit", (event) => event.preventDefault());
byId("key-input").addEventListener("input", (event) => setKey(event.target.value.trim()));

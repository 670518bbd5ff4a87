/** Docs: what does /openapi.json say, and how does one try a request from it? */

import { send, setKey } from "./api.js";
import { byId, make } from "./dom.js";

const code = (text, className = "") => make("code", { className }, text);

/** The document's schema behind a reference; of several choices the first that is not null. */
function resolve(schema, api) {
  const choices = (schema.anyOf ?? []).filter((choice) => choice.type !== "null");
  if (choices.length) return { ...resolve(choices[0], api), ...rest(schema) };
  return schema.$ref ? api.components.schemas[schema.$ref.split("/").pop()] : schema;
}

function rest({ anyOf, ...fields }) {
  return fields;
}

/** The rules of a field, a sentence each. */
function rules(schema, api) {
  const { description, minimum, maximum, minLength, maxLength, maxItems } = schema;
  const items = schema.items ? resolve(schema.items, api) : schema;
  const inner = Object.keys(items.properties ?? {});
  return [
    description,
    schema.enum && `One of ${schema.enum.join(", ")}.`,
    maximum !== undefined && `From ${minimum ?? schema.exclusiveMinimum} to ${maximum}.`,
    maxLength && (minLength ? `From ${minLength} to ${maxLength} characters.` : `At most ${maxLength} characters.`),
    maxItems && `At most ${maxItems} items.`,
    inner.length > 0 && `Fields: ${inner.join(", ")}.`,
    (schema.default ?? null) !== null && `Default: ${JSON.stringify(schema.default)}.`,
  ].filter(Boolean).join(" ");
}

function table(headers, rows) {
  const cells = (tag, row) => make("tr", {}, ...row.map((cell) => make(tag, {}, cell)));
  return make("table", {}, make("thead", {}, cells("th", headers)), make("tbody", {}, ...rows.map((row) => cells("td", row))));
}

/** A request as a command. */
function writeCommand(method, path, given, isBody) {
  const quote = (text) => `'${text.replaceAll("'", "'\\''")}'`;
  const place = path.replace(/{(\w+)}/, (_, name) => encodeURIComponent(given[name]));
  const asked = Object.entries(given).filter(([name]) => !path.includes(`{${name}}`));
  const verb = method === "GET" ? "" : ` -X ${method}`;
  const lines = [`curl${verb}${asked.length && !isBody ? " --get" : ""} ${location.origin}${place}`];
  if (isBody) lines.push("-H 'content-type: application/json'", `-d ${quote(JSON.stringify(given))}`);
  else lines.push(...asked.map(([name, value]) => `--data-urlencode ${quote(`${name}=${value}`)}`));
  return lines.join(" \\\n  ");
}

function showOperation(path, method, operation, api) {
  const id = operation.operationId;
  const content = operation.requestBody?.content["application/json"];
  const parameters = operation.parameters ?? [];
  const fields = content
    ? Object.entries(resolve(content.schema, api).properties)
    : parameters.map(({ name, description, schema }) => [name, { ...schema, description }]);
  const rows = fields.map(([name, field]) => {
    const schema = resolve(field, api);
    return [name, schema.type ?? "string", rules(schema, api)];
  });
  const examples = parameters.filter((one) => "example" in one).map((one) => [one.name, one.example]);
  const given = content?.example ?? Object.fromEntries(examples);
  const heading = make("span", { className: `method method-${method}` }, method.toUpperCase());
  byId("links").append(make("li", {}, make("a", { href: `#${id}` }, heading.cloneNode(true), ` ${path}`)));
  const command = make("pre", { className: "curl", tabIndex: 0 }, writeCommand(method.toUpperCase(), path, given, Boolean(content)));
  return make(
    "section",
    { id },
    make("h2", {}, heading, " ", code(path)),
    make("p", {}, `${operation.summary}.`),
    rows.length ? table(["name", "type", "meaning"], rows) : null,
    make("h3", {}, "Example"),
    command,
    makeForm(id, method.toUpperCase(), path, parameters, content),
  );
}

function makeForm(id, method, path, parameters, content) {
  const field = (name, input, label = name, className = "field") =>
    make("div", { className }, make("label", { htmlFor: `${id}-${name}` }, label), input);
  const fields = parameters.map(({ name, schema, example }) => {
    const options = schema.type === "boolean" ? ["true", "false"] : schema.enum;
    const input = options
      ? make("select", {}, ...["", ...options].map((option) => make("option", {}, option)))
      : make("input", { type: "text", value: example ?? "", placeholder: schema.default ?? "", autocomplete: "off" });
    return field(name, Object.assign(input, { id: `${id}-${name}`, name }));
  });
  if (content) {
    const text = JSON.stringify(content.example, null, 2);
    const area = make("textarea", { id: `${id}-body`, name: "body", rows: 6, spellcheck: false }, text);
    fields.push(field("body", area, "Body", "field wide"));
  }
  const button = make("button", { className: "button button-main", type: "submit" }, "Send");
  const form = make("form", { noValidate: true }, make("div", { className: "fields" }, ...fields), button);
  const head = make("p", { className: "answer-head", role: "status" });
  const answer = make("pre", { className: "answer", tabIndex: 0, hidden: true });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    tryRequest(method, path, new FormData(form), head, answer);
  });
  return make("details", { className: "try" }, make("summary", {}, "Try it"), form, head, answer);
}

async function tryRequest(method, path, data, head, answer) {
  const given = [...data].filter(([, value]) => value !== "");
  const body = given.find(([name]) => name === "body")?.[1];
  const inPath = ([name]) => path.includes(`{${name}}`);
  const query = new URLSearchParams(given.filter((one) => one[0] !== "body" && !inPath(one)));
  const place = (at, [name, value]) => at.replace(`{${name}}`, encodeURIComponent(value));
  const address = given.filter(inPath).reduce(place, path).slice(1) + (query.size ? `?${query}` : "");
  const headers = body === undefined ? {} : { "Content-Type": "application/json" };
  const start = performance.now();
  let [sentence, text, isGood] = ["The server does not answer.", "", false];
  try {
    const response = await send(address, { method, body, headers });
    text = await response.text();
    isGood = response.ok;
    sentence = `${response.status} ${response.statusText}, ${Math.ceil(performance.now() - start)} ms`;
    if (response.status === 401) askKey();
  } catch {
    // The sentence says it.
  }
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

byId("key-form").addEventListener("submit", (event) => event.preventDefault());
byId("key-input").addEventListener("input", (event) => setKey(event.target.value.trim()));
const api = await (await fetch("openapi.json")).json();
const operations = Object.entries(api.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, operation]) => showOperation(path, method, operation, api)),
);
byId("operations").append(...operations);
byId("links").append(make("li", {}, make("a", { href: "#errors" }, "Errors")));
const codes = [...api.info.description.matchAll(/- `(\w+)` \((\d+)\): (.*)/g)];
byId("errors").append(table(["code", "status", "meaning"], codes.map(([, ...row]) => row)));

"""Docs: how does the server describe itself to people?"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from shlex import quote

from matchset.serve.http.validation import Json

ADDRESS = "http://127.0.0.1:8080"  # in examples; the page's script puts in its own
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title} API</title>
<link rel="icon" href="icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="page.css">
<link rel="stylesheet" href="docs.css">
<script type="module" src="docs.js"></script>
</head>
<body>
<a class="skip" href="#api">Skip to the description</a>
<header class="top">
<h1>{title} API</h1>
<p class="model">{summary}</p>
<a class="plain" href="./">Search page</a>
<a class="plain" href="openapi.json">openapi.json</a>
</header>
<div class="docs">
<nav aria-label="Operations"><ul>{links}</ul></nav>
<main id="api" tabindex="-1">
<p>Responses are JSON. Every error has a stable code, a message for people and, where one is at
fault, the name of the parameter. If the server was started with API keys, send one with every
request: <code>-H "authorization: Bearer KEY"</code>.</p>
<form id="key-form" class="key-form" hidden>
<label for="key-input">API key for “Try it”, kept until this tab is closed</label>
<input id="key-input" type="password" autocomplete="off">
</form>
{operations}
<section id="errors"><h2>Errors</h2>
{errors}
</section>
</main>
</div>
</body>
</html>
"""


def write_docs(document: Json, codes: Mapping[str, tuple[int, str]]) -> str:
    """An OpenAPI document as an HTML page."""
    listed = [
        (method.upper(), path, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    links = [
        _link(operation["operationId"], f"{_method(method)} {escape(path)}")
        for method, path, operation in listed
    ]
    rows = [[code, str(status), meaning] for code, (status, meaning) in codes.items()]
    schemas = document["components"]["schemas"]
    return _PAGE.format(
        title=escape(document["info"]["title"]),
        summary=escape(document["info"]["summary"]),
        links="".join([*links, _link("errors", "Errors")]),
        operations="\n".join(_write_operation(*each, schemas) for each in listed),
        errors=_table(["code", "status", "meaning"], rows),
    )


def _write_operation(method: str, path: str, operation: Json, schemas: Json) -> str:
    name = escape(operation["operationId"])
    parts = [
        f"<h2>{_method(method)} <code>{escape(path)}</code></h2>",
        f"<p>{escape(operation['summary'])}.</p>",
    ]
    parameters = operation.get("parameters", [])
    fields = {
        given["name"]: {**given["schema"], "description": given["description"]}
        for given in parameters
    }
    body = operation.get("requestBody", {}).get("content", {}).get("application/json")
    if body:
        fields |= schemas[body["schema"]["$ref"].rpartition("/")[2]]["properties"]
    if fields:
        rows = [[field, *_write_field(schema)] for field, schema in fields.items()]
        parts.append(_table(["name", "type", "meaning"], rows))
    given = body["example"] if body else _examples_of(parameters)
    curl = _write_curl(method, path, given)
    parts.append(f'<h3>Example</h3><pre class="curl" tabindex="0">{escape(curl)}</pre>')
    response = operation["responses"]["200"]["content"].get("application/json", {})
    if "example" in response:
        written = escape(json.dumps(response["example"], indent=2))
        parts.append(f'<pre class="response" tabindex="0">{written}</pre>')
    parts.append(_write_form(method, path, name, parameters, given if body else None))
    codes = [
        f"<code>{escape(code)}</code>"
        for response in operation["responses"].values()
        for code in response["content"].get("application/json", {}).get("examples", {})
    ]
    parts.append(f'<p class="hint">Errors: {", ".join(codes)}.</p>')
    return f'<section id="{name}">{"".join(parts)}</section>'


def _link(name: str, content: str) -> str:
    return f'<li><a href="#{escape(name)}">{content}</a></li>'


def _method(method: str) -> str:
    return f'<span class="method method-{method.lower()}">{escape(method)}</span>'


def _examples_of(parameters: Sequence[Json]) -> Json:
    return {given["name"]: given["example"] for given in parameters if "example" in given}


def _write_curl(method: str, path: str, given: Json) -> str:
    """A request as a command."""
    asked = {name: value for name, value in given.items() if f"{{{name}}}" not in path}
    path, given = path.format(**given) if given and method != "POST" else path, asked
    lines = [f"curl {ADDRESS}{path}"]
    if method == "POST":
        lines = [f"curl -X POST {ADDRESS}{path}"]
        if given:
            lines += ["-H 'content-type: application/json'", f"-d {quote(json.dumps(given))}"]
    elif given:
        verb = "" if method == "GET" else f" -X {method}"
        lines = [f"curl{verb} --get {ADDRESS}{path}"]
        lines += [f"--data-urlencode {quote(f'{name}={value}')}" for name, value in given.items()]
    return " \\\n  ".join(lines)


def _write_form(
    method: str, path: str, name: str, parameters: Sequence[Json], body: Json | None
) -> str:
    """A form that sends the request; the page's script makes it work."""
    fields = [_write_input(name, given) for given in parameters]
    if body is not None:
        text = escape(json.dumps(body, indent=2))
        fields.append(
            f'<div class="field wide"><label for="{name}-body">Body</label>'
            f'<textarea id="{name}-body" name="body" rows="6" spellcheck="false">{text}</textarea>'
            "</div>"
        )
    return (
        f'<details class="try"><summary>Try it</summary>'
        f'<form data-method="{escape(method)}" data-path="{escape(path)}" novalidate>'
        f'<div class="fields">{"".join(fields)}</div>'
        '<button class="button button-main" type="submit">Send</button></form>'
        '<p class="answer-head" role="status"></p><pre class="answer" tabindex="0" hidden></pre>'
        "</details>"
    )


def _write_input(operation: str, given: Json) -> str:
    name, schema = escape(given["name"]), given["schema"]
    choices = ["true", "false"] if schema["type"] == "boolean" else schema.get("enum")
    common = f'id="{operation}-{name}" name="{name}"'
    if choices:
        options = "".join(f"<option>{escape(choice)}</option>" for choice in ["", *choices])
        field = f"<select {common}>{options}</select>"
    else:
        value = escape(str(given.get("example", "")))
        default = escape(json.dumps(schema["default"])) if "default" in schema else ""
        field = (
            f'<input {common} type="text" value="{value}" placeholder="{default}" '
            'autocomplete="off" spellcheck="false">'
        )
    return f'<div class="field"><label for="{operation}-{name}">{name}</label>{field}</div>'


def _write_field(schema: Json) -> tuple[str, str]:
    """The type of a field, and a sentence for each of its rules."""
    kind = schema["type"]
    sentences = [schema.get("description", ""), *_write_rules(schema)]
    return " or ".join(kind) if isinstance(kind, list) else kind, " ".join(filter(None, sentences))


def _write_rules(schema: Json) -> Iterator[str]:
    if "enum" in schema:
        yield f"One of {', '.join(schema['enum'])}."
    if "minimum" in schema:
        yield f"From {schema['minimum']} to {schema['maximum']}."
    if "maxLength" in schema:
        least = f"From {schema['minLength']} to" if "minLength" in schema else "At most"
        yield f"{least} {schema['maxLength']} characters."
    if "maxItems" in schema:
        yield f"At most {schema['maxItems']} items."
    fields = schema.get("items", schema).get("properties")
    if fields is not None:
        yield f"Fields: {', '.join(fields)}."
    if "default" in schema:
        yield f"Default: {json.dumps(schema['default'])}."


def _table(headers: list[str], rows: list[list[str]]) -> str:
    head = "".join(f"<th>{escape(header)}</th>" for header in headers)
    body = "".join(
        f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"

"""Docs: how does the server describe itself to people?"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

from matchset.serve.http.validation import Json

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<link rel="icon" href="/icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="/docs.css">
</head>
<body>
<main>
<h1>{title}</h1>
<p>{summary} For programs: <a href="/openapi.json">/openapi.json</a>.</p>
{operations}
<h2>Errors</h2>
{errors}
</main>
</body>
</html>
"""


def write_docs(document: Json, codes: Mapping[str, tuple[int, str]]) -> str:
    """An OpenAPI document as an HTML page."""
    operations = [
        _write_operation(method, path, operation, document["components"]["schemas"])
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    rows = [[code, str(status), meaning] for code, (status, meaning) in codes.items()]
    return _PAGE.format(
        title=escape(document["info"]["title"]),
        summary=escape(document["info"]["summary"]),
        operations="\n".join(operations),
        errors=_table(["code", "status", "meaning"], rows),
    )


def _write_operation(method: str, path: str, operation: Json, schemas: Json) -> str:
    parts = [
        f"<h2><code>{escape(method.upper())} {escape(path)}</code></h2>",
        f"<p>{escape(operation['summary'])}.</p>",
    ]
    fields = {
        given["name"]: {**given["schema"], "description": given["description"]}
        for given in operation.get("parameters", [])
    }
    body = operation.get("requestBody", {}).get("content", {}).get("application/json")
    if body:
        fields |= schemas[body["schema"]["$ref"].rpartition("/")[2]]["properties"]
    if fields:
        rows = [[name, *_write_field(schema)] for name, schema in fields.items()]
        parts.append(_table(["name", "type", "meaning"], rows))
    if body:
        parts.append(_example("Request body", body["example"]))
    response = operation["responses"]["200"]["content"].get("application/json", {})
    if "example" in response:
        parts.append(_example("Response", response["example"]))
    codes = [
        f"<code>{escape(code)}</code>"
        for response in operation["responses"].values()
        for code in response["content"].get("application/json", {}).get("examples", {})
    ]
    parts.append(f"<p>Errors: {', '.join(codes)}.</p>")
    return f"<section>{''.join(parts)}</section>"


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
        yield f"At most {schema['maxLength']} characters."
    if "maxItems" in schema:
        yield f"At most {schema['maxItems']} items."
    if "properties" in schema:
        yield f"Fields: {', '.join(schema['properties'])}."
    if "default" in schema:
        yield f"Default: {json.dumps(schema['default'])}."


def _table(headers: list[str], rows: list[list[str]]) -> str:
    head = "".join(f"<th>{escape(header)}</th>" for header in headers)
    body = "".join(
        f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _example(name: str, value: Any) -> str:
    return f"<h3>{escape(name)}</h3><pre>{escape(json.dumps(value, indent=2))}</pre>"

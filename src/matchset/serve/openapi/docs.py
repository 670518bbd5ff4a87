"""Pages: what does a browser get?

The files of the page are few and small: they are read once. Nothing on them comes from another
host, and the headers of every answer forbid it.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from typing import Any

from matchset.serve.http.answers import Answer
from matchset.serve.openapi.schema import Json

_TYPES = {
    ".html": b"text/html; charset=utf-8",
    ".css": b"text/css; charset=utf-8",
    ".js": b"text/javascript; charset=utf-8",
    ".svg": b"image/svg+xml",
    ".png": b"image/png",
    ".ico": b"image/x-icon",
}


@dataclass(frozen=True, slots=True)
class PageFile:
    """A file as it is sent."""

    body: bytes
    type: bytes
    tag: bytes  # changes with the body

    def answer(self, known_tag: bytes | None) -> Answer:
        """The file, or that the browser has it."""
        headers = ((b"etag", self.tag), (b"cache-control", b"no-cache"))
        if known_tag == self.tag:
            return Answer(b"", 304, headers)
        return Answer(self.body, headers=((b"content-type", self.type), *headers))


def read_page() -> dict[str, PageFile]:
    """The files of the page by path; the index is at the root."""
    found: dict[str, PageFile] = {}
    for file in files("matchset.serve").joinpath("page").iterdir():
        suffix = f".{file.name.rpartition('.')[2]}"
        if suffix in _TYPES:
            found[f"/{file.name}"] = make_file(file.read_bytes(), _TYPES[suffix])
    if "/index.html" in found:
        found["/"] = found.pop("/index.html")
    return found


def make_file(body: bytes, kind: bytes) -> PageFile:
    """A file to send."""
    return PageFile(body, kind, b'"%b"' % hashlib.sha256(body).hexdigest()[:16].encode())


_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<link rel="stylesheet" href="/docs.css">
</head>
<body>
<main>
<h1>{title}</h1>
<p>{summary} The same for machines: <a href="/openapi.json">/openapi.json</a>.</p>
{operations}
<h2>Errors</h2>
{errors}
</main>
</body>
</html>
"""


def write_docs(document: Json, codes: dict[str, tuple[int, str]]) -> str:
    """A page of an OpenAPI document."""
    operations = [
        _write_operation(method, path, operation, document)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    rows = [[code, str(status), told] for code, (status, told) in codes.items()]
    return _PAGE.format(
        title=escape(document["info"]["title"]),
        summary=escape(document["info"]["summary"]),
        operations="\n".join(operations),
        errors=_table(["code", "status", "meaning"], rows),
    )


def _write_operation(method: str, path: str, operation: Json, document: Json) -> str:
    parts = [
        f"<h2><code>{escape(method.upper())} {escape(path)}</code></h2>",
        f"<p>{escape(operation['summary'])}.</p>",
    ]
    fields = [
        [given["name"], *_tell(given["schema"], given["description"])]
        for given in operation.get("parameters", [])
    ]
    body = operation.get("requestBody", {}).get("content", {}).get("application/json")
    if body:
        schema = _resolve(body["schema"], document)
        fields += [
            [name, *_tell(one, one.get("description", ""))]
            for name, one in schema["properties"].items()
        ]
    if fields:
        parts.append(_table(["name", "type", "meaning"], fields))
    if body:
        parts.append(_example("Body", body["example"]))
    answer = operation["responses"]["200"]["content"].get("application/json", {})
    if "example" in answer:
        parts.append(_example("Answer", answer["example"]))
    refused = [
        code
        for response in operation["responses"].values()
        for code in response["content"].get("application/json", {}).get("examples", {})
    ]
    listed = ", ".join(f"<code>{escape(code)}</code>" for code in refused)
    parts.append(f"<p>Errors: {listed}.</p>")
    return f"<section>{''.join(parts)}</section>"


def _tell(schema: Json, description: str) -> tuple[str, str]:
    ranges = [
        f"{word} {schema[key]}"
        for key, word in (
            ("minimum", "from"),
            ("maximum", "to"),
            ("maxLength", "at most"),
            ("maxItems", "at most"),
            ("default", "default"),
        )
        if key in schema
    ]
    kind = schema.get("type", "object")
    shown = " or ".join(kind) if isinstance(kind, list) else kind
    return shown, f"{description} {', '.join(ranges)}".strip()


def _resolve(schema: Json, document: Json) -> Any:
    name = schema.get("$ref", "").rpartition("/")[2]
    return document["components"]["schemas"][name] if name else schema


def _table(headers: list[str], rows: list[list[str]]) -> str:
    head = "".join(f"<th>{escape(header)}</th>" for header in headers)
    body = "".join(
        f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _example(name: str, value: Any) -> str:
    return f"<h3>{escape(name)}</h3><pre>{escape(json.dumps(value, indent=2))}</pre>"

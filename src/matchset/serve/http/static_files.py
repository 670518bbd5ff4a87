"""Static files: what does a browser get?

The page's files are few and small, so they are read once. They load nothing from other hosts, and
the headers of every response forbid it.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib.resources import files

from matchset.serve.http.responses import Response

_TYPES = {
    ".html": b"text/html; charset=utf-8",
    ".css": b"text/css; charset=utf-8",
    ".js": b"text/javascript; charset=utf-8",
    ".svg": b"image/svg+xml",
    ".png": b"image/png",
    ".ico": b"image/x-icon",
    ".json": b"application/json",
}


@dataclass(frozen=True, slots=True)
class StaticFile:
    """A file as it is sent."""

    body: bytes
    type: bytes
    etag: bytes  # changes with the body

    @classmethod
    def of(cls, body: bytes, suffix: str) -> StaticFile:
        """A file of a type."""
        return cls(body, _TYPES[suffix], b'"%b"' % hashlib.sha256(body).hexdigest()[:16].encode())

    def respond(self, known_etag: str | None) -> Response:
        """The file, or 304 if the browser has it."""
        headers = ((b"etag", self.etag), (b"cache-control", b"no-cache"))
        if known_etag is not None and known_etag.encode("latin-1") == self.etag:
            return Response(b"", 304, headers)
        return Response(self.body, headers=((b"content-type", self.type), *headers))


def read_page() -> dict[str, StaticFile]:
    """The page's files by path; its index is at the root."""
    found: dict[str, StaticFile] = {}
    for file in files("matchset.serve").joinpath("page").iterdir():
        suffix = f".{file.name.rpartition('.')[2]}"
        if suffix in _TYPES:
            path = "/" if file.name == "index.html" else f"/{file.name}"
            found[path] = StaticFile.of(file.read_bytes(), suffix)
    return found

"""Pages: what does a browser get?

The files of the page are few and small: they are read once. Nothing on them comes from another
host, and the headers of every answer forbid it.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib.resources import files

from matchset.serve.answers import Answer

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

"""Answers: how do products leave the server, fast?

Bodies are bytes from the start: product objects are written natively from the mapped model, the
little around them is joined here. Nothing is validated on the way out; the tests do that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from matchset import _native
from matchset.matchers.fused_match import FusedMatch
from matchset.matchers.match import Match
from matchset.serve.http.problems import RequestError

_JSON = (b"content-type", b"application/json")
Headers = Sequence[tuple[bytes, bytes]]


class Answer(Response):
    """A body of bytes that is ready to send, with few headers."""

    def __init__(self, body: bytes, status: int = 200, headers: Headers = (_JSON,)) -> None:
        self.status_code = status
        self.body = body
        self.background = None
        self.raw_headers = list(headers)
        if status != 304:  # which would have to tell the size of what it stands for (RFC 9110)
            self.raw_headers.append((b"content-length", b"%d" % len(body)))

    async def __call__(self, _: Scope, __: Receive, send: Send) -> None:
        """Send it."""
        start = {"status": self.status_code, "headers": self.raw_headers}
        await send({"type": "http.response.start", **start})
        await send({"type": "http.response.body", "body": self.body})


def json_answer(content: Any, status: int = 200, headers: Headers = ()) -> Answer:
    """Plain values as JSON."""
    return Answer(orjson.dumps(content), status, (_JSON, *headers))


def model_headers(version: str) -> Headers:
    """Headers of what a model answered."""
    return (_JSON, (b"x-model-version", version.encode()))


def error_answer(error: RequestError, request_id: str) -> Answer:
    """What a refused caller gets."""
    content = {
        "error": {"code": error.code, "message": error.message},
        "request_id": request_id,
    }
    return json_answer(content, error.status, error.headers)


def write_fused(match: FusedMatch, microseconds: int, *, has_titles: bool) -> bytes:
    """The same of a fused match, with the ranks of each product; unknown products lack a title."""
    products: list[dict[str, Any]] = []
    titles = match.titles if has_titles else None
    for place, (product, ranks) in enumerate(zip(match.ids, match.ranks, strict=True)):
        written: dict[str, Any] = {"id": product, "score": match.scores[place]}
        if titles is not None and titles[place]:
            written["title"] = titles[place]
        products.append({**written, "ranks": ranks})
    content = {"query": match.query, "microseconds": microseconds, "products": products}
    return orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY)[1:-1]


def write_result(match: Match, microseconds: int, *, has_titles: bool) -> tuple[bytes, ...]:
    """`"query":...,"microseconds":...,"products":[...]`, in pieces, to go into an object."""
    products = match.products
    titles = products.titles if has_titles else None
    written = _native.write_products(
        (products.ids.data, products.ids.offsets),
        None if titles is None else (titles.data, titles.offsets),
        match.labels,
        match.scores,
    )
    query = orjson.dumps(match.query)
    return b'"query":', query, b',"microseconds":%d,"products":' % microseconds, written

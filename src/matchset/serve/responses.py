"""Responses: how do products leave the server, fast?

Bodies are bytes from the start: product objects are written natively from the mapped model, and
the little around them is joined here, and only here. Nothing is validated on the way out; the
tests do that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from matchset import _native
from matchset.matchers.match import Match
from matchset.serve.request_errors import RequestError

JSON = (b"content-type", b"application/json")
_N_CACHED = 16  # versions of a model
Headers = Sequence[tuple[bytes, bytes]]


class Response(NamedTuple):
    """A body that is ready to send; its length is no header here, as it leaves in one place."""

    body: bytes
    status: int = 200
    headers: Headers = (JSON,)


def json_response(content: Any, status: int = 200, headers: Headers = ()) -> Response:
    """Return plain values as JSON."""
    return Response(msgspec.json.encode(content), status, (JSON, *headers))


def model_response(version: str, content: bytes | dict[str, Any]) -> Response:
    """Return a response of a model, which its body and a header name.

    Bytes are a whole body; the fields of a dict are put behind the model's version.
    """
    if not isinstance(content, bytes):
        content = msgspec.json.encode({"model_version": version, **content})
    return Response(content, 200, _name_version(version))


@lru_cache(maxsize=_N_CACHED)
def _name_version(version: str) -> Headers:
    return (JSON, (b"x-model-version", version.encode()))


def error_response(error: RequestError, request_id: str) -> Response:
    """Return what the caller of a failed request gets."""
    described = {"code": error.code, "message": error.message, **error.fields}
    content = {"error": described, "request_id": request_id}
    return json_response(content, error.status, error.headers)


def write_head(version: str, matcher: str) -> bytes:
    """Return the fields that every body of a matcher begins with."""
    return b'{"model_version":"%b","matcher":"%b",' % (version.encode(), matcher.encode())


def write_result(
    match: Match,
    microseconds: int,
    *,
    titles: bool,
    attributes: Sequence[Mapping[str, Any]] | None = None,
    origins: Sequence[str] | None = None,
) -> bytes:
    """Return one result: `{"query":...,"microseconds":...,"products":[...]}`.

    `attributes` are those of each product, if they are wanted, and `origins` the arms that the
    products came from.
    """
    if match.rank_table is not None or attributes is not None or origins is not None:
        products = _write_more(match, attributes, origins, titles=titles)
    else:
        products = _native.write_products(match.products.texts, match.labels, match.scores, titles)
    query = msgspec.json.encode(match.query)
    return b'{"query":%b,"microseconds":%d,"products":%b}' % (query, microseconds, products)


def _write_more(
    match: Match,
    attributes: Sequence[Mapping[str, Any]] | None,
    origins: Sequence[str] | None,
    *,
    titles: bool,
) -> bytes:
    """Return products with their attributes, ranks in the parts of a fusion, and arms.

    Those without a title lack the field.
    """
    known, ranks = match.titles if titles else None, match.ranks
    scores = match.scores.astype("U").astype(float).tolist()  # the shortest digits of a float32
    products: list[dict[str, Any]] = []
    for index, product in enumerate(match.ids):
        written: dict[str, Any] = {"id": product, "score": scores[index]}
        if known is not None and known[index]:
            written["title"] = known[index]
        if ranks is not None:
            written["ranks"] = ranks[index]
        if origins is not None:
            written["from"] = origins[index]
        if attributes is not None:
            written["attributes"] = attributes[index]
        products.append(written)
    return msgspec.json.encode(products)

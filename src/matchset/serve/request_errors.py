"""Request errors: how does a caller learn what is wrong?"""

from __future__ import annotations

from collections.abc import Sequence

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from matchset.errors import FilterError

CLOSE = ((b"connection", b"close"),)  # the rest of the request may be on its way, unread
RETRY = ((b"retry-after", b"1"),)  # header of an error that may be gone in a second
_MAX_SHOWN = 40  # characters of a value that a message repeats

# Every error code with its HTTP status and its meaning. Codes are stable; messages are not.
CODES: dict[str, tuple[int, str]] = {
    "bad_parameter": (400, "A parameter is missing, unknown, repeated or of the wrong type."),
    "bad_json": (400, "The body is not a JSON object."),
    "body_too_complex": (400, "The body has too many values, keys or levels, or a long string."),
    "bad_filter": (400, "The filter expression is invalid."),
    "query_too_long": (400, "A query has too many characters."),
    "too_many_queries": (400, "A batch has too many queries."),
    "too_many_products": (400, "A request writes too many products."),
    "filter_too_long": (400, "A filter has too many characters."),
    "too_many_candidates": (400, "A list of candidates is too long."),
    "k_out_of_range": (400, "k is below 1 or above its limit."),
    "beam_out_of_range": (400, "beam is below 1 or above its limit."),
    "unknown_matcher": (400, "There is no matcher with this name."),
    "response_too_large": (400, "The response would have too many bytes; ask for less at once."),
    "bad_host": (400, "The Host header names a host that this server does not answer for."),
    "unauthorized": (401, "The API key is missing or wrong."),
    "reload_forbidden": (403, "Reloading over HTTP needs a server with an API key."),
    "read_only": (403, "The server does not take products, or its model cannot."),
    "not_found": (404, "There is nothing at this path."),
    "unknown_product": (404, "The model does not know this product."),
    "cannot_explain": (404, "None of the served matchers can explain its results."),
    "no_experiment": (404, "The server was started without an experiment."),
    "no_log": (404, "The server was started without a log."),
    "method_not_allowed": (405, "The path does not support this method."),
    "body_too_slow": (408, "The body did not arrive in time."),
    "reload_running": (409, "Another reload is running."),
    "model_rejected": (409, "The new model cannot be served; the old one still is."),
    "body_too_large": (413, "The body has too many bytes."),
    "not_json": (415, "The content type of the body is not application/json."),
    "headers_too_large": (431, "The request line and headers have too many bytes."),
    "internal": (500, "The server failed; its log has the details."),
    "not_recorded": (503, "The disk is full, or too slow; nothing was recorded."),
    "overloaded": (503, "Too many concurrent requests; try again."),
    "not_written": (507, "The change could not be written; nothing changed."),
    "maybe_written": (507, "The change may be written; send it again with the same version."),
    "timeout": (504, "The request took too long."),
}


class RequestError(Exception):
    """A request that cannot be answered; `code` is one of `CODES`.

    `fields` (parameter, rule, position) are sent with the message, so that no client parses it.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        headers: Sequence[tuple[bytes, bytes]] = (),
        **fields: str | int,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.headers = headers
        self.fields = fields

    @property
    def status(self) -> int:
        """HTTP status."""
        return CODES[self.code][0]


def not_found() -> RequestError:
    """Return the error for a path that there is not."""
    return RequestError("not_found", "there is nothing at this path")


def wrong_method(allowed: Sequence[str]) -> RequestError:
    """Return the error for a path that does not support a method."""
    rule = f"the method must be {' or '.join(allowed)}; got another"
    allow = ", ".join(allowed).encode()
    return RequestError("method_not_allowed", rule, headers=((b"allow", allow),))


def too_large(most: int) -> RequestError:
    """Return the error for a response that is larger than the limit."""
    rule = f"a response must have at most {most} bytes; got more"
    return RequestError("response_too_large", f"{rule}; ask for fewer queries or products")


def shorten(value: object) -> str:
    """Return a value as an error message shows it."""
    if value is None:
        return "null"
    if isinstance(value, str):
        value = value[: _MAX_SHOWN + 1]  # a value may have megabytes
    text = repr(value) if isinstance(value, str | int | float | bool) else type(value).__name__
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}..."


def to_request_error(error: Exception) -> RequestError:
    """Return what a caller gets for an exception; an unexpected one is `internal`."""
    if isinstance(error, RequestError):
        return error
    if isinstance(error, ClientDisconnect):
        return RequestError("bad_json", "a body must be complete; got only a part of it")
    if isinstance(error, HTTPException):  # of Starlette's static files
        return not_found()
    if isinstance(error, FilterError):
        position = error.position or 0
        message = f"where: {error.rule} (at character {position + 1})"
        return RequestError(
            "bad_filter", message, parameter="where", rule=error.rule, position=position
        )
    return RequestError("internal", "the server failed; its log has the details")

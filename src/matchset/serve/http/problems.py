"""Refusals: how is a caller told what is wrong?"""

from __future__ import annotations

from collections.abc import Sequence

_SHOWN = 40  # characters of a value that a message repeats

# Every code there is, its status, and what it means. Codes are stable; sentences are not.
CODES: dict[str, tuple[int, str]] = {
    "bad_parameter": (400, "A parameter is missing, unknown, given twice, or of a wrong type."),
    "bad_json": (400, "The body is not JSON, or not an object."),
    "bad_filter": (400, "The filter breaks a rule of its language."),
    "query_too_long": (400, "A query has too many characters."),
    "too_many_queries": (400, "A batch has too many queries."),
    "filter_too_long": (400, "A filter has too many characters."),
    "too_many_candidates": (400, "A list of candidates is too long."),
    "k_out_of_range": (400, "k is below 1 or above its limit."),
    "beam_out_of_range": (400, "beam is below 1 or above its limit."),
    "unknown_matcher": (400, "There is no matcher of this name."),
    "bad_host": (400, "The Host header names a host that this server does not answer for."),
    "unauthorized": (401, "The API key is missing or wrong."),
    "reload_forbidden": (403, "Reloading by HTTP needs a server with an API key."),
    "not_found": (404, "There is nothing at this path."),
    "unknown_product": (404, "The model does not know this product."),
    "no_log": (404, "The server was started without a log."),
    "method_not_allowed": (405, "The path does not answer this method."),
    "body_too_slow": (408, "The body did not come in within its time."),
    "reload_running": (409, "A reload is under way."),
    "model_refused": (409, "The new model is bad; the old one is still served."),
    "body_too_large": (413, "The body has too many bytes."),
    "url_too_long": (414, "The query string has too many bytes."),
    "not_json": (415, "The body must be sent as application/json."),
    "internal": (500, "A fault of the server."),
    "overloaded": (503, "Too many requests at once; try again."),
    "timeout": (504, "The request took too long."),
    "reload_timeout": (504, "Not every worker has switched to the new model in time."),
}


class RequestError(Exception):
    """A request that gets no answer; `code` is one of `CODES`."""

    def __init__(
        self, code: str, message: str, headers: Sequence[tuple[bytes, bytes]] = ()
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.headers = headers

    @property
    def status(self) -> int:
        """HTTP status."""
        return CODES[self.code][0]


def bad(rule: str, value: object) -> RequestError:
    """A parameter that breaks a rule: the rule, and what was given."""
    shown = repr(value) if isinstance(value, str | int | float | bool) else type(value).__name__
    shown = shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}..."
    return RequestError("bad_parameter", f"{rule}; got {'null' if value is None else shown}")

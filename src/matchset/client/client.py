"""Client: how does a program use a matcher that runs on a server?"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, Self, overload

import numpy as np

from matchset.client.api_keys import read_key_lines
from matchset.client.assigned_match import AssignedMatch
from matchset.client.transport import Transport, encode
from matchset.errors import ServerError
from matchset.filters.filter import Filter, Where
from matchset.filters.parser import parse
from matchset.matchers.base import DEFAULT_K, check_k, to_texts
from matchset.matchers.explanation import Explanation
from matchset.matchers.match import Match, Matches, least_scores
from matchset.matrices import Csr, offsets_of
from matchset.model.products import Products
from matchset.strings import Strings

logger = logging.getLogger(__name__)
TIMEOUT = 10.0
RETRIES = 4
CONNECTIONS = 4
_SHOWN = 5  # unknown ids in a warning
_FRAME = 64  # bytes of a body besides its queries and options, with some to spare


class Client:
    """A matcher behind `matchset serve`, with the same results as the model it serves.

    Connections are kept open, and threads may share a client. If the server is overloaded or does
    not answer, a request is repeated up to `retries` times, after growing random waits or after the
    wait that the server asks for. `timeout` limits a request in seconds, from connecting to the
    last byte, including repetitions. A response has at most 256 MB. Invalid arguments raise the
    same errors as a local matcher. Everything else is a `ServerError`.

    `matcher` is the name of one of the server's matchers (see `model`). The default is its model.
    `titles=False` makes responses smaller. Many queries are sent in as many requests as the
    server's limits require, `connections` at a time.
    """

    def __init__(
        self,
        url: str,
        *,
        api_key: str | None = None,
        timeout: float = TIMEOUT,
        retries: int = RETRIES,
        matcher: str | None = None,
        titles: bool = True,
        connections: int = CONNECTIONS,
    ) -> None:
        self._transport = Transport(
            url, api_key=api_key, timeout=timeout, retries=retries, connections=connections
        )
        self._connections = connections
        self._has_titles = titles
        self._options = {"titles": titles} | ({} if matcher is None else {"matcher": matcher})

    # A str is an iterable of str too, hence the overlaps; the first overload comes first.
    @overload
    def match(
        self,
        queries: str,
        k: int = ...,
        *,
        where: Where | None = ...,
        beam: int | None = ...,
        new_share: float | None = ...,
        min_score: float | None = ...,
        min_relative: float | None = ...,
        unit: str,
    ) -> AssignedMatch: ...
    @overload
    def match(  # type: ignore[overload-overlap]
        self,
        queries: str,
        k: int = ...,
        *,
        where: Where | None = ...,
        beam: int | None = ...,
        new_share: float | None = ...,
        min_score: float | None = ...,
        min_relative: float | None = ...,
    ) -> Match: ...
    @overload
    def match(
        self,
        queries: Iterable[str],
        k: int = ...,
        *,
        where: Where | None = ...,
        beam: int | None = ...,
        new_share: float | None = ...,
        min_score: float | None = ...,
        min_relative: float | None = ...,
    ) -> Matches: ...
    def match(
        self,
        queries: str | Iterable[str],
        k: int = DEFAULT_K,
        *,
        where: Where | None = None,
        beam: int | None = None,
        new_share: float | None = None,
        min_score: float | None = None,
        min_relative: float | None = None,
        unit: str | None = None,
    ) -> Match | Matches:
        """Return the k best products of one query, or of each of several.

        `where` is an expression, product ids, or a filter, which is sent as ids. It cannot be an
        array, because the client does not know the order of the server's products. `beam` and
        `new_share` default to the server's. Products that score less than `min_score`, or less than
        the share `min_relative` of the query's best score, are dropped.

        With one query and a `unit`, a user or a session, the answer comes from the unit's arm in
        the experiment that the server runs. It is an `AssignedMatch`.
        """
        options: dict[str, Any] = {"k": self._limit_k(check_k(k)), **self._options}
        options |= self._choose(where, min_score, min_relative, beam=beam, new_share=new_share)
        if unit is not None:
            options["unit"] = unit
        if isinstance(queries, str):
            response = self._request(list(Strings.of([queries])), options)
            with _reading_response(self._transport.url):
                products = response["results"][0]["products"]
                match = Match.of(queries, *_split(products, self._has_titles))
                return match if unit is None else AssignedMatch.read(match, response)
        if unit is not None:
            raise TypeError("unit is for one query; got several queries")
        texts = to_texts(queries)
        batches = list(self._split_queries(texts, options))
        if len(batches) < 2:
            answers = [self._request(batch, options) for batch in batches]
        else:
            with ThreadPoolExecutor(min(self._connections, len(batches))) as pool:
                answers = list(pool.map(lambda batch: self._request(batch, options), batches))
        with _reading_response(self._transport.url):
            found = [result["products"] for answer in answers for result in answer["results"]]
            return _to_matches(texts, found, self._has_titles)

    def explain(
        self,
        query: str,
        product: str,
        *,
        k: int = DEFAULT_K,
        where: Where | None = None,
        beam: int | None = None,
        new_share: float | None = None,
        min_score: float | None = None,
        min_relative: float | None = None,
    ) -> Explanation:
        """Explain why a query gets a product, or why not; the options are those of `match`."""
        options = self._choose(where, min_score, min_relative, beam=beam, new_share=new_share)
        if "matcher" in self._options:
            options["matcher"] = self._options["matcher"]
        body = {"query": query, "product": product, "k": check_k(k), **options}
        response = self._transport.post("/v1/explain", body)
        with _reading_response(self._transport.url):
            return Explanation.from_dict(response)

    def send_event(
        self,
        match: AssignedMatch,
        product: str,
        action: str = "click",
        *,
        position: int | None = None,
        revenue: float | None = None,
    ) -> None:
        """Record what a customer did with an answer: "click", "add_to_cart" or "purchase".

        An answer outside an experiment is a ValueError. A lost request is repeated, so an event may
        be recorded twice.
        """
        if match.query_id is None:
            raise ValueError("an event needs an answer of an experiment; got one without query_id")
        event: dict[str, Any] = {
            "action_name": action,
            "query_id": match.query_id,
            "object_id": product,
        }
        given = {"position": position, "revenue": revenue}
        event |= {name: value for name, value in given.items() if value is not None}
        self._transport.post("/v1/events", {"events": [event]})

    def upsert(
        self,
        products: Iterable[Mapping[str, Any]],
        *,
        remove: Iterable[str] = (),
        version: int | None = None,
    ) -> int:
        """Add, change and remove products in one step; returns the model's generation.

        A product is `{"id": "N1", "title": "Garden lamp", "attributes": {"price": 49}}`. Fields
        that you leave out of a known product stay as they are. The server must be writable. When it
        responds, the change is on disk, and within a second in every worker. A lost request is
        repeated, so give a `version` if others write too.
        """
        gone = list(Strings.of(remove, "remove"))
        body: dict[str, Any] = {"products": [dict(each) for each in products], "remove": gone}
        body |= {} if version is None else {"version": version}
        response = self._transport.post("/v1/products", body)
        with _reading_response(self._transport.url):
            _warn(response["unknown"], "to remove")
            return int(response["generation"])

    def remove(self, ids: Iterable[str], *, version: int | None = None) -> int:
        """Remove products; a warning names ids that the model does not know. See `upsert`."""
        return self.upsert([], remove=ids, version=version)

    def model(self) -> dict[str, Any]:
        """Describe what is served: version, matchers, attributes, limits, provenance."""
        return self._transport.get("/v1/model")

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Client({self._transport.url!r})"

    @staticmethod
    def _choose(
        where: Where | None,
        min_score: float | None,
        min_relative: float | None,
        **others: float | None,
    ) -> dict[str, Any]:
        """Return the options that were given, as they are sent."""
        least_scores(0.0, min_score, min_relative)  # the errors of a local matcher
        given: dict[str, Any] = {"where": None if where is None else _to_json(where)}
        given |= {**others, "min_score": min_score, "min_relative": min_relative}
        return {name: value for name, value in given.items() if value is not None}

    @cached_property
    def _limits(self) -> tuple[int, Mapping[str, int]]:
        """The server's number of products and its limits, as they were when first needed."""
        model = self.model()
        with _reading_response(self._transport.url):
            return int(model["products"]), dict(model["limits"])

    def _limit_k(self, k: int) -> int:
        """Return k; beyond a small catalog all its products, even if it exceeds the limit."""
        if k <= DEFAULT_K:
            return k
        n_products, limits = self._limits
        return min(k, limits["k"]) if n_products <= limits["k"] else k

    def _split_queries(self, texts: Strings, options: Mapping[str, Any]) -> Iterator[list[str]]:
        """Yield the queries in batches within the server's limits."""
        if len(texts) == 0:
            return
        _, limits = self._limits
        room = limits["body_bytes"] - len(encode(options)) - _FRAME
        batch: list[str] = []
        n_bytes = 0
        for text in texts:
            size = len(encode(text)) + 1
            if batch and (len(batch) == limits["queries"] or n_bytes + size > room):
                yield batch
                batch, n_bytes = [], 0
            batch.append(text)
            n_bytes += size
        yield batch

    def _request(self, queries: list[str], options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the response to one request, with a result per query."""
        response = self._transport.post("/v1/match", {"queries": queries, **options})
        with _reading_response(self._transport.url):
            results: list[dict[str, Any]] = response["results"]
            if len(results) != len(queries):
                raise ValueError(f"{len(results)} results for {len(queries)} queries")
            _warn(response.get("unknown", ()), "in `where`")
            return response


def _warn(unknown: Sequence[str], where: str) -> None:
    """Name ids that the model of the server does not know."""
    if unknown:
        more = "" if len(unknown) <= _SHOWN else f" and {len(unknown) - _SHOWN} more"
        names = ", ".join(unknown[:_SHOWN])
        logger.warning("the model does not know these ids %s: %s%s", where, names, more)


@contextmanager
def _reading_response(url: str) -> Iterator[None]:
    """Turn what `matchset serve` would not have written into a ServerError."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        rule = f"the server must be a matchset server; got JSON of another form ({error!r})"
        raise ServerError(rule, url=url) from error


def _to_json(where: Where) -> str | list[str]:
    """Return a filter as it is sent: its expression, or the ids that it allows."""
    if isinstance(where, str):
        if not where:  # to a server, that is no filter
            parse(where)
        return where
    if isinstance(where, Filter):
        return list(where.ids.take(np.flatnonzero(where.allowed)))
    is_array = not isinstance(where, Strings) and hasattr(where, "__array__")
    given: object = where
    if (
        isinstance(given, bytes)
        or not isinstance(given, Iterable)
        or (is_array and np.asarray(where).dtype.kind not in "OUT")
    ):
        got = f"an array of {np.asarray(where).dtype}" if is_array else type(given).__name__
        raise TypeError(
            "where must be an expression, a filter, product ids (for a server, not an array: "
            f"the order of its products is not known here); got {got}"
        )
    return list(Strings.of(given, "where"))


Hits = Sequence[Mapping[str, Any]]


def _split(hits: Hits, has_titles: bool) -> tuple[list[str], list[float], list[str] | None]:
    """Return ids, scores and titles; a missing title is empty, and None if all are missing."""
    if hits:
        has_titles = any("title" in hit for hit in hits)
    titles = [hit.get("title") or "" for hit in hits] if has_titles else None
    return [hit["id"] for hit in hits], [hit["score"] for hit in hits], titles


def _to_matches(queries: Strings, found: Sequence[Hits], has_titles: bool) -> Matches:
    """Return results as flat arrays over the products in them, in order of occurrence."""
    hits = [hit for products in found for hit in products]
    ids, scores, titles = _split(hits, has_titles)
    label_of: dict[str, int] = {}
    labels = [label_of.setdefault(product, len(label_of)) for product in ids]
    known = Products(Strings.of(list(label_of), "ids"))
    if titles is not None:
        title_of = dict(zip(ids, titles, strict=True))
        known = Products(
            known.ids, Strings.of([title_of[product] for product in label_of], "titles")
        )
    entries = Csr(
        offsets_of([len(products) for products in found]),
        np.array(labels, dtype=np.int32),
        np.array(scores, dtype=np.float32),
        len(known),
    )
    return Matches(queries, entries, known)


def open_client(address: str, api_key_file: Path | None = None) -> Client:
    """Open a client for `matchset evaluate` and the like; the first key of the file is used."""
    key = None if api_key_file is None else read_key_lines(api_key_file)[0]
    return Client(address, api_key=key, titles=False)

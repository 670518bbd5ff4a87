"""Matcher: what does every matcher do, and what does a new one have to implement?"""

from __future__ import annotations

import difflib
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from operator import index
from typing import (
    Any,
    ClassVar,
    Protocol,
    SupportsIndex,
    TypeAlias,
    overload,
    runtime_checkable,
)

import numpy as np
from numpy.typing import NDArray

from matchset.filters.filter import Filter, Where
from matchset.matchers.explanation import Explanation
from matchset.matchers.match import Match, Matches
from matchset.matchers.saved import Saved
from matchset.matrices import Csr
from matchset.model.products import Products
from matchset.strings import Strings
from matchset.text import normalize_strings

DEFAULT_K = 100
DEFAULT_BEAM = 10
_MOST_COMPARED = 20_000  # ids with a wrong one; half a second
# k, where, beam and new_share of a call, checked: a plain tuple, as nanoseconds count here.
Options: TypeAlias = tuple[int, Filter | None, int | None, float | None]


@runtime_checkable
class Retriever(Protocol):
    """Anything that answers queries: every `Matcher`, and a `Client` of a server."""

    # A str is an iterable of str too, hence the overlap; the first overload comes first.
    @overload
    def match(  # type: ignore[overload-overlap]
        self, queries: str, k: int = ..., *, where: Where | None = ...
    ) -> Match: ...
    @overload
    def match(
        self, queries: Iterable[str], k: int = ..., *, where: Where | None = ...
    ) -> Matches: ...


class TrainingSettings(Protocol):
    """The part of a training configuration that says which pairs were positive."""

    @property
    def events(self) -> Mapping[str, float] | None:
        """Weight of each event that counts; None where the usual names decided."""

    @property
    def min_count(self) -> float:
        """The weighted events from which on a pair was positive."""


@dataclass(frozen=True, slots=True, eq=False)
class TrainingRecord:
    """What a matcher remembers of its training, so that evaluation needs no training log."""

    products: Products
    query_hashes: NDArray[np.uint64]  # of the training queries, ascending
    n_queries_of: NDArray[np.int64]  # positive queries of each product, (n_products,)
    config: TrainingSettings
    provenance: Mapping[str, Any]  # when, from what and how it was trained

    def is_seen(self, queries: Strings) -> NDArray[np.bool_]:
        """Return which queries had a positive pair in training, (n_queries,)."""
        return np.isin(normalize_strings(queries).hashes(), self.query_hashes)

    def is_warm(self, ids: Strings) -> NDArray[np.bool_]:
        """Return which product ids had a positive pair in training, (n_ids,)."""
        labels = self.products.ids.index_of(ids)
        return np.asarray(np.append(self.n_queries_of, 0)[labels] > 0)  # the last: unknown ones


class Matcher(Saved):
    """The base class of all matchers. Evaluation, fusion, server and CLI use only this interface.

    The contract, which `tests/contract.py` checks for every matcher:

    - One `str` gives a `Match`. A sequence of `str` gives `Matches` in the same order, each equal
      to the match that its query would get alone.
    - A match has at most k products, best first. Scores fall, ties go to the smaller label, and no
      product occurs twice. A k beyond the catalog gives all there are. A k below 1 is a ValueError.
    - `where` is an expression, a `Filter`, product ids or a boolean array (see `make_filter`). Only
      allowed products are returned, and k of them if the matcher finds that many.
    - A query that is empty after normalization gets no products. A query that the matcher knows
      nothing about may get none. Neither is an error.
    - A query that is not a `str` is a TypeError that names its position.
    - Any number of threads may call at once, and get the answers that they would get alone.

    A matcher is immutable. To write one, make a frozen dataclass of this class whose fields are
    what the codec keeps (see `storage.codec`), `products` among them, set `kind`, implement
    `_search`, and `register` it. Another class says by `to_stored` and `from_stored` what is kept.
    """

    takes: ClassVar[frozenset[str]] = frozenset()  # options beyond those that all take
    can_explain: ClassVar[bool] = False
    products: Products  # all that it can find

    # A str is an iterable of str too, hence the overlap; the first overload comes first.
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
    ) -> Match | Matches:
        """Return the k best products of one query, or of each of several.

        `where` restricts the products (see `filter`). Products that score less than `min_score`, or
        less than the share `min_relative` of the query's best score, are dropped. Scores of a match
        set are probabilities unless the summary of its training says otherwise. `beam` is for
        matchers that search a tree: a wider beam searches more of it, which is slower and finds
        more up to a point. `new_share` is for match sets: the share of the answers that are new
        products, to which no past query led. More of them cost some recall of known ones.
        """
        for name, value in (("beam", beam), ("new_share", new_share)):
            if value is not None and name not in self.takes:
                raise ValueError(f"{name} is not an option of a {self.kind} matcher; got {value}")
        if (k := check_k(k)) > len(self.products):
            k = len(self.products) or 1
        chosen = None if where is None else self.products.filter(where)
        options = k, chosen, beam, new_share
        found: Match | Matches
        if isinstance(queries, str):
            found = self._match_one(queries, options)
        else:
            found = self._match_many(to_texts(queries), options)
        if min_score is None and min_relative is None:
            return found
        return found.at_least(min_score, min_relative=min_relative)

    def filter(self, what: Where) -> Filter:
        """Make a filter that you can use any number of times: `match(..., where=filter)`.

        It is made from an expression such as "in_stock and price < 20", product ids, or a boolean
        array.
        """
        return self.products.filter(what)

    def explain(  # for those that can
        self,
        query: str,  # noqa: ARG002
        product: str,  # noqa: ARG002
        *,
        k: int = DEFAULT_K,  # noqa: ARG002
        beam: int | None = None,  # noqa: ARG002
        new_share: float | None = None,  # noqa: ARG002
        where: Where | None = None,  # noqa: ARG002
    ) -> Explanation:
        """Explain why a query gets a product, or why not; a ValueError unless `can_explain`.

        k, beam, `new_share` and `where` are those of `match`.
        """
        raise ValueError(f"a {self.kind} matcher cannot explain its results")

    def label_of(self, product: str) -> int:
        """Return the label of a product id; a ValueError if the matcher does not have it."""
        if (label := int(self.products.index_of([product])[0])) < 0:
            rule = f"product must be one of the matcher's products; got {product!r}"
            near = find_near(product, self.products.ids)
            raise ValueError(rule if near is None else f"{rule}; did you mean {near!r}?")
        return label

    @property
    def removed(self) -> Strings:
        """Ids of the products that were removed from it. A fusion does not show them either."""
        return Strings.of([])

    @property
    def training(self) -> TrainingRecord | None:
        """What it remembers of its training; None if it was not trained on a log."""
        return None

    def _match_one(self, query: str, options: Options) -> Match:
        k, where, _, _ = options
        found = self._search(Strings.of([query]), k, where)
        return Match(query, found.indices, found.data, self.products)

    def _match_many(self, queries: Strings, options: Options) -> Matches:
        k, where, _, _ = options
        return Matches(queries, self._search(queries, k, where), self.products)

    @abstractmethod
    def _search(self, queries: Strings, k: int, where: Filter | None) -> Csr:
        """Labels and scores of each query, best first, at most k, none twice."""


def find_near(product: str, ids: Iterable[str]) -> str | None:
    """Find the id that was meant: up to zeros in front and case, else similar to one of many."""
    plain = product.lower().lstrip("0")
    alike = (one for one in ids if one.lower().lstrip("0") == plain)
    close = difflib.get_close_matches(product, islice(ids, _MOST_COMPARED), n=1)
    return next(alike, None) or next(iter(close), None)


def to_texts(queries: Iterable[str]) -> Strings:
    """Several queries, checked to be `str`."""
    given: object = queries
    if isinstance(given, bytes) or not isinstance(given, Iterable):
        raise TypeError(f"queries must be str or a sequence of str; got {type(given).__name__}")
    return Strings.of(queries, "queries")


def check_k(k: SupportsIndex) -> int:
    """Return the number of products, checked to be a positive integer."""
    if isinstance(k, bool) or not hasattr(k, "__index__"):
        raise TypeError(f"k must be an int; got {type(k).__name__}")
    if (number := index(k)) < 1:
        raise ValueError(f"k must be at least 1; got {number}")
    return number

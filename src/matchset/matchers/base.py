"""Protocol: what does every matcher do?"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import index
from typing import Protocol, SupportsIndex, TypeAlias, overload, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from matchset.filters.filter import Filter, Where
from matchset.matchers.match import Match, Matches
from matchset.matrices import Csr
from matchset.model.products import Products
from matchset.strings import Strings

DEFAULT_K = 100

# (queries, k, filter) -> labels and scores of each query, best first, at most k, none twice.
Search: TypeAlias = Callable[[Strings, int, Filter | None], Csr]


@runtime_checkable
class Matcher(Protocol):
    """Whoever answers queries with products. Evaluation, fusion and the server know nothing else.

    The contract, which `tests/contract.py` checks for every matcher:

    - One `str` gives a `Match`; a sequence of `str` gives `Matches`, in its order, each equal to
      the one that its query alone would get.
    - At most k products, best first: scores fall, and ties go to the smaller label. No product
      twice. A k beyond the catalogue gives what there is; below 1 it is a ValueError.
    - `where` is an expression, a `Filter`, product ids or a boolean array (see `make_filter`). Only
      allowed products are given, and k of them if the matcher knows that many.
    - A query that normalises to nothing gives no products, whoever is asked. So may one that the
      matcher knows nothing of. Neither is an error.
    - What is not a `str` is a TypeError that names its place among the queries.
    - Any number of threads may ask at once, and get the answers that they would get alone.
    """

    # A str is an iterable of str too, hence the overlap; the first overload comes first.
    @overload
    def match(  # type: ignore[overload-overlap]
        self, queries: str, k: int = ..., *, where: Where | None = ...
    ) -> Match: ...
    @overload
    def match(
        self, queries: Iterable[str], k: int = ..., *, where: Where | None = ...
    ) -> Matches: ...


@runtime_checkable
class KnowsTraining(Protocol):
    """A matcher that remembers what it was trained on, so that evaluation needs no training log."""

    def is_seen(self, queries: Strings) -> NDArray[np.bool_]:
        """Which of these normalised queries had a positive pair in training, (n_queries,)."""

    def is_warm(self, ids: Strings) -> NDArray[np.bool_]:
        """Which of these product ids had a positive pair in training, (n_ids,)."""


@overload
def answer(  # type: ignore[overload-overlap]
    products: Products, queries: str, k: int, *, where: Where | None, search: Search
) -> Match: ...
@overload
def answer(
    products: Products, queries: Iterable[str], k: int, *, where: Where | None, search: Search
) -> Matches: ...
def answer(
    products: Products,
    queries: str | Iterable[str],
    k: int,
    *,
    where: Where | None,
    search: Search,
) -> Match | Matches:
    """Do what every `match` over `products` does, around the search that makes the difference."""
    most = min(check_k(k), len(products)) or 1
    chosen = None if where is None else products.filter(where)
    if isinstance(queries, str):
        found = search(Strings.of([queries]), most, chosen)
        return Match(queries, found.indices, found.data, products)
    texts = to_texts(queries)
    return Matches(texts, search(texts, most, chosen), products)


def to_texts(queries: Iterable[str]) -> Strings:
    """Queries to ask together, if they are a sequence of `str`."""
    given: object = queries
    if isinstance(given, bytes) or not isinstance(given, Iterable):
        raise TypeError(f"queries must be str or a sequence of str; got {type(given).__name__}")
    return Strings.of(queries, "queries")


def check_k(k: SupportsIndex) -> int:
    """The number of products that is asked for, if it is one."""
    if isinstance(k, bool) or not hasattr(k, "__index__"):
        raise TypeError(f"k must be an int; got {type(k).__name__}")
    if (number := index(k)) < 1:
        raise ValueError(f"k must be at least 1; got {number}")
    return number

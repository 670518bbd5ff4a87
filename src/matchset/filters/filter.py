"""Filters: which products may be returned?"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from matchset.data.catalog import Column
from matchset.filters.hints import find_hints
from matchset.filters.parser import parse
from matchset.filters.predicate import evaluate
from matchset.strings import Strings

logger = logging.getLogger(__name__)

_MAX_FILTERS = 64  # in a cache
_SHOWN = 3  # unknown ids in a hint
_MAX_BYTES = 2**26  # of all filters in a cache; it holds one in any case


class Filterable(Protocol):
    """Products with attributes: a model's `Products`, or a `Catalog`."""

    @property
    def ids(self) -> Strings:
        """Product ids, distinct."""

    @property
    def attributes(self) -> Mapping[str, Column]:
        """Columns by name."""


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Filter:
    """The products that are allowed. Made once, it can be used for any number of queries."""

    allowed: NDArray[np.bool_]  # read-only, (n_products,)
    ids: Strings  # the products it was made for, (n_products,)
    description: str  # the expression, or what it was made from instead
    n_allowed: int
    n_unknown: int = 0  # given product ids that are not among the products
    hints: tuple[str, ...] = ()  # possible mistakes: in the expression, or unknown ids
    columns: Mapping[str, Column] = field(default_factory=dict)  # that the expression reads

    def __repr__(self) -> str:
        unknown = f", {self.n_unknown:,} unknown ids ignored" if self.n_unknown else ""
        counts = f"{self.n_allowed:,} of {len(self.ids):,} products{unknown}"
        hints = "".join(f"; {hint}" for hint in self.hints)
        return f"Filter({self.description!r}: {counts}{hints})"

    def __and__(self, other: Filter) -> Filter:
        """Return the products that both allow.

        This is how to join a shop's own filter and a customer's. Joined as text, an extra
        parenthesis in one could undo the other.
        """
        if not isinstance(other, Filter):
            return NotImplemented
        allowed = self.allowed & other.require_for(self.ids, self.columns).allowed
        description = f"({self.description}) and ({other.description})"
        n_unknown = self.n_unknown + other.n_unknown
        joined = _freeze(allowed, self.ids, description, n_unknown=n_unknown)
        columns = {**other.columns, **self.columns}
        return replace(joined, hints=self.hints + other.hints, columns=columns)

    def require_for(self, ids: Strings, columns: Mapping[str, Column]) -> Filter:
        """Return the filter itself; raise a ValueError if it was made for other products.

        It also raises if an attribute that the filter reads has changed since.
        """
        if self.ids is ids:
            return self
        n, wanted = len(self.ids), len(ids)
        which = "other ones" if n == wanted else f"one of {n:,}"
        if self.ids == ids:
            changed = [n for n in self.columns.keys() & columns if not self._reads(n, columns[n])]
            if not changed:
                return self
            which = f"one made before {', '.join(sorted(changed))} changed"
        raise ValueError(
            f"where must be a filter of this matcher's {wanted:,} products; got {which}"
        )

    def _reads(self, name: str, column: Column) -> bool:
        """Return whether it was made from these values of an attribute."""
        mine = self.columns[name]
        is_number = mine.kind == column.kind == "number"
        return (
            mine.kind == column.kind
            and mine.categories == column.categories
            and np.array_equal(mine.values, column.values, equal_nan=is_number)
        )


Where: TypeAlias = str | Filter | Iterable[str] | NDArray[np.bool_]


def make_filter(products: Filterable, what: Where) -> Filter:
    """Make a filter over `products` from

    - an expression such as `in_stock and price < 20` (any `str` is an expression; the language is
      described in `matchset.filters`);
    - product ids, in any order; unknown ones are ignored, counted in `n_unknown` and named in
      `hints`, because such lists come from other systems that may be newer than the model;
    - a boolean array with an entry for each product, in the order of `products.ids`.

    A filter that was made for the same products is returned as it is.
    """
    if isinstance(what, Filter):
        return what.require_for(products.ids, products.attributes)
    if isinstance(what, str):
        return _from_expression(products, what)
    if not isinstance(what, Strings) and hasattr(what, "__array__"):
        array = np.asarray(what)
        if array.dtype.kind not in "OUT":  # NumPy's texts are product ids
            return _from_array(products.ids, array)
    given: object = what
    if isinstance(given, bytes) or not isinstance(given, Iterable):
        got = type(given).__name__
        raise TypeError(
            f"where must be an expression, a filter, product ids or a boolean array; got {got}"
        )
    return _from_ids(products.ids, Strings.of(given, "where"))


class FilterCache:
    """The filters of recent expressions, so that callers can pass text each time.

    Any number of threads can use it at once; two that need the same new filter may both make it.
    """

    def __init__(self) -> None:
        """Begin without filters."""
        self._kept: OrderedDict[str, Filter] = OrderedDict()
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[type[FilterCache], tuple[()]]:
        """Copy as an empty cache, to another process too."""
        return FilterCache, ()

    def __contains__(self, text: str) -> bool:
        """Return whether the filter of an expression is kept."""
        return text in self._kept

    def make(self, products: Filterable, what: Where) -> Filter:
        """Return the filter of `make_filter`, or the cached one; log its hints when it is made."""
        if not isinstance(what, str):
            return make_filter(products, what)
        with self._lock:
            if (kept := self._kept.get(what)) is not None:
                self._kept.move_to_end(what)
                return kept
        made = make_filter(products, what)
        for hint in made.hints:
            logger.warning("%s", hint)
        n_kept = max(1, min(_MAX_FILTERS, _MAX_BYTES // max(1, len(products.ids))))
        with self._lock:
            self._kept[what] = made
            while len(self._kept) > n_kept:
                self._kept.popitem(last=False)
        return made


def _from_expression(products: Filterable, text: str) -> Filter:
    expression = parse(text)
    allowed = evaluate(expression, products.attributes, len(products.ids))
    hints = find_hints(expression, products.attributes)
    names = {term.attribute.name for term in expression.terms()}
    columns = {name: products.attributes[name] for name in names}
    return replace(_freeze(allowed, products.ids, text), hints=hints, columns=columns)


def _from_array(ids: Strings, array: NDArray[Any]) -> Filter:
    if array.dtype != np.bool_:
        raise TypeError(f"where must be a boolean array; got one of {array.dtype}")
    if array.shape != (len(ids),):
        raise ValueError(f"where must have the shape ({len(ids)},); got {array.shape}")
    return _freeze(array.copy(), ids, "a boolean array")


def _from_ids(ids: Strings, wanted: Strings) -> Filter:
    wanted = wanted.take(wanted.factorize()[1])
    # Looks up products among the wanted ids, not the reverse: a smaller table, five times faster.
    found = wanted.index_of(ids)
    n_unknown = len(wanted) - int(np.count_nonzero(found >= 0))
    made = _freeze(found >= 0, ids, f"{len(wanted):,} product ids", n_unknown=n_unknown)
    if n_unknown == 0:
        return made
    few = wanted.take(np.setdiff1d(np.arange(len(wanted)), found)[:_SHOWN])
    more = ", ..." if n_unknown > _SHOWN else ""
    return replace(made, hints=(f"unknown ids: {', '.join(map(repr, few))}{more}",))


def _freeze(
    allowed: NDArray[np.bool_], ids: Strings, description: str, *, n_unknown: int = 0
) -> Filter:
    allowed.flags.writeable = False
    return Filter(allowed, ids, description, int(np.count_nonzero(allowed)), n_unknown)

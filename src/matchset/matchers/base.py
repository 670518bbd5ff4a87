"""Matcher: what does every matcher do, and what does a new one have to implement?"""

from __future__ import annotations

import logging
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from operator import index
from pathlib import Path
from typing import (
    Any,
    ClassVar,
    Protocol,
    Self,
    SupportsIndex,
    TypeAlias,
    overload,
    runtime_checkable,
)

import numpy as np
from numpy.typing import NDArray

from matchset.data.catalog import Catalog
from matchset.data.log import Log
from matchset.data.tables import TableSource
from matchset.errors import ModelFileError
from matchset.filters.filter import Filter, Where
from matchset.matchers import registry
from matchset.matchers.explanation import Explanation
from matchset.matchers.match import Match, Matches
from matchset.matrices import Csr
from matchset.model.products import Products
from matchset.storage.folders import checksum
from matchset.storage.handles import FolderHandle, read_folder
from matchset.storage.sections import Section, open_sections, read_section, save_sections
from matchset.storage.segments import open_segments
from matchset.strings import Strings
from matchset.text import normalize_strings

logger = logging.getLogger(__name__)
DROPPED = (
    "%s: what changed there since the last training is dropped, with its versions (%s); send again "
    "what changed after the catalog of this training was exported"
)
DEFAULT_K = 100
DEFAULT_BEAM = 10
Sections: TypeAlias = Mapping[str, Section]
OpenPart: TypeAlias = Callable[[str], "Matcher"]
# k, where and beam of a call, checked: a plain tuple, as nanoseconds count here.
Options: TypeAlias = tuple[int, Filter | None, int | None]


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
        """Which queries had a positive pair in training, (n_queries,)."""
        return np.isin(normalize_strings(queries).hashes(), self.query_hashes)

    def is_warm(self, ids: Strings) -> NDArray[np.bool_]:
        """Which product ids had a positive pair in training, (n_ids,)."""
        labels = self.products.ids.index_of(ids)
        return np.asarray(np.append(self.n_queries_of, 0)[labels] > 0)  # the last: unknown ones


class Matcher(ABC):
    """The base of all matchers. Evaluation, fusion, server and CLI know nothing else.

    The contract, which `tests/contract.py` checks for every matcher:

    - One `str` gives a `Match`; a sequence of `str` gives `Matches`, in its order, each equal to
      the match that its query would get alone.
    - At most k products, best first: scores fall, and ties go to the smaller label. No product
      twice. A k beyond the catalog gives what there is; below 1 it is a ValueError.
    - `where` is an expression, a `Filter`, product ids or a boolean array (see `make_filter`). Only
      allowed products are given, and k of them if the matcher finds that many.
    - A query that is empty after normalization gives no products. So may a query that the matcher
      knows nothing about. Neither is an error.
    - A query that is not a `str` is a TypeError that names its position.
    - Any number of threads may call at once, and get the answers that they would get alone.

    A matcher is immutable. To write one: subclass, set `kind`, provide `products` (a field of a
    frozen dataclass will do), implement `_search`, `_sections` and `_read`, and `register` it.
    """

    kind: ClassVar[str]  # its name in folders, HTTP API, CLI, fusions and tables
    takes: ClassVar[frozenset[str]] = frozenset()  # options beyond those that all take
    can_explain: ClassVar[bool] = False
    products: Products  # all that it can find
    _source: tuple[str, str] | None = None  # the folder it was loaded from, and its checksum
    _home: str | None = None  # the folder that it was saved to or loaded from

    # A str is an iterable of str too, hence the overlap; the first overload comes first.
    @overload
    def match(  # type: ignore[overload-overlap]
        self,
        queries: str,
        k: int = ...,
        *,
        where: Where | None = ...,
        beam: int | None = ...,
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
        min_score: float | None = None,
        min_relative: float | None = None,
    ) -> Match | Matches:
        """The k best products of one query, or of each of several.

        `where` allows some products only (see `filter`). Products that score less than `min_score`,
        or less than the share `min_relative` of the query's best score, are left out. `beam` is for
        matchers that search a tree: a wider one looks at more of it, which is slower and finds more
        up to a point.
        """
        if beam is not None and "beam" not in self.takes:
            raise ValueError(f"beam is not an option of a {self.kind} matcher; got {beam}")
        if (k := check_k(k)) > len(self.products):
            k = len(self.products) or 1
        chosen = None if where is None else self.products.filter(where)
        options = k, chosen, beam
        found: Match | Matches
        if isinstance(queries, str):
            found = self._match_one(queries, options)
        else:
            found = self._match_many(to_texts(queries), options)
        if min_score is None and min_relative is None:
            return found
        return found.at_least(min_score, min_relative=min_relative)

    def filter(self, what: Where) -> Filter:
        """A filter to use any number of times: `match(..., where=filter)`.

        From an expression such as "in_stock and price < 20", product ids, or a boolean array.
        """
        return self.products.filter(what)

    def explain(  # for those that can
        self,
        query: str,  # noqa: ARG002
        product: str,  # noqa: ARG002
        *,
        k: int = DEFAULT_K,  # noqa: ARG002
        beam: int | None = None,  # noqa: ARG002
        where: Where | None = None,  # noqa: ARG002
    ) -> Explanation:
        """Why a query gets a product, or why not; a ValueError unless `can_explain`.

        k, beam and `where` are those of `match`.
        """
        raise ValueError(f"a {self.kind} matcher cannot explain its results")

    def add(self, products: Catalog | TableSource, *, version: int | None = None) -> Matcher:  # noqa: ARG002
        """With these products too; a ValueError unless it is a match set."""
        raise self._refuse_products()

    def update(self, products: Catalog | TableSource, *, version: int | None = None) -> Matcher:  # noqa: ARG002
        """With what these products have anew; a ValueError unless it is a match set."""
        raise self._refuse_products()

    def remove(self, ids: Iterable[str], *, version: int | None = None) -> Matcher:  # noqa: ARG002
        """Without these products; a ValueError unless it is a match set."""
        raise self._refuse_products()

    def refresh(
        self,
        log: Log | TableSource,  # noqa: ARG002
        old_log: Log | TableSource | None = None,  # noqa: ARG002
    ) -> Matcher:
        """With what a log tells since the training; a ValueError unless it is a match set."""
        raise ValueError(f"a match set alone can be refreshed; got a {self.kind} matcher")

    def _refuse_products(self) -> ValueError:
        return ValueError(f"products come and go in a match set alone; got a {self.kind} matcher")

    def label_of(self, product: str) -> int:
        """The label of a product id; a ValueError if it is none of the matcher's."""
        if (label := int(self.products.index_of([product])[0])) < 0:
            raise ValueError(f"product must be one of the matcher's products; got {product!r}")
        return label

    @property
    def removed(self) -> Strings:
        """Ids of products that were removed from it; a fusion shows them no more, either."""
        return Strings.of([])

    @property
    def training(self) -> TrainingRecord | None:
        """What it remembers of its training; None where it was not trained on a log."""
        return None

    @property
    def vectorize(self) -> Callable[[str], object] | None:
        """What turns a query into features before the search; None where nothing does."""
        return None

    @property
    def n_features(self) -> int | None:
        """Features with a meaning of their own; None where it has none."""
        return None

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write it to a folder, all or nothing; the files never change afterwards.

        Products that come and go are written to the folder that it was loaded from or saved to
        first: any other is a copy. Where `overwrite` drops products that came, changed or went, a
        warning says how many.
        """
        dropped = self._find_dropped(path) if overwrite else None
        self._save(path, overwrite=overwrite)
        if self._home is None:
            object.__setattr__(self, "_home", str(Path(path).absolute()))  # frozen dataclasses too
        if dropped is not None:
            logger.warning(DROPPED, path, dropped)

    def _find_dropped(self, path: str | os.PathLike[str]) -> object | None:
        """What changed since the training in the folder at `path`, and is not in this matcher."""
        try:
            before = registry.load(path) if Path(path).exists() else None
        except (ModelFileError, ImportError):  # an old one, a damaged one, or one of an extra
            return None
        changed, ours = (getattr(each, "freshness", None) for each in (before, self))
        if changed is None or not changed.added + changed.updated + changed.removed:
            return None
        trained = [getattr(each, "provenance", {}).get("trained") for each in (before, self)]
        is_later = ours is not None and ours.generation >= changed.generation
        return None if trained[0] == trained[1] and is_later else changed

    def _save(
        self,
        path: str | os.PathLike[str],
        *,
        overwrite: bool = False,
        finish: Callable[[Path], None] | None = None,
    ) -> None:
        save_sections(
            path,
            self._sections(),
            header={registry.HEADER: self.kind},
            overwrite=overwrite,
            inner={name: part._save for name, part in self._parts().items()},  # noqa: SLF001
            finish=finish,
        )

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Open a folder that `save` wrote: memory-mapped, shared by processes, in milliseconds."""
        return read_folder(path, cls._load)

    @classmethod
    def _load(cls, folder: FolderHandle) -> Self:
        source = str(folder.path.absolute()), checksum(folder)
        header, sections = open_sections(folder)
        sections |= open_segments(folder)
        registry.require_kind(folder, header, cls.kind)

        def open_part(name: str) -> Matcher:
            with folder.open_inner(name) as inner:
                return registry.load(inner)

        what = f"{cls.kind} matcher"
        matcher = read_section(folder, what, lambda: cls._read(sections, open_part))
        require_unchanged(folder, source[1])
        if folder.is_inner:  # belongs to the folder around it
            object.__setattr__(matcher, "_source", source)
            return matcher
        return matcher._settle(*source)  # noqa: SLF001

    def _settle(self, folder: str, digest: str) -> Self:
        """Remember the folder that holds this matcher, and its checksum; returns itself."""
        object.__setattr__(self, "_source", (folder, digest))  # frozen dataclasses too
        object.__setattr__(self, "_home", folder)
        return self

    def __reduce__(self) -> tuple[Callable[..., Matcher], tuple[Any, ...]]:
        """Pickle a matcher as its folder and checksum, or as its arrays if that holds another."""
        if self._source is not None and self._is_still_there(*self._source):
            return self._open_same, self._source
        sections = {
            name: Section(section.header, {key: np.asarray(a) for key, a in section.arrays.items()})
            for name, section in self._sections().items()
        }
        return self._rebuild, (sections, dict(self._parts()))

    @staticmethod
    def _is_still_there(folder: str, digest: str) -> bool:
        try:
            return checksum(folder) == digest
        except (ModelFileError, OSError):
            return False

    @classmethod
    def _open_same(cls, path: str, wanted: str) -> Self:
        """Open the folder that a pickled matcher was loaded from."""
        matcher = cls.load(path)
        if matcher._source != (path, wanted):  # noqa: SLF001
            raise ModelFileError("holds another model than the one that was pickled", path=path)
        return matcher

    @classmethod
    def _rebuild(cls, sections: Sections, parts: Mapping[str, Matcher]) -> Self:
        """Make a pickled matcher of its arrays."""
        return cls._read(sections, parts.__getitem__)

    def __copy__(self) -> Self:
        return self  # nothing in it ever changes

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def _match_one(self, query: str, options: Options) -> Match:
        k, where, _ = options
        found = self._search(Strings.of([query]), k, where)
        return Match(query, found.indices, found.data, self.products)

    def _match_many(self, queries: Strings, options: Options) -> Matches:
        k, where, _ = options
        return Matches(queries, self._search(queries, k, where), self.products)

    @abstractmethod
    def _search(self, queries: Strings, k: int, where: Filter | None) -> Csr:
        """Labels and scores of each query, best first, at most k, none twice."""

    @abstractmethod
    def _sections(self) -> Sections:
        """What `save` writes."""

    @classmethod
    @abstractmethod
    def _read(cls, sections: Sections, open_part: OpenPart) -> Self:
        """Make a matcher of what `_sections` gave; the arrays are memory-mapped.

        `open_part` opens one of `_parts`. A KeyError, TypeError or ValueError means that the folder
        is damaged.
        """

    def _parts(self) -> Mapping[str, Matcher]:
        """Whole matchers that this one consists of, by the name of their folder."""
        return {}


def require_unchanged(folder: FolderHandle, digest: str) -> None:
    """Raise where a writer came between: who opened the folder reads it again."""
    if checksum(folder) != digest:
        raise ModelFileError("changed while it was read", path=folder)


def to_texts(queries: Iterable[str]) -> Strings:
    """Several queries, checked to be `str`."""
    given: object = queries
    if isinstance(given, bytes) or not isinstance(given, Iterable):
        raise TypeError(f"queries must be str or a sequence of str; got {type(given).__name__}")
    return Strings.of(queries, "queries")


def check_k(k: SupportsIndex) -> int:
    """The number of products, checked to be a positive integer."""
    if isinstance(k, bool) or not hasattr(k, "__index__"):
        raise TypeError(f"k must be an int; got {type(k).__name__}")
    if (number := index(k)) < 1:
        raise ValueError(f"k must be at least 1; got {number}")
    return number

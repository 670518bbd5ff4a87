"""Lookup: which label has a product id, in microseconds?"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matchset.errors import FilterError, ModelFileError
from matchset.filters.filter import Filter, make_filter
from matchset.filters.parser import DEFAULT_LIMITS
from matchset.matchers.base import Matcher
from matchset.matchers.match import Match
from matchset.matchers.registry import XR_LINEAR, find_kind, load
from matchset.matchers.xr_linear import XRLinearMatcher
from matchset.matrices import Ids
from matchset.model.products import Products
from matchset.serve.http.answers import Headers, model_headers
from matchset.serve.http.auth import Keys
from matchset.serve.http.problems import RequestError
from matchset.serve.http.requests import Wanted
from matchset.serve.options import ServeConfig
from matchset.serve.reload.generations import Generation, RunFolder
from matchset.serve.reload.snapshots import Sources, kept_folders
from matchset.strings import Strings


@dataclass(frozen=True, slots=True, eq=False)
class Lookup:
    """Hashes of ids in order: twelve bytes a product, where a dict would take a hundred."""

    products: Products
    hashes: NDArray[np.uint64]  # ascending, (n_products,)
    labels: Ids  # of each hash, (n_products,)

    @classmethod
    def of(cls, products: Products) -> Lookup:
        """Make it, in time that grows with the products."""
        hashes = products.ids.hashes()
        order = np.argsort(hashes, kind="stable")
        return cls(products, hashes[order], order.astype(np.int32))

    def find(self, ids: Sequence[str]) -> Ids:
        """Label of each id, -1 where there is no such product."""
        if not len(self.hashes) or not ids:
            return np.full(len(ids), -1, dtype=np.int32)
        wanted = Strings.of(list(ids)).hashes()
        place = np.minimum(np.searchsorted(self.hashes, wanted), len(self.hashes) - 1)
        labels = self.labels[place]
        found = self.products.ids.decode(labels)  # two ids may have one hash
        is_known = [known == asked for known, asked in zip(found, ids, strict=True)]
        return np.where(is_known, labels, -1).astype(np.int32)

    def titles(self, ids: Sequence[str]) -> list[str]:
        """Title of each id, empty where there is no such product, or it has none."""
        if self.products.titles is None or not len(self.hashes):
            return [""] * len(ids)
        labels = self.find(ids)
        titles = self.products.titles.decode(np.maximum(labels, 0))
        return [title if label >= 0 else "" for label, title in zip(labels, titles, strict=True)]


FUSED = "fused"


@dataclass(frozen=True, slots=True)
class Named:
    """A matcher under the name by which callers ask for it."""

    name: str
    matcher: Matcher
    products: Products  # that it gives

    def match(self, query: str, k: int, *, beam: int, where: Filter | None) -> Match:
        """Ask; the beam goes to those that take one."""
        has_beam = "beam" in self.matcher.takes
        return self.matcher.match(query, k, beam=beam if has_beam else None, where=where)


def open_matchers(folders: Sequence[Path]) -> dict[str, Named]:
    """The model, which is called tree, and the matchers beside it, called by their kind."""
    tree = XRLinearMatcher.load(folders[0])
    named = {XR_LINEAR: Named(XR_LINEAR, tree, tree.products)}
    for folder in folders[1:]:
        matcher = load(folder)
        name = matcher.kind
        if name in named:
            raise ModelFileError(
                f"matchers must be of different kinds; got two {name}", path=folder
            )
        matcher.match("warm", 1)  # what is made on first use is made here
        named[name] = Named(name, matcher, matcher.products)
    return named


KEYS = "keys"  # in the folder of a generation
_MOST_BYTES = 2**26  # that remembered filters may take; one is remembered in any case


class Filters:
    """The filters that were asked for last; making one anew takes time for every product."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._made: OrderedDict[tuple[str, str], Filter] = OrderedDict()

    def find(self, named: Named, wanted: Wanted) -> Filter | None:
        """A filter that was made before."""
        if not isinstance(wanted, str):
            return None
        key = named.name, wanted
        with self._lock:
            made = self._made.get(key)
            if made is not None:
                self._made.move_to_end(key)
            return made

    def make(self, named: Named, wanted: Wanted) -> Filter:
        """A filter for a matcher's products; what is wrong with it is a RequestError."""
        if not isinstance(wanted, str):  # of one caller's, and too long to remember
            return make_filter(named.products, wanted)
        made = self.find(named, wanted)
        if made is not None:
            return made
        try:
            made = make_filter(named.products, wanted, limits=DEFAULT_LIMITS)
        except FilterError as error:
            place = f"at character {(error.position or 0) + 1}"
            raise RequestError("bad_filter", f"where: {error.rule} ({place})") from None
        most = max(1, min(self._most, _MOST_BYTES // max(1, len(named.products))))
        with self._lock:
            self._made[named.name, wanted] = made
            while len(self._made) > most:
                self._made.popitem(last=False)
        return made


@dataclass(frozen=True, eq=False)
class Served:
    """An open generation: nothing in it changes but what is remembered of filters."""

    generation: Generation
    matchers: Mapping[str, Named]
    keys: Keys | None
    filters: Filters
    opened_at: str = field(
        default_factory=lambda: datetime.now(UTC).isoformat(timespec="milliseconds")
    )

    @property
    def version(self) -> str:
        """What every answer names."""
        return self.generation.version

    @property
    def tree(self) -> Named:
        """The model itself."""
        return self.matchers[XR_LINEAR]

    @cached_property
    def headers(self) -> Headers:
        """Headers of its answers."""
        return model_headers(self.version)

    @cached_property
    def start_of_tree(self) -> bytes:
        """How every answer of the model begins."""
        return b'{"model_version":"%b","matcher":"%b",' % (
            self.version.encode(),
            XR_LINEAR.encode(),
        )

    @cached_property
    def tree_matcher(self) -> XRLinearMatcher:
        """The model as what it is."""
        matcher = self.tree.matcher
        if not isinstance(matcher, XRLinearMatcher):
            raise TypeError(f"the model must be a tree; got {type(matcher).__name__}")
        return matcher

    @property
    def names(self) -> tuple[str, ...]:
        """Who can be asked: each matcher, and where there are several all of them, fused."""
        return (*self.matchers, *((FUSED,) if len(self.matchers) > 1 else ()))

    def find(self, name: str) -> Named:
        """A matcher by its name."""
        named = self.matchers.get(name)
        if named is None:
            known = ", ".join(self.names)
            raise RequestError("unknown_matcher", f"matcher must be one of {known}; got {name!r}")
        return named

    def parts(self, name: str) -> list[Named]:
        """The matchers that answer under a name."""
        is_fused = name == FUSED and FUSED in self.names
        return list(self.matchers.values()) if is_fused else [self.find(name)]

    def titles_of(self, ids: Sequence[str]) -> list[str]:
        """Title of each id, empty where the model does not know it."""
        return self._lookup.titles(ids)

    def find_allowed(self, ids: Sequence[str], wanted: Wanted) -> list[str]:
        """Those that a filter allows; an id that the model does not know meets any expression."""
        if not isinstance(wanted, str):
            listed = set(wanted)
            return [product for product in ids if product in listed]
        allowed, labels = self.filters.make(self.tree, wanted).allowed, self._lookup.find(ids)
        return [
            product
            for product, label in zip(ids, labels.tolist(), strict=True)
            if label < 0 or allowed[label]
        ]

    @cached_property
    def _lookup(self) -> Lookup:
        return Lookup.of(self.tree.products)

    def describe(self) -> dict[str, Any]:
        """What `GET /v1/model` tells of it."""
        products = self.tree.products
        columns = products.attributes
        return {
            "matchers": [
                {
                    "name": name,
                    "label": "Fused" if name == FUSED else find_kind(name).label,
                    "kind": name,
                    "can_explain": name != FUSED and self.matchers[name].matcher.can_explain,
                    "has_beam": name == FUSED or "beam" in self.matchers[name].matcher.takes,
                }
                for name in self.names
            ],
            "products": len(products),
            "attributes": [{"name": name, "type": one.kind} for name, one in columns.items()],
            "has_titles": products.titles is not None,
            "opened_at": self.opened_at,
            "provenance": dict(self.tree_matcher.provenance),
        }


def open_generation(
    run: RunFolder, generation: Generation, sources: Sources, config: ServeConfig
) -> Served:
    """Open a snapshot, with the API keys that were read when it was made."""
    folder = run.generations / generation.folder
    matchers = open_matchers(kept_folders(folder, len(sources.folders)))
    keys = None if config.api_key_file is None else Keys.load(folder / KEYS)
    return Served(generation, matchers, keys, Filters(config.filters))

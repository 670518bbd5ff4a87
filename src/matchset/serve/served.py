"""Served: what does one generation hold, once it is open?"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from matchset.errors import FilterError
from matchset.matchers.tree_matcher import TreeMatcher
from matchset.model.expressions.parser import DEFAULT_LIMITS
from matchset.model.filters import Filter, make_filter
from matchset.serve.auth import Keys, read_keys
from matchset.serve.generations import Generation, RunFolder
from matchset.serve.matchers import TREE, Named, open_matchers
from matchset.serve.questions import Wanted
from matchset.serve.refusals import RequestError
from matchset.serve.settings import ServeConfig
from matchset.serve.snapshots import Sources, kept_folders


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
            place = f"at character {error.place + 1}"
            raise RequestError("bad_filter", f"where: {error.rule} ({place})") from None
        with self._lock:
            self._made[named.name, wanted] = made
            while len(self._made) > self._most:
                self._made.popitem(last=False)
        return made


@dataclass(frozen=True, slots=True, eq=False)
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
        return self.matchers[TREE]

    def find(self, name: str) -> Named:
        """A matcher by its name."""
        named = self.matchers.get(name)
        if named is None:
            known = ", ".join(self.matchers)
            raise RequestError("unknown_matcher", f"matcher must be one of {known}; got {name!r}")
        return named

    def describe(self) -> dict[str, Any]:
        """What `GET /v1/model` tells of it."""
        tree = self.tree
        columns = tree.products.attributes
        return {
            "matchers": [
                {
                    "name": named.name,
                    "label": named.label,
                    "kind": named.name,
                    "can_explain": named.name == TREE,
                    "has_beam": named.name == TREE,
                }
                for named in self.matchers.values()
            ],
            "products": len(tree.products),
            "attributes": [{"name": name, "type": one.kind} for name, one in columns.items()],
            "has_titles": tree.products.titles is not None,
            "opened_at": self.opened_at,
        }

    def provenance(self) -> dict[str, Any]:
        """When, from how much and with what the model was trained."""
        matcher = self.tree.matcher
        return dict(matcher.provenance) if isinstance(matcher, TreeMatcher) else {}


def open_generation(
    run: RunFolder, generation: Generation, sources: Sources, config: ServeConfig
) -> Served:
    """Open a snapshot, and read the API keys anew."""
    folder = run.generations / generation.folder
    matchers = open_matchers(kept_folders(folder, len(sources.folders)))
    keys = None if config.api_key_file is None else read_keys(config.api_key_file)
    return Served(generation, matchers, keys, Filters(config.filters))

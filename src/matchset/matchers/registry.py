"""Registry: which kinds of matcher are there, and which class has a name?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matchset.matchers.base import Matcher

XR_LINEAR = "xr_linear"
PLUGINS = "matchset.matchers"  # group of entry points
MATCH_SET = "match_set"


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of matcher.

    Its class is named, not imported: opening a matcher must not need the packages of another.
    """

    name: str  # in files, HTTP API, CLI, fusions and tables
    label: str  # for people
    target: str  # "module:Class"
    color: str  # in every chart

    def find_class(self) -> type[Matcher]:
        """Import the class."""
        module, name = self.target.split(":")
        found: type[Matcher] = getattr(import_module(module), name)
        return found


_MATCHERS = "matchset.matchers"
KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind(MATCH_SET, "Match set", f"{_MATCHERS}.match_set:MatchSet", "#0f4c81"),
        Kind(XR_LINEAR, "XR-Linear", f"{_MATCHERS}.xr_linear:XRLinearMatcher", "#1d4ed8"),
        Kind("bm25", "BM25", f"{_MATCHERS}.bm25:BM25", "#b45309"),
        Kind(
            "title_similarity",
            "Title similarity",
            f"{_MATCHERS}.title_similarity:TitleSimilarity",
            "#be123c",
        ),
        Kind(
            "nearest_queries",
            "Nearest queries",
            f"{_MATCHERS}.nearest_queries:NearestQueries",
            "#525c69",
        ),
        Kind("popularity", "Popularity", f"{_MATCHERS}.popularity:Popularity", "#8a6d3b"),
        Kind("fusion", "Fusion", f"{_MATCHERS}.fusion:Fusion", "#0f766e"),
        Kind("run", "Recorded run", f"{_MATCHERS}.recorded_run:RecordedRun", "#a21caf"),
    )
}


def register(kind: Kind) -> None:
    """Add a kind of matcher, so that it is loaded, served, compared and drawn like our own."""
    known = KINDS.get(kind.name)
    if known not in (None, kind):
        raise ValueError(f"a kind must be registered once; got {kind.name!r} for {kind.target}")
    KINDS[kind.name] = kind


def list_kinds() -> Mapping[str, Kind]:
    """Return every kind by its name: our own, those of installed packages, and registered ones."""
    _find_plugins()
    return KINDS


@cache
def _find_plugins() -> None:
    for entry in entry_points(group=PLUGINS):
        find_kind(entry.name)


def find_kind(name: str) -> Kind:
    """Return a kind by its name.

    One that is not known yet is looked for among the entry points of installed packages: a `Kind`
    in the group `matchset.matchers`, under its name.
    """
    if name not in KINDS:
        for entry in entry_points(group=PLUGINS, name=name):
            register(entry.load())
    if name not in KINDS:
        raise ValueError(f"a matcher must be one of {', '.join(KINDS)}; got {name!r}")
    return KINDS[name]

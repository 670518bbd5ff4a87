"""Beamed: how does a tree matcher answer with another beam than the usual one?"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import overload

from matchset.matchers.match import Match, Matches
from matchset.matchers.protocol import DEFAULT_K
from matchset.matchers.tree_matcher import DEFAULT_BEAM, TreeMatcher
from matchset.model.filters import Where


@dataclass(frozen=True, slots=True)
class Beamed:
    """A tree matcher that is always asked with one beam."""

    matcher: TreeMatcher
    beam: int = DEFAULT_BEAM

    @overload
    def match(  # type: ignore[overload-overlap]
        self, queries: str, k: int = ..., *, where: Where | None = ...
    ) -> Match: ...
    @overload
    def match(
        self, queries: Iterable[str], k: int = ..., *, where: Where | None = ...
    ) -> Matches: ...
    def match(
        self, queries: str | Iterable[str], k: int = DEFAULT_K, *, where: Where | None = None
    ) -> Match | Matches:
        """Ask."""
        return self.matcher.match(queries, k, beam=self.beam, where=where)

"""Matchers: who answers in a server, and by which name?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from matchset.errors import ModelFileError
from matchset.matchers.bm25 import BM25
from matchset.matchers.nearest_queries import NearestQueries
from matchset.matchers.popularity import Popularity
from matchset.matchers.title_similarity import TitleSimilarity
from matchset.matchers.tree_matcher import TreeMatcher
from matchset.model.products import Products
from matchset.parts import open_parts

TREE = "tree"
_LABELS = {
    TREE: "XR-Linear",
    "bm25": "BM25",
    "title_similarity": "Title similarity",
    "nearest_queries": "Nearest queries",
    "popularity": "Popularity",
}
Beside = BM25 | NearestQueries | Popularity | TitleSimilarity
_LOADERS: dict[str, Callable[[Path], Beside]] = {
    "bm25": BM25.load,
    "title similarity": TitleSimilarity.load,
    "nearest queries": NearestQueries.load,
    "popularity": Popularity.load,
}


@dataclass(frozen=True, slots=True)
class Named:
    """A matcher under the name by which callers ask for it."""

    name: str
    matcher: TreeMatcher | Beside

    @property
    def label(self) -> str:
        """A name for people."""
        return _LABELS.get(self.name, self.name)

    @property
    def products(self) -> Products:
        """The products that it gives."""
        return self.matcher.products


def open_matchers(folders: Sequence[Path]) -> dict[str, Named]:
    """The model, which is called tree, and the matchers beside it, called by their kind."""
    named = {TREE: Named(TREE, TreeMatcher.load(folders[0]))}
    for folder in folders[1:]:
        header, _ = open_parts(folder)
        kind = header.get("matcher", TREE)
        if kind not in _LOADERS:
            rule = f"a matcher beside the model must be one of {', '.join(_LOADERS)}"
            raise ModelFileError(f"{folder}: {rule}; got {kind!r}")
        name = str(kind).replace(" ", "_")
        if name in named:
            raise ValueError(f"matchers beside a model must be of different kinds; got two {kind}")
        matcher = _LOADERS[kind](folder)
        matcher.match("warm", 1)  # what is made on first use is made here
        named[name] = Named(name, matcher)
    return named

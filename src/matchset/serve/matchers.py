"""Matchers: who answers in a server, and by which name?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from matchset.errors import ModelFileError
from matchset.matchers.load import load, name_kind
from matchset.matchers.match import Match
from matchset.matchers.protocol import Matcher
from matchset.matchers.tree_matcher import TreeMatcher
from matchset.model.filters import Filter
from matchset.model.products import Products

TREE = "tree"
FUSED = "fused"
LABELS = {
    TREE: "XR-Linear",
    FUSED: "Fused",
    "bm25": "BM25",
    "title_similarity": "Title similarity",
    "nearest_queries": "Nearest queries",
    "popularity": "Popularity",
    "fusion": "Fusion",
    "dssm": "DSSM",
    "dssm_hnsw": "DSSM + HNSW",
}


@dataclass(frozen=True, slots=True)
class Named:
    """A matcher under the name by which callers ask for it."""

    name: str
    matcher: Matcher
    products: Products  # that it gives

    def match(self, query: str, k: int, *, beam: int, where: Filter | None) -> Match:
        """Ask; only a tree has a beam."""
        if isinstance(self.matcher, TreeMatcher):
            return self.matcher.match(query, k, beam=beam, where=where)
        return self.matcher.match(query, k, where=where)


def open_matchers(folders: Sequence[Path]) -> dict[str, Named]:
    """The model, which is called tree, and the matchers beside it, called by their kind."""
    tree = TreeMatcher.load(folders[0])
    named = {TREE: Named(TREE, tree, tree.products)}
    for folder in folders[1:]:
        matcher = load(folder)
        name = name_kind(matcher)
        products: object = getattr(matcher, "products", None)
        if not isinstance(products, Products):
            raise ModelFileError(f"{folder}: a matcher beside must have products; got a {name}")
        if name in named:
            raise ModelFileError(f"{folder}: matchers must be of different kinds; got two {name}")
        matcher.match("warm", 1)  # what is made on first use is made here
        named[name] = Named(name, matcher, products)
    return named

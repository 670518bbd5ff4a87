"""Loading: which matcher lies in a folder, and who opens it?"""

from __future__ import annotations

import os
from importlib import import_module

from matchset.errors import ModelFileError
from matchset.matchers.protocol import Matcher
from matchset.matchers.stored import kind_of

# Named, not imported: opening a tree must not need the packages of another matcher.
WHO = {
    "tree": "matchset.matchers.tree_matcher:TreeMatcher",
    "bm25": "matchset.matchers.bm25:BM25",
    "title similarity": "matchset.matchers.title_similarity:TitleSimilarity",
    "nearest queries": "matchset.matchers.nearest_queries:NearestQueries",
    "popularity": "matchset.matchers.popularity:Popularity",
    "fusion": "matchset.matchers.fusion:Fusion",
    "dssm": "matchset.matchers.dssm.matcher:DSSM",
    "dssm+hnsw": "matchset.matchers.dssm.hnsw:DSSMWithHNSW",
}


def load(path: str | os.PathLike[str]) -> Matcher:
    """Open whichever matcher was saved to a folder, memory-mapped, in milliseconds."""
    kind = kind_of(path)
    if kind not in WHO:
        known = ", ".join(WHO)
        raise ModelFileError(f"{path}: a matcher must be one of {known}; got {kind!r}")
    module, name = WHO[kind].split(":")
    opened: Matcher = getattr(import_module(module), name).load(path)
    return opened


def name_kind(matcher: Matcher) -> str:
    """What a matcher is called where it is one of several: "tree", "title_similarity"."""
    cls = type(matcher)
    place = f"{cls.__module__}:{cls.__qualname__}"
    kind = next((kind for kind, who in WHO.items() if who == place), cls.__name__)
    return kind.replace(" ", "_").replace("+", "_")

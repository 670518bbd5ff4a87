"""Match sets of any size, made up in moments: what counts is how much there is to search."""

import numpy as np
from word_shop import COLORS, EXTRA, THINGS

from matchset.features.vectorizer import Vectorizer
from matchset.matrices import offsets_of
from matchset.model.impact_lists import LARGEST, ImpactLists
from matchset.model.inverted_lists import ByteVectors, InvertedLists, quantize
from matchset.model.lexical import LexicalIndex, find_words
from matchset.model.match_set_model import MatchSetModel
from matchset.model.neighbors import PastQueries
from matchset.model.packed import pack
from matchset.model.reranker import default_reranker
from matchset.model.towers import TowerIndex
from matchset.model.tree import LabelTree, LayerWeights, TreeModel

QUERIES = [f"{color} {thing} {extra}" for color in COLORS for thing in THINGS for extra in EXTRA]
DIMENSIONS = 16


def make_vectorizer():
    return Vectorizer().fit(QUERIES)


def make_large(vectorizer, side):
    """All parts over side^3 products, and as many past queries."""
    n, n_features = side**3, vectorizer.n_features
    return MatchSetModel(
        np.zeros(n, np.float32),
        np.zeros(n, np.float32),
        default_reranker(""),
        tree=pack(make_tree(side, n_features)),
        towers=make_towers(side, n_features),
        lexical=make_lexical(n, find_words(vectorizer.vocabulary)),
        neighbors=make_neighbors(n, n_features),
    )


def make_tree(side, n_features):
    offsets = [np.arange(0, side**level + 1, side) for level in (1, 2, 3)]
    tree = LabelTree(np.arange(side**3, dtype=np.int32), tuple(offsets))
    return TreeModel(tree, tuple(make_layer(o, n_features) for o in offsets), n_features, side**3)


def make_layer(offsets, n_features):
    """One weight for each parent: of its first child."""
    parents = np.arange(len(offsets))
    return LayerWeights(
        parents,
        (parents[:-1] % n_features).astype(np.int32),
        parents,
        np.zeros(len(parents) - 1, np.uint16),
        np.ones(len(parents) - 1, np.float32),
        np.zeros(offsets[-1], np.float32),
    )


def make_towers(side, n_features):
    rng = np.random.default_rng(0)
    table, groups, clusters = (
        quantize(rng.normal(size=(n, DIMENSIONS))) for n in (n_features, side, side**2)
    )
    lists = InvertedLists(
        np.arange(0, side**2 + 1, side),
        np.arange(0, side**3 + 1, side),
        groups,
        clusters,
        ByteVectors(np.zeros((side**3, DIMENSIONS), np.int8), np.zeros(side**3, np.float32)),
        np.arange(side**3, dtype=np.int32),
        side**3,
    )
    return TowerIndex.of(np.arange(n_features, dtype=np.int32), table, lists)


def make_lexical(n, words):
    """Titles of one word."""
    row_of = np.arange(n, dtype=np.int32)
    impacts = np.full(n, LARGEST, np.uint8)
    words_of = ImpactLists(np.arange(n + 1), row_of % len(words), impacts)
    return LexicalIndex(deal(n, len(words)), words_of, row_of, 1.0, words.start, 1.0)


def make_neighbors(n, n_features):
    """Past queries of one n-gram, which led to one product each."""
    ids = np.arange(n, dtype=np.int32)
    hashes, counts = np.arange(n, dtype=np.uint64), np.ones(n, np.float32)
    return PastQueries(deal(n, n_features), np.arange(n + 1), ids, counts, hashes, ids)


def deal(n, n_lists):
    """Documents in lists, one to each in turn."""
    list_of = (np.arange(n) % n_lists).astype(np.uint16)
    ids = np.argsort(list_of, kind="stable").astype(np.int32)
    offsets = offsets_of(np.bincount(list_of, minlength=n_lists))
    return ImpactLists(offsets, ids, np.full(n, LARGEST, np.uint8))

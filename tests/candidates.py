"""Candidates of validation queries whose right answers follow known weights."""

import numpy as np

from matchset.learn.held_kinds import QUERIES, RECENT
from matchset.learn.labeled_candidates import LabeledCandidates
from matchset.matrices import offsets_of
from matchset.model.match_set_model import Candidates
from matchset.model.reranker import FEATURES, SITUATIONS

SAME, POPULARITY = FEATURES.index("same_query"), FEATURES.index("popularity")
WEIGHTS = [(2.0, -1.0), (2.0, -1.0), (0.5, 1.0)]  # of features 1 and 4, in each situation
WORDS = slice(FEATURES.index("word_share"), None)


def make_candidates(
    n_queries=400, n_each=20, *, seed=0, same_weight=0.0, situations=None, n_days=30
):
    """Candidates whose positives follow a softmax of known weights.

    Those of each situation, the first unless told, are `WEIGHTS`.
    """
    rng = np.random.default_rng(seed)
    n = n_queries * n_each
    features = rng.normal(size=(n, len(FEATURES))).astype(np.float32)
    features[:, 0] = 1
    features[:, SAME] = rng.random(n) < 0.1
    features[:, POPULARITY] = 1
    features[:, WORDS] = 0
    if situations is None:
        situations = np.zeros(n_queries, dtype=np.uint8)
    weights = np.zeros((len(SITUATIONS), len(FEATURES)))
    weights[:, [1, 4]] = WEIGHTS
    weights[:, SAME] = same_weight
    scores = np.einsum("ij,ij->i", features, np.repeat(weights[situations], n_each, axis=0))
    scores = scores.reshape(n_queries, n_each) + rng.gumbel(size=(n_queries, n_each))
    is_positive = (scores == scores.max(axis=1, keepdims=True)).reshape(-1)
    offsets = offsets_of([n_each] * n_queries)
    labels = np.tile(np.arange(n_each, dtype=np.int32), n_queries)
    candidates = Candidates(offsets, labels, features, np.ones(n, dtype=np.uint8), situations)
    kinds = np.full(n_queries, RECENT if n_days else QUERIES, dtype=np.uint8)
    n_positive = np.ones(n_queries, dtype=np.int64)
    halves = 3 * is_positive.astype(np.uint8)
    return LabeledCandidates(candidates, halves, n_positive, kinds, n_days)

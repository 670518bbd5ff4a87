"""An explanation adds up to the score, and says where a label was lost."""

import numpy as np
import pytest
from search_oracles import exhaustive, margins, random_model, random_rows, row

from matchset.model.explain import follow_label, node_weights, parent_of, strongest
from matchset.model.packed import pack
from matchset.model.search import search_rule

MODEL, X = random_model(1, splits=(6, 300, 4)), random_rows(1)
PACKED = pack(MODEL, precision="float32")


def test_steps_add_up_to_the_score_of_an_exhaustive_search():
    dense = X.to_scipy().toarray()
    for i in range(1, 6):
        labels, scores = exhaustive(MODEL, dense[i], k=10**6)
        for at in (0, len(labels) // 2, len(labels) - 1):
            reasons = follow_label(PACKED, *row(X, i), int(labels[at]))
            np.testing.assert_allclose(reasons.score, scores[at], rtol=1e-4, atol=1e-30)
            for step in reasons.steps:
                expected = margins(MODEL, step.level, dense[i])[step.node]
                np.testing.assert_allclose(step.margin, expected, rtol=1e-5)
                np.testing.assert_allclose(
                    step.bias + step.contributions.sum(), expected, rtol=1e-5
                )
                assert (np.diff(abs(step.contributions)) <= 0).all()


def test_a_label_is_lost_where_the_search_loses_it():
    for i in range(1, len(X)):
        found, _ = PACKED.search_row(*row(X, i), search_rule(5, 2))
        for label in MODEL.tree.labels[::97]:
            reasons = follow_label(PACKED, *row(X, i), int(label), k=5, beam=2)
            assert (reasons.lost_at is None) == (label in found)
            is_kept = [step.is_kept for step in reasons.steps]
            assert is_kept == sorted(is_kept, reverse=True)
            for before, step in zip(reasons.steps, reasons.steps[1:], strict=False):
                assert (step.rank is None) == (not before.is_kept)


def test_parents_and_weights_are_those_of_the_model():
    for level, layer in enumerate(MODEL.layers):
        parents = MODEL.tree.parents(level)
        for node in range(0, len(parents), max(1, len(parents) // 20)):
            assert parent_of(PACKED, level, node) == parents[node]
            features, weights, bias = node_weights(PACKED, level, node)
            assert bias == layer.bias[node]
            top = strongest(PACKED, level, node, 3)
            by_feature = dict(zip(features, weights, strict=True))
            assert [by_feature[f] for f in top] == sorted(weights, reverse=True)[:3]
            assert len(top) == min(3, len(features))


def test_what_is_not_in_the_tree_is_refused():
    missing = np.setdiff1d(np.arange(MODEL.n_labels), MODEL.tree.labels)[0]
    with pytest.raises(ValueError, match="label must be in the tree"):
        follow_label(PACKED, *row(X, 1), int(missing))
    with pytest.raises(ValueError, match="node must be in the tree"):
        parent_of(PACKED, 0, 10**6)

"""Scores are held against what was relevant, and a least score against what it leaves."""

import pytest
from rankings import make_positives

import matchset as ms
from matchset.baselines import RecordedRun
from matchset.evaluate.calibration import score_answers
from matchset.evaluate.qrels import make_qrels

ROWS = [("a", "p0", 0.95), ("a", "p2", 0.05), ("b", "p2", 0.95), ("b", "p1", 0.45)]


@pytest.fixture(scope="module")
def answers():
    queries, products, scores = zip(*ROWS, strict=True)
    run = RecordedRun.of(ms.Matches.of(queries, products, scores))
    qrels = make_qrels(make_positives({"a": {0: 3}, "b": {1: 1}}, 4))
    return score_answers(run, qrels, k=10, batch=1)


def test_each_tenth_of_the_scale_has_its_mean_score_and_its_share_of_relevant_answers(answers):
    found = [(b.low, b.answers, round(b.mean_score, 6), b.share) for b in answers.reliability(1)]
    assert found == [(0.0, 1, 0.05, 0.0), (0.4, 1, 0.45, 1.0), (0.9, 2, 0.95, 0.5)]
    assert len(answers.reliability(2)) == 1
    assert answers.reliability() == ()  # fewer than 500 answers say nothing


def test_a_least_score_costs_recall_and_saves_products(answers):
    cuts = answers.cutoffs((0.0, 0.1, 0.5, 1.0))
    assert [(c.recall, c.size, c.empty) for c in cuts] == [
        (1.0, 2.0, 0.0),
        (1.0, 1.5, 0.0),
        (0.5, 1.0, 0.0),
        (0.0, 0.0, 1.0),
    ]
    assert [c.recall_by_traffic for c in cuts] == [1.0, 1.0, 0.75, 0.0]

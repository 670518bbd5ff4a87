"""Matchers are compared on the same queries, and what each finds alone is counted."""

import numpy as np
import pytest
from rankings import Recited, make_positives, random_test

from matchset.evaluate.compare import compare_evaluations, compare_matchers
from matchset.evaluate.evaluation import evaluate
from matchset.evaluate.latency import measure_latency
from matchset.evaluate.overlap import incremental_recall
from matchset.model.products import Products
from matchset.strings import Strings

RELEVANT = {"rose": {0: 1, 1: 1, 2: 1, 3: 1}, "pot": {4: 1}, "soil": {5: 1}}
FIRST = {"rose": [0, 9, 1, 8], "pot": [9, 8]}
SECOND = {"rose": [1, 2, 7, 9], "pot": [4]}


def add(first=FIRST, second=SECOND, **options):
    test = make_positives(RELEVANT, 10)
    return incremental_recall(
        Recited.of(first, 10), Recited.of(second, 10), test, **{"resamples": 50} | options
    )


@pytest.fixture(scope="module")
def comparison():
    rng = np.random.default_rng(0)
    answers, relevant = random_test(rng, n_queries=200)
    good = {query: [*counts, *range(3)] for query, counts in relevant.items()}
    good = {query: list(dict.fromkeys(found)) for query, found in good.items()}
    test = make_positives(relevant, 40)
    matchers = {
        "random": Recited.of(answers, 40),
        "again": Recited.of(answers, 40),
        "good": Recited.of(good, 40),
    }
    options = {"ks": (5, 10), "resamples": 100, "flips": 500}
    return compare_matchers(matchers, test, train=test, **options), matchers, test


def test_each_matcher_is_evaluated_as_alone(comparison):
    compared, matchers, test = comparison
    for name, matcher in matchers.items():
        alone = evaluate(matcher, test, train=test, ks=(5, 10), resamples=100)
        assert compared[name].to_pandas().equals(alone.to_pandas())


def test_a_clear_difference_is_significant_and_none_is_not(comparison):
    compared, _, _ = comparison
    clear, none = compared.difference("good", "random"), compared.difference("again", "random")
    assert compared.best == "good"
    assert clear.value == pytest.approx(compared["good"].recall() - compared["random"].recall())
    assert 0 < clear.low <= clear.value <= clear.high
    assert clear.p_holm < 0.05
    assert (none.value, none.p, none.p_holm) == (0, 1, 1)


def test_a_difference_changes_its_sign_with_the_order_of_its_matchers(comparison):
    compared, _, _ = comparison
    one, other = compared.difference("good", "again", 5), compared.difference("again", "good", 5)
    assert (one.value, one.low, one.high) == (-other.value, -other.high, -other.low)
    assert one.p_holm == other.p_holm
    with pytest.raises(KeyError, match="a difference needs matchers and a k"):
        compared.difference("good", "again", 7)


def test_a_comparison_prints_and_converts(comparison):
    compared, _, _ = comparison
    text = repr(compared)
    assert "Recall@10" in text
    assert "best" in text
    frame = compared.to_pandas()
    assert len(frame) == len(compared.to_dicts()) == compared.to_arrow().num_rows
    assert set(frame.matcher) == {"random", "again", "good"}
    assert len(compared.differences) == 3 * 2


def test_one_matcher_alone_can_be_compared_and_none_cannot():
    test = make_positives(RELEVANT, 10)
    alone = compare_matchers({"one": Recited.of(FIRST, 10)}, test, resamples=5)
    assert alone.differences == ()
    assert "best" in repr(alone)
    with pytest.raises(ValueError, match="matchers must hold at least one; got none"):
        compare_matchers({}, test)


def test_only_evaluations_of_the_same_queries_are_compared():
    matcher, test = Recited.of(FIRST, 10), make_positives(RELEVANT, 10)
    whole = evaluate(matcher, test, resamples=5)
    for other in ({"sample": 2}, {"ks": (3, 10, 50)}):
        found = {"a": whole, "b": evaluate(matcher, test, resamples=5, **other)}
        with pytest.raises(ValueError, match="must be of the same queries and ks; got a, b"):
            compare_evaluations(found)


def test_what_each_finds_alone_is_as_by_hand():
    found = add(k=4)
    assert found.recall_first.value == pytest.approx((2 / 4 + 0 + 0) / 3)
    assert found.recall_second.value == pytest.approx((2 / 4 + 1 + 0) / 3)
    assert found.both.value == pytest.approx((1 / 4) / 3)
    assert found.only_first.value == pytest.approx((1 / 4) / 3)
    assert found.only_second.value == pytest.approx((1 / 4 + 1) / 3)
    assert found.union.value == pytest.approx((3 / 4 + 1 + 0) / 3)
    # Interleaved for "rose": 0 1 9 2; for "pot": 9 4 8.
    assert found.interleaved.value == pytest.approx((3 / 4 + 1 + 0) / 3)
    # Both return 1 and 9 of six products for "rose", nothing for "pot"; "soil" has no results.
    assert found.overlap.value == pytest.approx((2 / 6 + 0) / 2)


def test_interleaving_at_a_smaller_k_finds_fewer():
    found = add(k=2)
    # "rose": 0 1 | "pot": 9 4
    assert found.interleaved.value == pytest.approx((2 / 4 + 1 + 0) / 3)


def test_the_same_matcher_adds_nothing():
    found = add(second=FIRST, k=4)
    assert found.overlap.value == 1.0
    assert found.only_first.value == found.only_second.value == 0.0
    assert found.interleaved == found.union == found.recall_first


def test_products_are_the_same_by_their_ids_with_any_labels():
    test = make_positives(RELEVANT, 10)
    backwards = Products(Strings.of([f"p{9 - i}" for i in range(10)]))
    turned = {query: [9 - i for i in labels] for query, labels in SECOND.items()}
    matchers = Recited.of(FIRST, 10), Recited(backwards, turned)
    found = incremental_recall(*matchers, test, k=4, resamples=50)
    assert found.to_dicts() == add(k=4).to_dicts()


@pytest.mark.parametrize("batch", [1, 2, 7])
def test_batches_change_nothing(batch):
    assert add(k=4, batch=batch).to_dicts() == add(k=4).to_dicts()


def test_interleaving_equals_a_plain_walk_down_both_lists():
    rng = np.random.default_rng(5)
    first, relevant = random_test(rng, n_queries=40)
    second, _ = random_test(rng, n_queries=40)
    test = make_positives(relevant, 40)
    matchers = Recited.of(first, 40), Recited.of(second, 40)
    recalls = []
    for query, counts in relevant.items():
        walk = []
        for rank in range(10):
            walk += first[query][:10][rank : rank + 1] + second[query][:10][rank : rank + 1]
        taken = list(dict.fromkeys(walk))[:10]
        recalls.append(len(set(taken) & set(counts)) / len(counts))
    found = incremental_recall(*matchers, test, k=10, resamples=10, batch=16)
    assert found.interleaved.value == pytest.approx(np.mean(recalls))


def test_an_incremental_recall_prints_as_a_table():
    text = repr(add(k=4, names=("BM25", "tree")))
    assert "found by tree alone" in text
    assert "Recall@8 of the union" in text


def test_latency_is_taken_of_each_of_the_sampled_queries():
    matcher = Recited.of(FIRST, 10)
    latency = measure_latency(matcher, make_positives(RELEVANT, 10), sample=2)
    assert len(latency.seconds) == 2
    assert 0 < latency.p50 <= latency.p99
    assert "p99" in repr(latency)
    assert len(measure_latency(matcher, ["rose"] * 5).seconds) == 5
    for queries, options, message in [
        ([], {}, "queries must hold at least one; got none"),
        (["rose"], {"sample": 0}, "sample must be positive; got 0"),
    ]:
        with pytest.raises(ValueError, match=message):
            measure_latency(matcher, queries, **options)

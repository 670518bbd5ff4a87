"""An evaluation shows how good a matcher is, for whom, and how much better it could be."""

import numpy as np
import pandas as pd
import pytest
from rankings import Recited, make_positives, random_test
from rich.console import Console

from matchset.config import TrainConfig
from matchset.data.positives import positives
from matchset.data.split import split_by_time
from matchset.errors import DataError
from matchset.evaluate.evaluation import evaluate
from matchset.evaluate.pair_segments import SEGMENTS, is_head
from matchset.evaluate.qrels import make_qrels
from matchset.lab.shop import simulate_shop
from matchset.matchers.base import TrainingRecord
from matchset.matchers.popularity import Popularity
from matchset.matchers.train import train
from matchset.strings import Strings

ANSWERS = {"rose": [0, 1, 2, 3], "pot": [4, 0], "soil": []}
RELEVANT = {"rose": {0: 5, 3: 1, 5: 1}, "pot": {0: 2}, "soil": {1: 1, 2: 1}}
TRAIN = {"rose": {0: 9, 1: 1, 2: 1, 3: 1}, "vase": {4: 1}}


def run(**options):
    test = make_positives(RELEVANT, 6)
    return evaluate(Recited.of(ANSWERS, 6), test, **{"ks": (1, 2, 4), "resamples": 100} | options)


class Remembers(Recited):
    @property
    def training(self):
        hashes = np.sort(Strings.of(["rose", "vase"]).hashes())
        n_queries_of = np.array([1, 1, 1, 1, 1, 0])
        return TrainingRecord(self.products, hashes, n_queries_of, TrainConfig(), {})


@pytest.fixture(scope="module")
def shop():
    shop = simulate_shop(products=400, queries=900, seed=3)
    return shop, split_by_time(shop.log, test_days=60)


def test_recall_is_the_plain_mean_over_queries_and_by_traffic_the_weighted_one():
    result = run()
    assert result.recall(4) == pytest.approx((2 / 3 + 1 + 0) / 3)
    assert result.recall() == result.recall(4)
    # Traffic is the sum of the positives: 7, 2, 2.
    score = result.score("recall", 1)
    assert score.value == pytest.approx((1 / 3) / 3)
    assert score.by_traffic == pytest.approx((7 * 1 / 3) / 11)
    assert score.low <= score.value <= score.high
    assert score.name == "Recall@1"


def test_segments_are_as_by_hand():
    result = run(train=make_positives(TRAIN, 6))
    wanted = {  # queries, recall at 4, limit of products seen in training
        "all": (3, (2 / 3 + 1) / 3, (2 / 3 + 1 + 1) / 3),
        "seen query": (1, 2 / 3, 2 / 3),
        "unseen query": (2, 1 / 2, 1.0),
        "head query": (1, 2 / 3, 2 / 3),
        "tail query": (2, 1 / 2, 1.0),
        "rare query": (2, 1 / 2, 1.0),
        "warm product": (3, 2 / 3, 1.0),
        "cold product": (1, 0.0, 0.0),
    }
    for segment, (queries, value, limit) in wanted.items():
        score = result.score("recall", 4, segment)
        assert (score.queries, score.value, score.seen_limit) == pytest.approx(
            (queries, value, limit)
        )


def test_coverage_and_long_tail_count_results():
    result = run(train=make_positives(TRAIN, 6))
    assert [result.score("coverage", k).value for k in (1, 2, 4)] == [2 / 6, 3 / 6, 5 / 6]
    # p0 alone has half of the training counts, and is returned twice.
    assert result.score("long_tail", 1).value == 1 / 2
    assert result.score("long_tail", 4).value == 4 / 6
    with pytest.raises(KeyError, match="a score needs a segment, metric and k of this evaluation"):
        run().score("long_tail")


def test_what_training_had_is_looked_up_in_train_or_else_in_the_matcher():
    test = make_positives(RELEVANT, 6)
    options = {"ks": (1, 4), "resamples": 50}
    knowing = Remembers.of(ANSWERS, 6)
    assert knowing.training is not None
    by_matcher = evaluate(knowing, test, **options)
    by_train = evaluate(Recited.of(ANSWERS, 6), test, train=make_positives(TRAIN, 6), **options)
    for segment in ("all", *SEGMENTS):
        assert by_matcher.score(segment=segment) == by_train.score(segment=segment)
    unknown = evaluate(Recited.of(ANSWERS, 6), test, **options)
    assert {score.segment for score in unknown.scores} == {
        "all",
        "head query",
        "tail query",
        "rare query",
    }
    assert np.isnan(unknown.score().seen_limit)


def test_a_trained_matcher_remembers_what_it_was_trained_on(shop):
    whole, split = shop
    matcher = train(split.train, catalog=whole.catalog)
    assert matcher.training is not None
    alone = evaluate(matcher, split.test, ks=[10], resamples=20)
    given = evaluate(matcher, split.test, train=split.train, ks=[10], resamples=20)
    for segment in ("all", *SEGMENTS):
        assert alone.score(segment=segment) == given.score(segment=segment)


def test_the_limit_of_products_seen_in_training_is_that_of_the_split(shop):
    _, split = shop
    matcher = Popularity.from_positives(positives(split.train))
    result = evaluate(matcher, split.test, train=split.train, ks=(3, 100), resamples=20)
    for k in (3, 100):
        report = split.report(k=k)
        assert result.score("recall", k).seen_limit == pytest.approx(report.seen_limit)
        assert result.recall(k) <= report.seen_limit
    unseen = result.score(segment="unseen query").queries / len(result)
    assert unseen == pytest.approx(report.unseen_queries)


def test_a_perfect_matcher_reaches_everything():
    answers = {query: sorted(counts) for query, counts in RELEVANT.items()}
    result = evaluate(Recited.of(answers, 6), make_positives(RELEVANT, 6), ks=[3], resamples=10)
    for metric in ("recall", "ndcg", "mrr", "hit_rate"):
        score = result.score(metric)
        assert (score.value, score.low, score.high, score.by_traffic) == (1, 1, 1, 1)


def test_batches_change_nothing():
    answers, relevant = random_test(np.random.default_rng(0))
    test, matcher = make_positives(relevant, 40), Recited.of(answers, 40)
    whole = evaluate(matcher, test, train=test, resamples=20)
    parts = evaluate(matcher, test, train=test, resamples=20, batch=3)
    pd.testing.assert_frame_equal(whole.to_pandas(), parts.to_pandas())


def test_a_sample_is_seeded_and_keeps_whole_queries():
    _, relevant = random_test(np.random.default_rng(0))
    test = make_positives(relevant, 40)
    some = make_qrels(test, sample=10, seed=4)
    assert list(some.queries) == list(make_qrels(test, sample=10, seed=4).queries)
    assert list(some.queries) != list(make_qrels(test, sample=10, seed=5).queries)
    for index, query in enumerate(some.queries):
        products = some.products.take(some.product[some.row == index])
        assert set(products) == {f"p{i}" for i in relevant[query]}
        assert some.traffic[index] == sum(relevant[query].values())


def test_the_relevance_rule_of_a_log_is_used(shop):
    _, split = shop
    matcher = Popularity.from_positives(positives(split.train))
    bought = evaluate(matcher, split.test, ks=[5], resamples=5)
    clicked = evaluate(matcher, split.test, ks=[5], resamples=5, events=["click"])
    often = evaluate(matcher, split.test, ks=[5], resamples=5, min_count=3)
    assert len(often) < len(bought) < len(clicked)
    assert np.isin(bought.traffic, split.test.query_counts()).all()


def test_the_head_is_the_most_frequent_that_make_half_of_the_traffic():
    assert list(is_head(np.array([1.0, 8.0, 2.0, 3.0]))) == [False, True, False, False]
    assert list(is_head(np.array([3.0, 3.0, 3.0, 1.0]))) == [True, True, True, False]
    assert list(is_head(np.array([2.0, 2.0]))) == [False, False]
    assert list(is_head(np.array([]))) == []


def test_an_evaluation_prints_as_a_table_and_converts_to_frames():
    result = run(train=make_positives(TRAIN, 6))
    text = repr(result)
    assert "3 queries, 6 relevant products" in text
    assert "cold product" in text
    assert "@4" in text
    console = Console(width=120)
    with console.capture() as capture:
        console.print(result)
    assert "Recall" in capture.get()
    frame, rows = result.to_pandas(), result.to_dicts()
    assert len(frame) == len(rows) == result.to_arrow().num_rows
    assert list(frame.columns) == list(rows[0])
    recall = frame.query("segment == 'all' and metric == 'recall' and k == 4")
    assert recall.value.item() == result.recall(4)


def test_a_k_beyond_the_catalog_is_evaluated():
    most = 2**31 - 1
    result = run(ks=[4, most])
    assert result.recall(most) == result.recall(4)
    assert result.to_pandas().k.max() == most
    with pytest.raises(ValueError, match=r"ks must be at most 2147483647; got 2147483648"):
        run(ks=[4, most + 1])


def test_a_product_that_is_returned_twice_counts_at_its_first_rank():
    test = make_positives({"rose": {1: 1, 2: 1}}, 4)
    result = evaluate(Recited.of({"rose": [1, 3, 1]}, 4), test, ks=(1, 3), resamples=5)
    assert (result.recall(1), result.recall(3)) == (0.5, 0.5)
    assert result.score("mrr", 3).value == 1


def test_what_cannot_be_evaluated_is_an_error():
    for options, message in [
        ({"ks": ()}, "ks must hold at least one k; got none"),
        ({"ks": (0, 3)}, "k must be at least 1; got 0"),
        ({"sample": 0}, "sample must be positive; got 0"),
        ({"batch": 0}, "batch must be positive; got 0"),
        ({"segments": ("rich",)}, "segments must be among seen query, .* got 'rich'"),
    ]:
        with pytest.raises(ValueError, match=message):
            run(**options)
    with pytest.raises(DataError, match="a test must have relevant pairs; got none"):
        evaluate(Recited.of({}, 1), make_positives({}, 1))

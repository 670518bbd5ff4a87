"""`matchset evaluate` shows what counts as relevant, and warns if it tests on the training log."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command_line import call_main

import matchset as ms
from matchset.baselines import Popularity
from matchset.errors import DataError
from matchset.evaluate.pair_segments import choose_rule

RATED = [(f"hat {n}", f"p{n}", 3.0) for n in range(8)] + [("hat 1", "p2", 1.0), ("cap", "p3", 1.0)]


def read_rows(rows, *names):
    columns = zip(*rows, strict=True)
    return pa.table(dict(zip(("query", "product_id", *names), map(list, columns), strict=True)))


def evaluate(*arguments):
    """Output and errors of the command."""
    code, out, err = call_main("evaluate", *arguments)
    assert code == 0, err
    return out, err


@pytest.fixture(scope="module")
def ratings():
    return ms.read_log(read_rows(RATED, "stars"), count="stars")


@pytest.fixture(scope="module")
def matcher(ratings):
    return ms.train(ratings, config=ms.TrainConfig(min_count=2.33))


def test_ratings_are_tested_by_the_rule_of_the_training(matcher, ratings):
    assert choose_rule(matcher, ratings).min_count == 2.33
    popular = Popularity.from_positives(ms.positives(ratings))
    assert choose_rule(popular, ratings).min_count == 1
    assert choose_rule(ms.Fusion([popular, matcher]), ratings).min_count == 2.33
    assert choose_rule(matcher, ratings, min_count=2).min_count == 2


def test_purchases_and_clicks_are_tested_by_one_whatever_the_training(matcher):
    for names in (["purchase", "click"], ["click", "impression"]):
        log = ms.read_log(read_rows([("hat", "p1", name) for name in names], "event"))
        rule = choose_rule(matcher, log)
        assert (dict(rule.weights), rule.min_count) == ({names[0]: 1.0}, 1.0)


def test_an_event_without_a_usual_name_is_tested_as_it_was_trained():
    log = ms.read_log(read_rows([("hat", "p1", "gemerkt"), ("cap", "p2", "gemerkt")], "event"))
    matcher = ms.train(log, config=ms.TrainConfig(events={"gemerkt": 2.0}, min_count=2))
    rule = choose_rule(matcher, log)
    assert (dict(rule.weights), rule.min_count) == ({"gemerkt": 2.0}, 2.0)
    unnamed = ms.read_log(read_rows([("hat", "p1")]))  # its events are others
    assert choose_rule(matcher, unnamed).min_count == 1
    with pytest.raises(DataError, match="events= must say which events"):
        choose_rule(Popularity.from_positives(ms.positives(unnamed)), log)


def test_the_rule_is_said_and_the_log_of_the_training_is_noticed(matcher, tmp_path):
    model, file = tmp_path / "model", tmp_path / "log.parquet"
    matcher.save(model)
    pq.write_table(read_rows(RATED, "stars"), file)
    said, warned = evaluate(model, file, "--count", "stars")
    assert "Relevant: count of at least 2.33." in said
    assert "8 relevant products" in said
    # The log has a query without a positive pair, which training did not see.
    assert "is it the log that the model was trained on?" in warned
    said, _ = evaluate(model, file, "--count", "stars", "--min-count", 1)
    assert "Relevant: count of at least 1." in said


@pytest.fixture(scope="module")
def later(tmp_path_factory):
    """A folder with a match set, and the month after its training."""
    folder = tmp_path_factory.mktemp("later")
    shop = ms.lab.simulate_shop(products=500)
    split = ms.split_by_time(shop.log, test_days=30)
    ms.train(split.train, shop.catalog).save(folder / "model")
    split.test.save(folder / "test.parquet")
    return folder


def test_a_later_month_is_not_taken_for_the_log_of_the_training(later):
    said, warned = evaluate(later / "model", later / "test.parquet")
    assert "Relevant: 1 x purchase of at least 1." in said
    assert warned == ""


def test_recall_and_size_are_told_for_each_least_score(later):
    shown, _ = evaluate(later / "model", later / "test.parquet")
    assert "min_score" in shown
    found = json.loads(evaluate(later / "model", later / "test.parquet", "--form", "json")[0])
    cuts = found["min_score"]
    assert [cut["min_score"] for cut in cuts[:2]] == [0, 0.001]
    for name in ("recall", "size"):
        values = [cut[name] for cut in cuts]
        assert values == sorted(values, reverse=True)
    whole = next(s for s in found["scores"] if (s["metric"], s["k"]) == ("recall", 100))
    assert cuts[0]["recall"] == pytest.approx(whole["value"])
    assert f"{100 * cuts[-1]['recall']:.1f}" in shown


def test_a_file_of_answers_is_evaluated_like_a_model(later, tmp_path):
    test = ms.read_log(later / "test.parquet")
    matches = ms.load(later / "model").match(test.queries, 10)
    matches.to_pandas().to_csv(tmp_path / "mine.csv", index=False)
    said, _ = evaluate(tmp_path / "mine.csv", later / "test.parquet", "--form", "json")
    found = json.loads(said)
    again = ms.evaluate(ms.load(later / "model"), test, ks=[10], resamples=5)
    recall = next(s for s in found["scores"] if (s["metric"], s["k"]) == ("recall", 10))
    assert recall["value"] == pytest.approx(again.recall(10))
    assert found["min_score"] == []

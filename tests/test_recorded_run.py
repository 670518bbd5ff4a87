"""What another engine answered is evaluated, compared and fused like a matcher of ours."""

import numpy as np
import pytest
from rankings import Recited, make_positives

import matchset as ms
from matchset.baselines import RecordedRun
from matchset.errors import DataError

RELEVANT = {"rose": {0: 1, 1: 1}, "pot": {4: 1}, "soil": {5: 1}}
ANSWERS = {"rose": [0, 9, 1], "pot": [9, 4]}
ROWS = [("rose", "p0", 1), ("rose", "p9", 2), ("rose", "p1", 3), ("pot", "p9", 1), ("pot", "p4", 2)]


def columns():
    return [list(each) for each in zip(*ROWS, strict=True)]


@pytest.fixture
def test():
    return make_positives(RELEVANT, 10)


def write(path, lines):
    path.write_text("\n".join(lines) + "\n")
    return path


def test_rows_become_matches_by_rank_by_score_or_by_their_order():
    queries, products, ranks = columns()
    by_rank = ms.Matches.of(queries, products, ranks=ranks)
    backwards = ms.Matches.of(queries[::-1], products[::-1], ranks=ranks[::-1])
    by_score = ms.Matches.of(queries, products, [-rank for rank in ranks])
    for found in (by_rank, by_score, ms.Matches.of(queries, products)):
        assert [match.ids for match in found] == [("p0", "p9", "p1"), ("p9", "p4")]
        assert list(found.queries) == ["rose", "pot"]
    assert {match.query: match.ids for match in backwards}["rose"] == ("p0", "p9", "p1")
    twice = ms.Matches.of(["a"] * 3, ["x", "y", "x"], ranks=[3, 2, 1])
    assert twice[0].ids == ("x", "y")
    assert len(ms.Matches.of([], [])) == 0


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((["a"], ["x", "y"], [1.0, 2.0]), "one query, product and value per row; got 1 queries, 2"),
        ((["a"], ["x"], [float("nan")]), "scores and ranks must be finite"),
    ],
)
def test_rows_that_do_not_fit_are_an_error(given, message):
    with pytest.raises(ValueError, match=message):
        ms.Matches.of(*given)
    with pytest.raises(ValueError, match="either scores or ranks; got both"):
        ms.Matches.of(["a"], ["x"], [1.0], ranks=[1])


def test_a_file_with_ranks_or_scores_gives_the_same(test, tmp_path):
    ranked = write(
        tmp_path / "a.csv", ["query,product,rank", *(f"{q},{p},{r}" for q, p, r in ROWS)]
    )
    scored = write(
        tmp_path / "b.tsv", ["q\tsku\tscore", *(f"{q.upper()}\t{p}\t{-r}" for q, p, r in ROWS)]
    )
    wanted = ms.evaluate(Recited.of(ANSWERS, 10), test, ks=(1, 2, 3), resamples=5)
    for file in (ranked, scored):
        run = ms.baselines.read_run(file)
        found = ms.evaluate(run, test, ks=(1, 2, 3), resamples=5)
        assert np.array_equal(found.recalls, wanted.recalls)
        assert list(run.has(test.queries)) == [True, True, False]
        assert list(found.sizes) == [3, 2, 0]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (
            ["query,product", "a,x"],
            "must have a column rank or score; there are the columns",
        ),
        (["query,rank", "a,1"], "must name a column, as none is called product_id"),
        (
            ["query,product,rank", "a,x,first"],
            "every rank of a run must be a number; got 'first'",
        ),
        (
            ["query,product,score", "a,x,"],
            "every score of a run must be a number; got 'nothing'",
        ),
        (["query,product,rank", "a,,1"], "every row of a run must have a product; row 1 has none"),
        (["query,product,rank"], "a run must have rows; got none"),
    ],
)
def test_a_bad_file_is_an_error_that_says_where(lines, message, tmp_path):
    with pytest.raises(DataError, match=message) as raised:
        ms.baselines.read_run(write(tmp_path / "mine.csv", lines))
    assert "mine.csv" in str(raised.value)


def test_a_callable_is_evaluated_compared_and_recorded(test):
    asked = []

    def engine(queries, k):
        asked.append((len(queries), k))
        return [[f"p{number}" for number in ANSWERS.get(query, [])] for query in queries]

    def scored(queries, k):
        return [[(product, 9.0 - i) for i, product in enumerate(ids)] for ids in engine(queries, k)]

    wanted = ms.evaluate(Recited.of(ANSWERS, 10), test, ks=(1, 3), resamples=5)
    for each in (engine, scored):
        assert np.array_equal(
            ms.evaluate(each, test, ks=(1, 3), resamples=5).recalls, wanted.recalls
        )
    assert asked[0] == (3, 3)
    compared = ms.compare_matchers({"a": engine, "b": Recited.of(ANSWERS, 10)}, test, resamples=5)
    assert compared.difference("a", "b").value == 0
    assert ms.online.incremental_recall(engine, scored, test, k=3, resamples=5).overlap.value == 1
    assert len(ms.lab.measure_latency(engine, ["rose"] * 3).seconds) == 3
    run = ms.baselines.record_run(engine, test.queries, 3)
    fused = ms.Fusion([run, Recited.of({"soil": [5]}, 10)], names=["mine", "theirs"])
    assert ms.evaluate(fused, test, ks=[3], resamples=5).recall(3) == 1
    with pytest.raises(ValueError, match="one answer per query, 2; got 1"):
        ms.baselines.record_run(lambda queries, k: [[]], ["a", "b"])
    with pytest.raises(TypeError, match="a matcher must match or be callable; got str"):
        ms.evaluate("model", test)


def test_a_saved_run_holds_no_query(tmp_path):
    queries, products, ranks = columns()
    run = RecordedRun.of(ms.Matches.of(queries, products, ranks=ranks))
    run.save(tmp_path / "run")
    opened = ms.load(tmp_path / "run")
    assert opened.match(["pot", "rose", "x"]) == run.match(["pot", "rose", "x"])
    assert b"rose" not in (tmp_path / "run").read_bytes()

"""Experiments: every row is made once, measured alike, and kept."""

from dataclasses import replace

import numpy as np
import pytest
from experiments import CONFIG, EFFORT, count_making, make_small

from matchset.config import count_threads
from matchset.evaluate.compare import Difference
from matchset.evaluate.evaluation import evaluate_questions
from matchset.lab.experiments import contenders as neural
from matchset.lab.experiments import store as keep
from matchset.lab.experiments.benchmark import Plan
from matchset.lab.experiments.comparison import (
    CLAIMS,
    COMPARISON,
    REVERSED,
    SHOWN,
    UNCLEAR,
    check_claims,
    judge_difference,
    run_comparison,
)
from matchset.lab.experiments.contenders import FAST, OURS, choose_rows, list_rows
from matchset.lab.experiments.examples import choose_examples
from matchset.lab.experiments.runner import Following, run_rows
from matchset.lab.experiments.store import Store, make_digest, measure_disk
from matchset.lab.experiments.timing import on_one_core, time_queries
from matchset.lab.experiments.vocabularies import choose_vocabularies
from matchset.matchers.popularity import Popularity
from matchset.matchers.train import train
from matchset.matchers.xr_linear import XRLinearMatcher
from matchset.storage.atomic import staging_folder
from matchset.strings import Strings

NAMES = ("matchset", "unigrams", "bm25", "popularity")


@pytest.fixture(scope="module")
def problem():
    return make_small()


@pytest.fixture(scope="module")
def compared(problem, tmp_path_factory):
    out = tmp_path_factory.mktemp("compared")
    return out, run_comparison(problem, out, EFFORT, names=FAST, price_per_hour=3600.0)


def rows_of(problem):
    return list_rows(problem, choose_vocabularies(problem.pairs.queries, CONFIG.vectorizer))


def chosen_rows(problem, made, names=NAMES):
    return count_making(choose_rows(rows_of(problem), names), made)


def test_a_run_that_was_stopped_goes_on_where_it_was(problem, tmp_path):
    store, made, heard = Store(tmp_path).prepare(), [], []

    def stop_after_two(said):
        heard.append(said)
        if len(heard) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_rows(
            chosen_rows(problem, made), problem, store, EFFORT, follow=Following(stop_after_two)
        )
    assert made == ["matchset", "unigrams"]
    done = run_rows(
        chosen_rows(problem, made), problem, store, EFFORT, follow=Following(heard.append)
    )
    assert made == list(NAMES)
    assert list(done) == list(NAMES)
    assert "(kept)" in heard[2]
    again = run_rows(
        chosen_rows(problem, made), problem, store, EFFORT, follow=Following(heard.append)
    )
    assert made == list(NAMES)
    for name, row in done.items():
        assert np.array_equal(again[name].recalls, row.recalls)
        assert again[name].timing.to_dict() == row.timing.to_dict()
        assert again[name].answers == row.answers


def test_a_changed_configuration_is_not_mixed_in(problem, tmp_path):
    store, made = Store(tmp_path).prepare(), []
    run_rows(chosen_rows(problem, made), problem, store, EFFORT)
    other = replace(CONFIG, title_weight=2.0)
    changed = make_small(config=other)
    run_rows(chosen_rows(changed, made), changed, store, EFFORT)
    assert made == [*NAMES, "matchset", "unigrams"]  # the others have no such setting
    more = replace(EFFORT, singles=21)  # another measurement
    run_rows(chosen_rows(changed, made), changed, store, more)
    assert made[6:] == list(NAMES)
    other = make_small(config=replace(CONFIG, min_count=2.0))  # other pairs
    run_rows(chosen_rows(other, made), other, store, more)
    assert made[10:] == list(NAMES)


def test_a_row_is_never_told_with_the_model_of_another(problem, tmp_path, monkeypatch):
    store, made = Store(tmp_path).prepare(), []
    run_rows(chosen_rows(problem, made, ["matchset"]), problem, store, EFFORT)
    changed = make_small(config=replace(CONFIG, title_weight=2.0))

    def stop(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Store, "keep_row", stop)  # the model is there then, the row is not
        with pytest.raises(KeyboardInterrupt):
            run_rows(chosen_rows(changed, made, ["matchset"]), changed, store, EFFORT)
    run_rows(chosen_rows(problem, made, ["matchset"]), problem, store, EFFORT)
    assert made == ["matchset"] * 3
    assert XRLinearMatcher.load(store.model("matchset")).config.title_weight == 10.0


def test_what_a_killed_run_left_is_cleared_away(tmp_path):
    left = tmp_path / ".measured.01234567.tmp" / "model"
    left.mkdir(parents=True)
    with staging_folder(tmp_path / "measured") as alive:  # another run's, which goes on
        (alive / "model").mkdir()
        Store(tmp_path).prepare()
        assert not left.parent.exists()
        assert alive.exists()


def test_nothing_is_left_of_a_model_that_was_measured(problem, tmp_path):
    matcher = Popularity.from_log(problem.pairs)
    assert measure_disk(matcher, tmp_path) > 0
    assert list(tmp_path.iterdir()) == []


def test_what_matchset_did_not_write_is_never_removed(problem, tmp_path):
    models = tmp_path / "own" / "models"
    models.mkdir(parents=True)
    Popularity.from_log(problem.pairs).save(models / "popularity")
    with pytest.raises(FileExistsError, match="models: must be of an experiment"):
        Store(tmp_path / "own").prepare()
    store, kept = Store(tmp_path).prepare(), []
    for place in (tmp_path / COMPARISON, tmp_path / "rows" / "bm25", tmp_path / "models" / "bm25"):
        place.mkdir()
        kept.append(place / "letter.txt")
        kept[-1].write_text("dear")
    with pytest.raises(FileExistsError, match="must be what matchset wrote"):
        store.keep_findings(COMPARISON, {})
    with pytest.raises(FileExistsError, match="must be what matchset wrote"):
        store.drop_row("bm25")
    with pytest.raises(FileExistsError, match="must be what matchset wrote"):
        measure_disk(Popularity.from_log(problem.pairs), tmp_path, keep_at=store.model("bm25"))
    assert all(file.exists() for file in kept)
    assert not list(tmp_path.glob(".*"))


def test_a_row_of_another_machine_is_made_again(problem, tmp_path, monkeypatch):
    store, made = Store(tmp_path).prepare(), []
    run_rows(chosen_rows(problem, made, ["popularity"]), problem, store, EFFORT)
    monkeypatch.setattr(keep, "describe_machine", lambda: {"processor": "another"})
    run_rows(chosen_rows(problem, made, ["popularity"]), problem, store, EFFORT)
    run_rows(chosen_rows(problem, made, ["popularity"]), problem, store, EFFORT)
    assert made == ["popularity"] * 2


@pytest.mark.parametrize("damage", ["manifest", "array", "model"])
def test_what_is_damaged_or_gone_is_made_again(problem, tmp_path, damage):
    store, made = Store(tmp_path).prepare(), []
    run_rows(chosen_rows(problem, made, ["bm25"]), problem, store, EFFORT)
    row = tmp_path / "rows" / "bm25"
    if damage == "manifest":
        (row / "manifest.json").write_text("{")
    elif damage == "array":
        (row / "recalls.bin").write_bytes(b"x")
    else:
        (tmp_path / "models" / "bm25").rename(tmp_path / "elsewhere")
    done = run_rows(chosen_rows(problem, made, ["bm25"]), problem, store, EFFORT)
    assert made == ["bm25", "bm25"]
    assert store.find_row("bm25", done["bm25"].digest) is not None


def test_rows_left_out_are_told_if_they_are_kept(problem, tmp_path):
    run_comparison(problem, tmp_path, EFFORT, names=["bm25"])
    found = run_comparison(problem, tmp_path, EFFORT, names=["popularity"])
    told = {row["name"]: row["absent"] for row in found["rows"]}
    assert told["bm25"] is None
    assert told["popularity"] is None
    assert told["matchset"] == "not run: --rows matchset"
    assert found["adds"] is None
    with pytest.raises(ValueError, match=r"rows must be of matchset, unigrams.*; got 'bm26'"):
        run_comparison(problem, tmp_path, EFFORT, names=["bm26"])


def test_a_row_left_out_whose_model_is_gone_adds_nothing(problem, tmp_path):
    found = run_comparison(problem, tmp_path, EFFORT, names=["matchset", "bm25"])
    assert found["adds"] is not None
    Store(tmp_path).model("matchset").rename(tmp_path / "elsewhere")
    found = run_comparison(problem, tmp_path, EFFORT, names=["bm25"])
    assert found["adds"] is None


def test_every_row_is_measured_as_if_alone(problem, compared):
    out, found = compared
    matcher = XRLinearMatcher.load(out / "models" / OURS)
    alone = evaluate_questions(
        matcher, problem.questions, train=problem.pairs, ks=EFFORT.ks, resamples=50
    )
    ours = found["rows"][0]
    wanted = {(s.segment, s.metric, s.k): s.value for s in alone.scores}
    for score in ours["scores"]:
        assert score["value"] == pytest.approx(
            wanted[score["segment"], score["metric"], score["k"]], nan_ok=True
        )
    assert ours["cost"] == pytest.approx(ours["train_seconds"])  # at 3600 an hour
    assert ours["disk_bytes"] == sum(f.stat().st_size for f in (out / "models" / OURS).iterdir())
    assert ours["against_ours"] == {}
    assert set(found["rows"][1]["against_ours"]) == {"5", "10", "20"}
    assert sum(ours["histogram"]["counts"]) == pytest.approx(20, abs=1)


def test_what_it_adds_is_of_the_same_questions(problem, compared):
    _, found = compared
    adds, rows = found["adds"], {row["name"]: row for row in found["rows"]}
    for part, name in (("recall_first", "matchset"), ("recall_second", "bm25")):
        score = next(
            s for s in rows[name]["scores"]
            if (s["segment"], s["metric"], s["k"]) == ("all", "recall", 20)
        )  # fmt: skip
        assert adds[part]["value"] == pytest.approx(score["value"])
    assert adds["both"]["value"] + adds["only_first"]["value"] == pytest.approx(
        adds["recall_first"]["value"]
    )


def test_limits_of_the_papers_rows_bind_and_are_as_announced(problem):
    found = choose_vocabularies(problem.pairs.queries, CONFIG.vectorizer)
    distinct = dict(zip([("word", 1), ("word", 2), ("char", 3)], found.distinct, strict=True))
    assert found.size == int(0.8 * distinct["word", 1])
    limits = {
        name: {(kind.unit, kind.n): kind.limit for kind in config.ngrams}
        for name, config in found.configs.items()
    }
    assert limits["unigrams"] == {("word", 1): found.size}
    assert sum(limits["bigrams"].values()) == found.size
    assert sum(limits["more-bigrams"].values()) == round(1.9 * found.size)
    assert sum(limits["trigrams"].values()) == pytest.approx(1.4 * found.size, abs=2)
    for kinds in limits.values():
        assert sum(kinds.values()) < sum(distinct[kind] for kind in kinds)


def test_examples_are_shown_only_of_queries_that_may_be(problem, compared):
    _, found = compared
    questions = problem.questions
    shown = {questions.queries[int(place)] for place in np.flatnonzero(problem.may_show)}
    examples = found["examples"]
    assert 0 < len(examples["queries"]) <= 9
    assert {query["query"] for query in examples["queries"]} <= shown
    assert not problem.may_show.all()  # there are some that may not
    for query in examples["queries"]:
        gains = [
            sum(answer["is_relevant"] for answer in query["answers"][name])
            for name in (OURS, examples["partner"])
        ]
        assert query["kind"] != "wins" or gains[0] > gains[1]
        assert query["kind"] != "loses" or gains[0] < gains[1]


def test_no_example_is_shown_where_none_is_frequent_enough(tmp_path):
    hidden = make_small(config=replace(CONFIG, min_query_count=10**9))
    found = run_comparison(hidden, tmp_path, EFFORT, names=["matchset", "bm25"])
    assert found["examples"] is None
    assert choose_examples(hidden, {}) is None


def test_without_a_catalogue_the_rows_that_need_titles_are_absent(problem, tmp_path):
    blind = replace(problem, catalog=None, digest="blind")
    found = run_comparison(blind, tmp_path, EFFORT, names=["matchset"])
    absent = {row["name"]: row["absent"] for row in found["rows"]}
    assert "give --catalog" in absent["bm25"]
    assert "give --catalog" in absent["dssm"]
    assert found["adds"] is None


def test_a_row_that_is_named_but_cannot_run_is_refused_before_any_work(
    problem, tmp_path, monkeypatch
):
    monkeypatch.setattr(neural, "find_spec", lambda name: None)
    blind = replace(problem, catalog=None, digest="blind")
    out = tmp_path / "out"
    for asked, name, how in [(problem, "dssm", "pip install"), (blind, "bm25", "give --catalog")]:
        rule = f"rows must be such as can run here; got '{name}': needs .*{how}"
        with pytest.raises(ValueError, match=rule):
            run_comparison(asked, out, EFFORT, names=["matchset", name])
    assert not out.exists()


def test_without_a_title_to_learn_from_the_neural_rows_are_absent(problem, monkeypatch):
    monkeypatch.setattr(neural, "find_spec", lambda name: name)
    assert neural.find_reason(problem) == ""
    strangers = Strings.of(f"x{place}" for place in range(len(problem.catalog)))
    nameless = Strings.of([""] * len(problem.catalog))
    for changed in ({"ids": strangers}, {"titles": nameless}):
        catalog = replace(problem.catalog, **changed)
        assert "needs a title" in neural.find_reason(replace(problem, catalog=catalog))


def test_without_the_extra_the_neural_rows_say_how_to_get_it(problem, monkeypatch):
    monkeypatch.setattr(neural, "find_spec", lambda name: None)
    rows = {row.name: row for row in rows_of(problem)}
    assert "pip install 'matchset[dssm]'" in rows["dssm"].absent
    with pytest.raises(ValueError, match="absent"):
        rows["dssm"].learn(None)


@pytest.mark.parametrize(
    ("value", "low", "high", "p", "verdict"),
    [
        (0.1, 0.05, 0.15, 0.001, SHOWN),
        (-0.1, -0.15, -0.05, 0.001, REVERSED),
        (0.1, -0.05, 0.25, 0.2, UNCLEAR),
        (0.1, 0.01, 0.2, 0.06, UNCLEAR),
    ],
)
def test_an_order_is_shown_reversed_or_unclear(value, low, high, p, verdict):
    better, worse = CLAIMS[0]
    difference = Difference(better, worse, 100, value, low, high, p, p)
    assert judge_difference(difference) == verdict
    checked = check_claims([difference], 100)
    assert [claim["verdict"] for claim in checked] == [verdict, *["not measured"] * 6]


def test_digests_tell_what_differs():
    one, other = Strings.of(["ab", "c"]), Strings.of(["a", "bc"])
    assert make_digest(one) != make_digest(other)
    assert make_digest(np.zeros(2)) != make_digest(np.zeros(2, dtype=np.float32))
    assert make_digest({"a": 1, "b": 2}) == make_digest({"b": 2, "a": 1})
    assert make_digest(Plan()) != make_digest(Plan(seed=1))


def test_one_core_is_given_back():
    before = count_threads(None)
    with on_one_core():
        assert count_threads(None) == 1
    assert count_threads(None) == before


def test_each_matcher_is_timed_in_two_parts(problem, tmp_path):
    for row in choose_rows(rows_of(problem), FAST):
        timing = time_queries(row.learn(tmp_path), problem.questions.queries, sample=5)
        told = timing.to_dict()
        assert len(timing.total) == 5
        assert (told["vectorizing_p50"] > 0) is (row.name != "popularity")
        assert told["total_p50"] > 0


def test_a_price_must_be_one(problem, tmp_path):
    with pytest.raises(ValueError, match="price_per_hour must be at least 0, and finite; got -1"):
        run_comparison(problem, tmp_path, EFFORT, names=[], price_per_hour=-1.0)


def test_training_sees_the_training_side_alone(problem):
    matcher = train(problem.train, problem.catalog, problem.config)
    is_seen = matcher.training.is_seen(problem.questions.queries)
    assert 0 < np.count_nonzero(is_seen) < len(is_seen)

"""Experiments: every contender is trained once, measured alike, and its result stored."""

from dataclasses import replace

import numpy as np
import pytest
from experiments import BUDGET, CONFIG, FAST, count_training, make_small
from stored import damage

from matchset.config import count_threads
from matchset.data.split import SplitOptions
from matchset.evaluate.compare import Difference
from matchset.evaluate.evaluation import evaluate
from matchset.evaluate.overlap import Share
from matchset.lab.experiments import paper_rows
from matchset.lab.experiments import store as stores
from matchset.lab.experiments.claims import (
    CLAIMS,
    CONFIRMED,
    REVERSED,
    UNCLEAR,
    check_claims,
    find_verdict,
)
from matchset.lab.experiments.comparison import LEFT_OUT, ZERO_RESULT, run_comparison
from matchset.lab.experiments.contender import choose_contenders
from matchset.lab.experiments.contenders import OURS, PAPER_ROWS, SHOP_ROWS, list_contenders
from matchset.lab.experiments.examples import choose_examples
from matchset.lab.experiments.runner import ProgressListener, run_contenders
from matchset.lab.experiments.store import Store, make_digest, measure_disk
from matchset.lab.experiments.timing import on_one_core, time_queries
from matchset.lab.experiments.vocabularies import choose_vocabularies
from matchset.lab.report.verdict import describe_verdict
from matchset.matchers.match_set import MatchSet
from matchset.matchers.popularity import Popularity
from matchset.matchers.registry import KINDS
from matchset.matchers.train import train
from matchset.strings import Strings

NAMES = ("xr_linear", "xr_linear_unigrams", "bm25", "popularity")
GROUPS = ("ours", "part", "ablation", "fusion", "baseline", "paper")


@pytest.fixture(scope="module")
def benchmark():
    return make_small()


@pytest.fixture(scope="module")
def compared(benchmark, tmp_path_factory):
    out = tmp_path_factory.mktemp("compared")
    return out, run_comparison(benchmark, out, BUDGET, names=FAST)


def contenders_of(benchmark):
    return list_contenders(
        benchmark, choose_vocabularies(benchmark.pairs.queries, CONFIG.vectorizer)
    )


def chosen(benchmark, made, names=NAMES):
    return count_training(choose_contenders(contenders_of(benchmark), names), made)


def test_every_contender_is_listed_by_name_and_the_papers_run_only_if_asked_for(benchmark):
    contenders = contenders_of(benchmark)
    named = {each.name for each in contenders if each.group != "fusion"}
    assert named == {*SHOP_ROWS, *PAPER_ROWS}
    by_default = {each.name for each in choose_contenders(contenders, None)}
    assert not by_default & set(PAPER_ROWS)
    assert by_default >= set(SHOP_ROWS)
    assert len(choose_contenders(contenders, None, with_paper=True)) == len(contenders)


def test_a_run_that_was_stopped_goes_on_where_it_was(benchmark, tmp_path):
    store, made, heard = Store(tmp_path).prepare(), [], []

    def stop_after_two(said):
        heard.append(said)
        if len(heard) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_contenders(
            chosen(benchmark, made),
            benchmark,
            store,
            BUDGET,
            progress=ProgressListener(stop_after_two),
        )
    assert made == ["xr_linear", "xr_linear_unigrams"]
    done = run_contenders(
        chosen(benchmark, made),
        benchmark,
        store,
        BUDGET,
        progress=ProgressListener(heard.append),
    )
    assert made == list(NAMES)
    assert list(done) == list(NAMES)
    assert "(stored)" in heard[2]
    again = run_contenders(
        chosen(benchmark, made),
        benchmark,
        store,
        BUDGET,
        progress=ProgressListener(heard.append),
    )
    assert made == list(NAMES)
    for name, row in done.items():
        assert np.array_equal(again[name].evaluation.recalls, row.evaluation.recalls)
        assert np.array_equal(again[name].evaluation.sizes, row.evaluation.sizes)
        assert repr(again[name].evaluation.scores) == repr(row.evaluation.scores)
        assert again[name].timing.to_dict() == row.timing.to_dict()
        assert again[name].answers == row.answers


def test_a_changed_configuration_is_measured_again(benchmark, tmp_path):
    store, made = Store(tmp_path).prepare(), []
    run_contenders(chosen(benchmark, made), benchmark, store, BUDGET)
    other = replace(CONFIG, title_weight=2.0)
    changed = make_small(config=other)
    run_contenders(chosen(changed, made), changed, store, BUDGET)
    assert made == [*NAMES, "xr_linear", "xr_linear_unigrams"]  # the others have no such setting
    more = replace(BUDGET, singles=21)  # another measurement
    run_contenders(chosen(changed, made), changed, store, more)
    assert made[6:] == list(NAMES)
    other = make_small(config=replace(CONFIG, min_count=2.0))  # other pairs
    run_contenders(chosen(other, made), other, store, more)
    assert made[10:] == list(NAMES)


def test_a_result_is_never_shown_with_the_model_of_another(benchmark, tmp_path, monkeypatch):
    store, made = Store(tmp_path).prepare(), []
    run_contenders(chosen(benchmark, made, [OURS]), benchmark, store, BUDGET)
    changed = make_small(config=replace(CONFIG, title_weight=2.0))

    def stop(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Store, "save_result", stop)  # the model is there then, the row is not
        with pytest.raises(KeyboardInterrupt):
            run_contenders(chosen(changed, made, [OURS]), changed, store, BUDGET)
    run_contenders(chosen(benchmark, made, [OURS]), benchmark, store, BUDGET)
    assert made == [OURS] * 3
    assert MatchSet.load(store.model(OURS)).config.title_weight == 10.0


def test_nothing_is_left_of_a_model_that_was_measured(benchmark, tmp_path):
    matcher = Popularity.from_positives(benchmark.pairs)
    assert measure_disk(matcher, tmp_path) > 0
    assert list(tmp_path.iterdir()) == []


def test_what_matchset_did_not_write_is_never_removed(benchmark, tmp_path):
    models = tmp_path / "own" / "models"
    models.mkdir(parents=True)
    Popularity.from_positives(benchmark.pairs).save(models / "popularity")
    with pytest.raises(FileExistsError, match="models: must be the folder of an experiment"):
        Store(tmp_path / "own").prepare()
    store, kept = Store(tmp_path).prepare(), []
    for path in (tmp_path / "rows" / "bm25", tmp_path / "models" / "bm25"):
        kept.append(path)
        path.write_text("dear")
    with pytest.raises(FileExistsError, match="must be written by matchset"):
        store.remove_result("bm25")
    with pytest.raises(FileExistsError, match="must be written by matchset"):
        measure_disk(
            Popularity.from_positives(benchmark.pairs), tmp_path, store_at=store.model("bm25")
        )
    assert all(file.exists() for file in kept)
    assert not list(tmp_path.glob(".*"))


def test_a_result_of_another_machine_is_measured_again(benchmark, tmp_path, monkeypatch):
    store, made = Store(tmp_path).prepare(), []
    run_contenders(chosen(benchmark, made, ["popularity"]), benchmark, store, BUDGET)
    monkeypatch.setattr(stores, "describe_machine", lambda: {"processor": "another"})
    run_contenders(chosen(benchmark, made, ["popularity"]), benchmark, store, BUDGET)
    run_contenders(chosen(benchmark, made, ["popularity"]), benchmark, store, BUDGET)
    assert made == ["popularity"] * 2


@pytest.mark.parametrize("how", ["header", "length", "model"])
def test_what_is_damaged_or_gone_is_measured_again(benchmark, tmp_path, how):
    store, made = Store(tmp_path).prepare(), []
    run_contenders(chosen(benchmark, made, ["bm25"]), benchmark, store, BUDGET)
    row = tmp_path / "rows" / "bm25"
    if how == "header":
        damage(row, 100)
    elif how == "length":
        row.write_bytes(row.read_bytes()[:-1])
    else:
        (tmp_path / "models" / "bm25").rename(tmp_path / "elsewhere")
    done = run_contenders(chosen(benchmark, made, ["bm25"]), benchmark, store, BUDGET)
    assert made == ["bm25", "bm25"]
    assert store.load_result("bm25", done["bm25"].digest, benchmark.qrels) is not None


def test_contenders_left_out_are_shown_if_their_results_are_stored(benchmark, tmp_path):
    run_comparison(benchmark, tmp_path, BUDGET, names=["bm25"])
    found = run_comparison(benchmark, tmp_path, BUDGET, names=["popularity"])
    absent = {row.name: row.absent for row in found.rows}
    assert absent["bm25"] == absent["popularity"] == ""
    assert absent["xr_linear"] == LEFT_OUT
    assert found.adds is None
    with pytest.raises(ValueError, match=r"rows must be among match_set, .*; got 'bm26'"):
        run_comparison(benchmark, tmp_path, BUDGET, names=["bm26"])


def test_a_contender_left_out_whose_model_is_gone_adds_nothing(benchmark, tmp_path):
    found = run_comparison(benchmark, tmp_path, BUDGET, names=[OURS, "bm25"])
    assert found.adds is not None
    assert found.match_set is not None
    Store(tmp_path).model(OURS).rename(tmp_path / "elsewhere")
    found = run_comparison(benchmark, tmp_path, BUDGET, names=["bm25"])
    assert (found.adds, found.match_set) == (None, None)


def test_every_contender_is_measured_as_if_alone(benchmark, compared):
    out, found = compared
    matcher = MatchSet.load(out / "models" / OURS)
    alone = evaluate(matcher, benchmark.qrels, train=benchmark.pairs, ks=BUDGET.ks, resamples=50)
    ours = found.rows[0]
    assert ours.name == OURS
    for wanted in alone.scores:
        score = ours.score(wanted.k, wanted.segment, wanted.metric)
        assert score.value == pytest.approx(wanted.value, nan_ok=True)
    assert ours.cost.disk_bytes == (out / "models" / OURS).stat().st_size
    for row in found.present()[1:]:
        assert all(found.difference(OURS, row.name, k) is not None for k in BUDGET.ks)
    assert sum(ours.cost.counts) == pytest.approx(20, abs=1)


def test_the_match_set_is_first_and_its_parts_are_rows(compared):
    out, found = compared
    groups = {group: [row.name for row in found.present(group)] for group in GROUPS}
    assert groups["ours"] == [OURS]
    parts = ("tree", "towers", "lexical", "neighbors")
    assert groups["part"] == [f"{OURS}_{part}" for part in parts]
    assert groups["ablation"] == [f"{OURS}_without_{part}" for part in parts]
    assert groups["fusion"] == ["fusion_rrf_bm25_stemmed"]
    assert {"xr_linear", "bm25", "bm25_stemmed", "title_similarity"} <= set(groups["baseline"])
    assert len(groups["paper"]) == 4
    without = MatchSet.load(out / "models" / OURS).only(("tree", "towers", "neighbors"))
    assert without.model.lexical is None
    row = found.row(f"{OURS}_without_lexical")
    assert row.recall(20) == pytest.approx(
        evaluate(without, make_small().qrels, ks=[20], resamples=5).recall()
    )


def test_zero_results_of_the_opponent_are_a_segment(benchmark, compared):
    _, found = compared
    assert found.opponent == "bm25_stemmed"
    ours, other = found.row(OURS), found.row(found.opponent)
    zero = ours.score(20, ZERO_RESULT)
    assert 0 < zero.queries < len(benchmark.qrels)
    assert other.score(20, ZERO_RESULT).value == 0
    assert zero.low <= zero.value <= zero.high


def test_what_it_adds_is_measured_on_the_same_qrels(benchmark, compared):
    _, found = compared
    adds = found.adds
    for share, name in ((adds.recall_first, OURS), (adds.recall_second, found.opponent)):
        assert share.value == pytest.approx(found.row(name).recall(20))
    assert adds.both.value + adds.only_first.value == pytest.approx(adds.recall_first.value)


def test_limits_of_the_papers_variants_bind_and_are_as_announced(benchmark):
    found = choose_vocabularies(benchmark.pairs.queries, CONFIG.vectorizer)
    distinct = dict(zip([("word", 1), ("word", 2), ("char", 3)], found.distinct, strict=True))
    assert found.size == int(0.8 * distinct["word", 1])
    limits = {
        name: {(kind.unit, kind.n): kind.limit for kind in config.ngrams}
        for name, config in found.configs.items()
    }
    assert limits["xr_linear_unigrams"] == {("word", 1): found.size}
    assert sum(limits["xr_linear_bigrams"].values()) == found.size
    assert sum(limits["xr_linear_more_bigrams"].values()) == round(1.9 * found.size)
    assert sum(limits["xr_linear_trigrams"].values()) == pytest.approx(1.4 * found.size, abs=2)
    for kinds in limits.values():
        assert sum(kinds.values()) < sum(distinct[kind] for kind in kinds)


def test_examples_are_shown_only_of_queries_that_may_be(benchmark, compared):
    _, found = compared
    qrels = benchmark.qrels
    shown = {qrels.queries[int(index)] for index in np.flatnonzero(benchmark.may_show)}
    assert 0 < len(found.examples) <= 9
    assert {example.query for example in found.examples} <= shown
    assert not benchmark.may_show.all()  # there are some that may not
    for example in found.examples:
        gains = [
            sum(answer.is_relevant for answer in example.answers[name])
            for name in (OURS, found.opponent)
        ]
        assert example.kind != "wins" or gains[0] > gains[1]
        assert example.kind != "loses" or gains[0] < gains[1]


def test_no_example_is_shown_where_none_is_frequent_enough(tmp_path):
    hidden = make_small(config=replace(CONFIG, min_query_count=10**9))
    found = run_comparison(hidden, tmp_path, BUDGET, names=[OURS, "bm25"])
    assert found.examples == ()
    assert choose_examples(hidden, {}, None) == ()


def test_without_a_catalog_the_contenders_that_need_titles_are_absent(benchmark, tmp_path):
    blind = replace(benchmark, catalog=None, digest="blind")
    found = run_comparison(blind, tmp_path, BUDGET, names=[OURS])
    absent = {row.name: row.absent for row in found.rows}
    for name in ("bm25", "dssm", f"{OURS}_towers", f"{OURS}_without_lexical"):
        assert "give --catalog" in absent[name]
    assert found.adds is None
    assert describe_verdict(found).startswith("No verdict: there is no other search")


def test_a_contender_that_is_named_but_cannot_run_is_an_error_before_any_work(
    benchmark, tmp_path, monkeypatch
):
    monkeypatch.setattr(paper_rows, "find_spec", lambda name: None)
    blind = replace(benchmark, catalog=None, digest="blind")
    out = tmp_path / "out"
    for asked, name, how in [(benchmark, "dssm", "pip install"), (blind, "bm25", "give --catalog")]:
        rule = f"rows must be able to run here; got '{name}': needs .*{how}"
        with pytest.raises(ValueError, match=rule):
            run_comparison(asked, out, BUDGET, names=["xr_linear", name])
    assert not out.exists()


def test_without_a_title_to_learn_from_the_neural_contenders_are_absent(benchmark, monkeypatch):
    monkeypatch.setattr(paper_rows, "find_spec", lambda name: name)
    assert paper_rows.why_no_dssm(benchmark) == ""
    strangers = Strings.of(f"x{number}" for number in range(len(benchmark.catalog)))
    nameless = Strings.of([""] * len(benchmark.catalog))
    for changed in ({"ids": strangers}, {"titles": nameless}):
        catalog = replace(benchmark.catalog, **changed)
        assert "needs a title" in paper_rows.why_no_dssm(replace(benchmark, catalog=catalog))


def test_without_the_extra_the_neural_contenders_say_how_to_get_it(benchmark, monkeypatch):
    monkeypatch.setattr(paper_rows, "find_spec", lambda name: None)
    rows = {row.name: row for row in contenders_of(benchmark)}
    assert "pip install 'torch>=" in rows["dssm"].absent
    with pytest.raises(ValueError, match="absent"):
        rows["dssm"].train(None)


@pytest.mark.parametrize(
    ("value", "low", "high", "p", "verdict"),
    [
        (0.1, 0.05, 0.15, 0.001, CONFIRMED),
        (-0.1, -0.15, -0.05, 0.001, REVERSED),
        (0.1, -0.05, 0.25, 0.2, UNCLEAR),
        (0.1, 0.01, 0.2, 0.06, UNCLEAR),
    ],
)
def test_a_claim_is_confirmed_reversed_or_unclear(value, low, high, p, verdict):
    better, worse = CLAIMS[0]
    difference = Difference(better, worse, 100, value, low, high, p, p, *[Share(0, 0, 0)] * 2)
    assert find_verdict(difference) == verdict
    checked = check_claims([difference], 100)
    assert [claim.verdict for claim in checked] == [verdict, *["not measured"] * 6]


def test_contenders_are_named_and_labelled_by_the_registry(benchmark):
    contenders = contenders_of(benchmark)
    own = [contender for contender in contenders if contender.name == contender.kind]
    without = ("fusion", "run")  # their rows have names of their own
    assert [contender.name for contender in own] == [k for k in KINDS if k not in without]
    for contender in contenders:
        if contender.group in ("baseline", "paper"):
            assert contender.title.startswith(KINDS[contender.kind].label)
        assert contender.name.startswith(contender.kind)
    assert contenders[0].title == "Match set"
    assert len({contender.title for contender in contenders}) == len(contenders)


def test_results_just_made_are_not_read_back(benchmark, tmp_path, monkeypatch):
    loaded, load = [], Store.load_result

    def note(store, name, *rest):
        loaded.append(name)
        return load(store, name, *rest)

    monkeypatch.setattr(Store, "load_result", note)
    run_comparison(benchmark, tmp_path, BUDGET, names=["bm25"])
    assert loaded.count("bm25") == 1  # before it was made


def test_digests_differ_with_what_they_are_of():
    one, other = Strings.of(["ab", "c"]), Strings.of(["a", "bc"])
    assert make_digest(one) != make_digest(other)
    assert make_digest(np.zeros(2)) != make_digest(np.zeros(2, dtype=np.float32))
    assert make_digest({"a": 1, "b": 2}) == make_digest({"b": 2, "a": 1})
    assert make_digest(SplitOptions()) != make_digest(SplitOptions(fold=1))


def test_all_cores_are_available_again_after_one_core():
    before = count_threads(None)
    with on_one_core():
        assert count_threads(None) == 1
    assert count_threads(None) == before


def test_each_matcher_is_timed_in_two_parts(benchmark, tmp_path):
    for row in contenders_of(benchmark):
        if row.absent or row.needs:
            continue
        timing = time_queries(row.train(tmp_path), benchmark.qrels.queries, sample=5)
        shares = timing.to_dict()
        assert len(timing.total) == 5
        assert (shares["vectorizing_p50"] > 0) is (row.kind not in ("bm25", "popularity"))
        assert shares["total_p50"] > 0


def test_training_sees_the_training_side_alone(benchmark):
    matcher = train(benchmark.train, benchmark.catalog, benchmark.config)
    is_seen = matcher.training.is_seen(benchmark.qrels.queries)
    assert 0 < np.count_nonzero(is_seen) < len(is_seen)

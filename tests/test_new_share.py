"""One setting says how many of the answers are new products, to which no past query led."""

import json
from itertools import pairwise

import numpy as np
import pytest
from command_line import run
from serving import serving
from word_shop import COLORS, EXTRA, THINGS, make_config, make_shop

import matchset as ms
from matchset.baselines import BM25
from matchset.model.match_set_model import Bounds
from matchset.strings import Strings

SHARES = (0.02, 0.1, 0.3, 0.6, 0.9)
QUERIES = [f"{color} {thing}" for color in COLORS for thing in THINGS] + [*EXTRA, "zzqx", ""]
RULE = "new_share must be from 0 to 1; got "


@pytest.fixture(scope="module")
def matcher():
    """A match set whose last products no query led to, trained on a log without times."""
    return ms.train(*make_shop(), make_config())


@pytest.fixture(scope="module")
def saved(matcher, tmp_path_factory):
    folder = tmp_path_factory.mktemp("share") / "model"
    matcher.save(folder)
    return folder


def count_new(matcher, k=10, **options):
    """How many of the first k answers to each query are new products."""
    is_new = matcher.n_queries_of == 0
    return np.array([is_new[found.labels].sum() for found in matcher.match(QUERIES, k, **options)])


def test_a_larger_share_never_shows_fewer_new_products(matcher):
    counts = [count_new(matcher, new_share=share) for share in SHARES]
    assert all((more >= few).all() for few, more in pairwise(counts))
    assert counts[0].sum() < counts[-1].sum()


def test_new_products_move_up_and_the_order_among_known_ones_stays(matcher):
    is_new = matcher.n_queries_of == 0
    for query in QUERIES[:20]:
        few, many = (matcher.match(query, 1000, new_share=share).labels for share in (0.1, 0.15))
        assert sorted(few) == sorted(many)
        for kind in (is_new, ~is_new):
            assert few[kind[few]].tolist() == many[kind[many]].tolist()
        rank = {label: i for i, label in enumerate(few.tolist())}
        assert all(i <= rank[label] for i, label in enumerate(many.tolist()) if is_new[label])


@pytest.mark.parametrize("share", SHARES)
def test_training_with_a_share_gives_what_setting_it_later_gives(matcher, share):
    trained = ms.train(*make_shop(), make_config(new_share=share))
    assert trained.match(QUERIES, 30) == matcher.with_new_share(share).match(QUERIES, 30)
    assert trained.model.bounds == matcher.with_new_share(share).model.bounds


@pytest.mark.parametrize("tune", [True, False])
def test_the_share_that_was_learned_or_assumed_changes_nothing(tune):
    log, catalog = make_shop()
    trained = ms.train(log, catalog, make_config(tune=tune))
    share = trained.model.reranker.new_share
    assert trained.model.bounds.cold_share == share
    assert trained.model.bounds.cold_shift == 0
    same = trained.with_new_share(0.7).with_new_share(share)
    for found in (same.match(QUERIES), trained.match(QUERIES, new_share=share)):
        assert found == trained.match(QUERIES)
    assert (count_new(trained, new_share=0.95) >= count_new(trained)).all()


@pytest.mark.parametrize("share", [0, 0.3, 1])
def test_a_share_for_one_call_is_that_of_a_match_set_with_this_share(matcher, share):
    other = matcher.with_new_share(share)
    assert matcher.match(QUERIES, 9, new_share=share) == other.match(QUERIES, 9)
    chosen = list(matcher.products.ids)[::2]
    wanted = other.match(QUERIES, 9, where=chosen)
    assert matcher.match(QUERIES, 9, where=chosen, new_share=share) == wanted
    beam = matcher.match(QUERIES, 9, beam=1, new_share=share)
    assert (
        beam
        == other.match(QUERIES, 9, beam=1)
        == matcher.with_beam(1).with_new_share(share).match(QUERIES, 9)
    )
    bodies = [
        json.loads(answer(b"{", "red rose", False)[0])["products"]
        for answer in (matcher.prepare_answer(9, new_share=share), other.prepare_answer(9))
    ]
    assert bodies[0] == bodies[1]
    assert [one["id"] for one in bodies[0]] == list(other.match("red rose", 9).ids)
    towers = matcher.part("towers")
    assert towers.match(QUERIES, 9, new_share=share) == other.part("towers").match(QUERIES, 9)


def test_an_explanation_has_the_score_and_the_rank_that_the_share_gives(matcher):
    for share in (None, 0.02, 0.5):
        found = matcher.match("red rose", 20, new_share=share)
        for rank, hit in enumerate(found, start=1):
            told = matcher.explain("red rose", hit.id, k=20, new_share=share)
            assert (told.rank, told.score) == (rank, pytest.approx(hit.score, rel=1e-5))
            assert sum(part.share for part in told.parts) == pytest.approx(told.linear, abs=1e-4)


def test_a_share_is_saved_and_kept_by_changes_and_by_a_refresh(matcher, tmp_path):
    other = matcher.with_new_share(0.4)
    other.save(tmp_path / "model")
    opened = ms.load(tmp_path / "model")
    assert opened.match(QUERIES) == other.match(QUERIES)
    with ms.open_writer(tmp_path / "model") as writer:
        changed = writer.upsert([ms.Upsert("n1", "red rose vase")], remove=["p000"])
    assert ms.load(tmp_path / "model").match(QUERIES) == changed.match(QUERIES)
    refreshed = changed.refresh(make_shop(40, seed=3)[0])
    for each in (changed, refreshed, refreshed.only(["towers", "lexical"]), refreshed.prune(0.1)):
        assert each.model.bounds == other.model.bounds


def test_where_many_answers_are_new_the_sources_keep_places_for_them(matcher):
    def count_candidates(share):
        bounds = Bounds(list_products=5, lexical_products=5, cold_share=share)
        queries = Strings.of(QUERIES)
        found = matcher.model.describe(matcher.vectorizer.native, queries, bounds=bounds)
        return np.count_nonzero(matcher.n_queries_of[found.labels] == 0)

    assert count_candidates(0.1) < count_candidates(0.5) < count_candidates(1)


@pytest.mark.parametrize("wrong", [2, -0.1, float("nan"), "many", [0.2]])
def test_what_is_no_share_is_refused(matcher, wrong):
    for ask in (
        lambda: matcher.match("red rose", new_share=wrong),
        lambda: matcher.with_new_share(wrong),
        lambda: ms.TrainConfig(new_share=wrong),
    ):
        with pytest.raises((ValueError, TypeError), match=r"new_share must be|unhashable"):
            ask()


def test_matchers_of_another_kind_take_no_share(matcher):
    bm25 = BM25.from_catalog(make_shop()[1])
    for other in (bm25, matcher.part("tree"), ms.Fusion([bm25, matcher])):
        with pytest.raises(ValueError, match=r"new_share is not an option of a .*; got 0\.5"):
            other.match("red rose", new_share=0.5)
    with pytest.raises(ValueError, match="new_share is not an option of a xr_linear matcher"):
        matcher.part("tree").explain("red rose", "p000", new_share=0.5)


def test_summary_and_inspection_tell_the_share_and_who_says_so(saved, tmp_path):
    recent = ms.train(*make_shop(n_queries=2500, days=60), make_config())
    n_days = recent.model.reranker.facts["days"]
    assert f", as the last {n_days} days tell" in str(recent.summary)
    recent.with_new_share(0.25).save(tmp_path / "model")
    assert "25.0%, as set" in run("inspect", tmp_path / "model")
    assumed = f"{ms.load(saved).model.reranker.new_share:.1%}, assumed"
    assert assumed in run("inspect", saved)
    assert assumed in str(ms.load(saved).summary)


def test_the_command_line_takes_a_share(matcher, saved, tmp_path):
    other = matcher.with_new_share(0.8)
    said = run("match", saved, "red rose", "--new-share", 0.8, "--form", "tsv")
    assert [line.split("\t")[2] for line in said.splitlines()] == list(
        other.match("red rose", 10).ids
    )
    rank = other.explain("red rose", "p159").rank
    told = run("explain", saved, "red rose", "p159", "--new-share", 0.8, "-k", 100)
    assert rank is None or f"rank {rank:,}" in told
    assert RULE + "3" in run("match", saved, "red rose", "--new-share", 3, ok=False)
    log, catalog = tmp_path / "log.csv", tmp_path / "catalog.csv"
    log.write_text("query,product_id\n" + "red rose,p1\nblue vase,p2\n" * 9)
    catalog.write_text("product_id,title\np1,red rose\np2,blue vase\np3,red vase\n")
    train = ["train", log, "--catalog", catalog, "--out", tmp_path / "model", "--new-share"]
    run(*train, 0.3)
    assert ms.load(tmp_path / "model").model.bounds.cold_share == 0.3
    assert RULE + "7" in run(*train, 7, "--overwrite", ok=False)


@pytest.fixture(scope="module")
def server(served_shop):
    with serving(served_shop, "--also", served_shop / "bm25", model="set", workers=1) as running:
        yield running


def test_a_server_takes_a_share_with_each_request(server, served_shop):
    local = ms.load(served_shop / "set")
    client = ms.Client(server.address)
    queries = ["sofa", "running shoes", "red", "lamp"]
    changed = False
    for query in queries:
        wanted = local.match(query, 40, new_share=0.95)
        changed |= wanted != local.match(query, 40)
        for options in ({}, {"min_score": 0}, {"where": "price >= 0"}):
            found = server.match(query, k=40, new_share=0.95, **options).json["products"]
            assert [one["id"] for one in found] == list(wanted.ids)
        assert client.match(query, 40, new_share=0.95) == wanted
    assert changed
    assert client.match(queries, 40, new_share=0.95) == local.match(queries, 40, new_share=0.95)
    product = wanted.ids[-1]
    told = client.explain(query, product, k=40, new_share=0.95)
    assert told == local.explain(query, product, k=40, new_share=0.95)
    for name in ("bm25", "tree"):
        plain = server.match("sofa", matcher=name).json["products"]
        assert server.match("sofa", matcher=name, new_share=0.95).json["products"] == plain


@pytest.mark.parametrize("wrong", ["2", "-1", "nan", "many", ""])
def test_a_server_refuses_what_is_no_share(server, wrong):
    reply = server.match("sofa", new_share=wrong)
    assert (reply.status, reply.code) == (400, "bad_parameter")
    assert "new_share must be" in reply.json["error"]["message"]
    with pytest.raises(ValueError, match=r"new_share must be at most 1\.0; got 2"):
        ms.Client(server.address).match("sofa", new_share=2)


def test_a_server_is_started_with_a_share(served_shop):
    other = ms.load(served_shop / "set").with_new_share(0.95)
    with serving(served_shop, "--new-share", 0.95, model="set", workers=1) as running:
        for name, matcher in {"match_set": other, "towers": other.part("towers")}.items():
            found = running.match("lamp", k=40, matcher=name).json["products"]
            assert [one["id"] for one in found] == list(matcher.match("lamp", 40).ids)
    told = run("serve", served_shop / "bm25", "--port", 0, "--new-share", 0.5, ok=False)
    assert "new_share is for a match set; got bm25" in told
    assert RULE + "5" in run("serve", served_shop / "set", "--new-share", 5, ok=False)

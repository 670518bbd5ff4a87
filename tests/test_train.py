"""From a log to a matcher: what it learns, what it remembers, what it finds."""

import io
import logging
from dataclasses import asdict, replace
from functools import partial

import contract
import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from rich.console import Console

import matchset as ms
from matchset.baselines import Popularity
from matchset.config import LearnConfig, NGrams, VectorizerConfig, read_config
from matchset.data.positives import relevance
from matchset.errors import DataError
from matchset.learn.training_data import prepare_training_data
from matchset.strings import Strings

make_config = partial(ms.TrainConfig, parts=("tree",))
TREE = make_config()


def train(log, catalog=None, config=TREE, **options):
    """The tree alone; test_match_set.py tests all parts."""
    return ms.train(log, catalog, config, **options)


@pytest.fixture(scope="module")
def shop():
    return ms.lab.simulate_shop(products=600, queries=1500)


@pytest.fixture(scope="module")
def split(shop):
    return ms.split_by_time(shop.log, test_days=30)


@pytest.fixture(scope="module")
def matcher(shop, split):
    return train(split.train, shop.catalog)


def recall(matcher, test, k=100, *, only=None):
    wanted = relevance(test)
    matches = matcher.match(wanted.queries, k)
    shares = []
    for index, match in enumerate(matches):
        row = wanted.pairs.indices[wanted.pairs.indptr[index] : wanted.pairs.indptr[index + 1]]
        relevant = {wanted.products[int(product)] for product in row}
        relevant = relevant if only is None else relevant & only
        if relevant:
            shares.append(len(relevant & set(match.ids)) / len(relevant))
    return float(np.mean(shares))


@pytest.fixture(scope="module")
def wide_matcher(shop, split):
    """Its beam holds every leaf, so it returns k products whenever there are k."""
    learn = replace(ms.TrainConfig().learn, max_leaf_size=100)
    return train(split.train, shop.catalog, make_config(learn=learn))


@pytest.mark.parametrize("check", contract.CHECKS, ids=contract.name_of)
def test_the_contract_of_matchers(check, wide_matcher):
    queries = ["running shoes", "sofa", "coffee mug", "gift"]
    check(contract.Subject(wide_matcher, queries, list(wide_matcher.products.ids)))


def test_it_finds_far_more_than_the_most_popular_products(matcher, split):
    floor = Popularity.from_positives(ms.positives(split.train))
    assert recall(matcher, split.test, 10) > 3 * recall(floor, split.test, 10)


def test_titles_make_products_without_queries_findable(shop, split, matcher):
    without_titles = train(split.train, shop.catalog, make_config(titles="none"))
    cold = {
        product
        for product in split.test.products
        if not matcher.training.is_warm(Strings.of([product]))[0]
    }
    assert cold
    assert recall(without_titles, split.test, only=cold) == 0
    assert recall(matcher, split.test, only=cold) > 0.2
    assert len(matcher.products) == len(shop.catalog)
    assert set(without_titles.products.ids) == set(ms.positives(split.train).products)


def test_without_a_catalog_there_are_only_ids(split):
    matcher = train(split.train)
    assert matcher.products.titles is None
    assert matcher.match("sofa", k=3).titles is None


def test_files_train_like_values(tmp_path, shop, matcher):
    catalog, log = shop.save(tmp_path)
    by_files = train(str(log), str(catalog))
    by_values = train(shop.log, shop.catalog)
    assert by_files.match(["sofa", "mug"]) == by_values.match(["sofa", "mug"])


@pytest.mark.parametrize("threads", [1, 2, 7])
def test_threads_do_not_change_a_byte(shop, split, matcher, threads):
    config = make_config(learn=replace(ms.TrainConfig().learn, threads=threads))
    other = train(split.train, shop.catalog, config)
    for name in ("labels", "first_block", "blocks", "data"):
        assert np.array_equal(getattr(other.tree, name), getattr(matcher.tree, name))


def test_it_remembers_what_it_was_trained_on(matcher, split):
    trained = ms.positives(split.train)
    assert matcher.training.is_seen(trained.queries).all()
    assert matcher.training.is_seen(Strings.of(["Sofa", "no such query ever"])).tolist() == [
        "sofa" in set(trained.queries),
        False,
    ]
    assert matcher.training.is_warm(trained.products).all()
    assert not matcher.training.is_warm(Strings.of(["no such product"]))[0]


def test_products_missing_from_the_catalog_are_matched_and_counted(shop, split, caplog):
    half = shop.catalog.ids[: len(shop.catalog) // 2]
    catalog = replace(
        shop.catalog, ids=half, titles=shop.catalog.titles[: len(half)], attributes={}
    )
    with caplog.at_level(logging.WARNING):
        matcher = train(split.train, catalog)
    missing = int((half.index_of(ms.positives(split.train).products) < 0).sum())
    assert matcher.provenance["summary"]["missing_products"] == missing > 0
    assert f"{missing:,} of the" in caplog.text
    assert "not in the catalog" in caplog.text


def test_a_catalog_of_other_ids_is_an_error_that_shows_some_of_each():
    log = {"query": ["mug", "cup"], "product_id": ["45", "46"]}
    goods = {"product_id": ["000045", "000046"], "title": ["mug", "cup"]}
    rule = (
        r"catalog= must have products of the log, such as '45', '46'; got others, such as "
        r"'000045', '000046'; keep the zeros in front of ids on both sides"
    )
    with pytest.raises(DataError, match=rule):
        train(pl.DataFrame(log), pl.DataFrame(goods))
    goods["product_id"] = ["A", "B"]
    with pytest.raises(DataError, match=r"such as 'A', 'B'$"):
        train(pl.DataFrame(log), pl.DataFrame(goods))


def test_a_log_that_is_too_small_is_told(caplog):
    log = {"query": ["mug"], "product_id": ["1"]}
    train(pl.DataFrame(log), pl.DataFrame({"product_id": ["1"], "title": ["mug"]}))
    assert "1 positive pairs of 1 queries are too few to learn from" in caplog.text


def test_the_summary_counts_classifiers_that_did_not_converge(split, caplog):
    learn = replace(ms.TrainConfig().learn, max_iter=1, tol=1e-6)
    with caplog.at_level(logging.WARNING):
        matcher = train(split.train, config=make_config(learn=learn))
    assert matcher.summary.unconverged > 0
    assert f"{matcher.summary.unconverged:,} classifiers did not converge" in str(matcher.summary)
    assert caplog.text.count("did not converge") == 1
    assert "converge" not in str(train(split.train).summary)


def test_the_summary_counts_pairs_with_too_few_events(split):
    usual = ms.positives(split.train)
    every = ms.positives(split.train, min_count=1e-9)
    summary = train(split.train).summary
    assert (summary.pairs, summary.left_out) == (len(usual), len(every) - len(usual))


def test_ngrams_of_rare_queries_have_no_name(split):
    data = prepare_training_data(split.train, None, make_config(min_query_count=10**9))
    assert set(data.vectorizer.vocabulary.names) == {""}


def test_a_log_without_positives_is_an_error(split):
    config = make_config(min_count=10**9)
    with pytest.raises(DataError, match="a log must have a positive pair to learn from; got"):
        train(split.train, config=config)


def test_ratings_that_were_not_read_give_a_hint(split):
    frame = pa.table({"query": ["hat"] * 2, "product_id": ["a", "b"], "stars": [3, 1]})
    config = make_config(min_count=2.33)
    rule = r"min_count 2\.33; name a column of ratings .* with --count"
    with pytest.raises(DataError, match=rule):
        train(ms.read_log(frame), config=config)
    assert train(ms.read_log(frame, count="stars"), config=config).match("hat").ids == ("a",)
    with pytest.raises(DataError, match=r"min_count 1e\+09$"):  # it has events
        train(split.train, config=make_config(min_count=10**9))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"titles": "all"}, "titles must be one of instances, none; got 'all'"),
        ({"title_weight": 0}, "title_weight must be positive and finite; got 0"),
        ({"min_query_count": -1}, "min_query_count must be at least 0; got -1"),
        ({"min_query_count": "5"}, "min_query_count must be at least 0; got '5'"),
        ({"title_weight": "10"}, "title_weight must be a number, positive and finite; got '10'"),
        (
            {"learn": LearnConfig(negatives="tfn+given")},
            "negatives must not be 'given' to train on a log; got 'tfn.given'",
        ),
        (
            {"learn": LearnConfig(weights="given")},
            "weights must not be 'given' to train on a log; got 'given'",
        ),
    ],
)
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        ms.TrainConfig(**settings)


def test_progress_reports_every_stage_and_can_cancel(shop, split):
    steps = []
    train(split.train, shop.catalog, progress=steps.append)
    stages = list(dict.fromkeys(step.stage for step in steps))
    assert stages == ["read", "pairs", "vectorize", "embed", "tree", "levels", "solve", "pack"]
    last = [step for step in steps if step.stage == "solve"][-1]
    assert last.done == last.total

    def cancel(step):
        if step.stage == "solve":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(split.train, shop.catalog, progress=cancel)


def test_saved_and_opened_gives_the_same_answers(tmp_path, shop, split, matcher):
    out = tmp_path / "model"
    trained = train(split.train, shop.catalog, out=out)
    opened = ms.load(out)
    queries = list(relevance(split.test).queries[:200])
    assert opened.match(queries) == trained.match(queries) == matcher.match(queries)
    assert opened.match(queries, where="price < 50") == matcher.match(queries, where="price < 50")
    assert opened.config == matcher.config
    asked = split.test.queries
    assert opened.training.is_seen(asked).tolist() == matcher.training.is_seen(asked).tolist()
    assert opened.provenance["summary"]["pairs"] == matcher.provenance["summary"]["pairs"]
    assert opened.summary == trained.summary
    assert opened.config.learn.weights == "binary"
    ms.verify(out)
    with pytest.raises(FileExistsError, match="already exists; overwrite=True replaces it"):
        train(split.train, out=out)


def test_a_cancelled_training_leaves_nothing(tmp_path, split):
    def cancel(step):
        if step.stage == "solve":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(split.train, out=tmp_path / "model", progress=cancel)
    assert list(tmp_path.iterdir()) == []


def test_parts_that_do_not_belong_together_are_refused(tmp_path, split, matcher):
    other = train(split.train)
    with pytest.raises(ValueError, match="the tree must have"):
        replace(matcher, tree=other.tree)


def test_a_configuration_reads_back_from_plain_values():
    config = ms.TrainConfig(
        events={"purchase": 1.0},
        learn=LearnConfig(branching=16),  # not the defaults of TrainConfig: all is stored
        vectorizer=VectorizerConfig(ngrams=(NGrams("word", 1, 10),)),
    )
    assert read_config(asdict(config)) == config
    assert read_config({}) == ms.TrainConfig()
    changed = read_config({"learn": {"branching": 16}}).learn
    assert changed == replace(ms.TrainConfig().learn, branching=16)
    with pytest.raises(ValueError, match=r"learn must set one of branching, .*; got 'branchin'"):
        read_config({"learn": {"branchin": 3}})
    with pytest.raises(TypeError, match="learn must be a table of settings; got int"):
        read_config({"learn": 3})


def test_reasons_tell_the_way_to_a_product(matcher):
    match = matcher.match("running shoes", k=5)
    reasons = matcher.explain("running shoes", match.ids[0])
    assert np.isclose(reasons.score, match.scores[0], rtol=1e-5)
    assert all(step.is_kept for step in reasons.steps)
    assert [step.level for step in reasons.steps] == list(range(len(matcher.tree.sizes)))
    assert reasons.steps[-1].rank == 1
    assert any("shoe" in each.word for step in reasons.steps for each in step.words)
    assert "found at rank 1" in str(reasons)
    lost = matcher.explain("running shoes", matcher.match("coffee", k=1).ids[0], k=3)
    assert "lost at level" in str(lost)
    with pytest.raises(
        ValueError, match="product must be one of the matcher's products; got 'nothing'"
    ):
        matcher.explain("running shoes", "nothing")


def test_reasons_show_texts_as_texts(shop, split):
    titles = Strings.of([f"bolt [/] {title}\x1b[31m" for title in shop.catalog.titles])
    matcher = train(split.train, replace(shop.catalog, titles=titles))
    reasons = matcher.explain("bolt [/] x", matcher.products.ids[0])
    console = Console(record=True, width=200, file=io.StringIO())
    console.print(reasons)
    printed = console.export_text()
    assert "bolt [/]" in printed
    assert "\x1b[31m" not in printed + str(reasons)


def test_pruning_gives_the_answers_of_training_with_that_threshold(shop, split):
    exact = make_config(precision="float32")
    pruned = train(split.train, shop.catalog, exact).prune(0.3)
    learn = replace(exact.learn, threshold=0.3)
    trained = train(split.train, shop.catalog, replace(exact, learn=learn))
    queries = list(split.test.queries[:200])
    assert pruned.match(queries) == trained.match(queries)
    assert pruned.tree.n_weights == trained.tree.n_weights
    assert pruned.config == trained.config


def test_int8_weights_cost_almost_no_recall(shop, split, matcher):
    exact = train(split.train, shop.catalog, make_config(precision="float32"))
    for k in (10, 100):
        assert abs(recall(exact, split.test, k) - recall(matcher, split.test, k)) < 0.005

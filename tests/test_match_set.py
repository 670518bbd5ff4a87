"""One search over several candidate sources gives what scoring every product would give."""

import dataclasses
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from contract import CHECKS, Subject, name_of
from match_set_oracles import column, count_greater, decide_order, lift, oracle, score_linearly
from match_sets import make_match_set, make_model
from stored import dump_value, take_apart
from word_shop import COLORS, EXTRA, THINGS, make_config, make_shop

import matchset as ms
from matchset.baselines import XRLinearMatcher
from matchset.config import PARTS
from matchset.errors import DataError, ModelFileError
from matchset.matrices import from_scipy
from matchset.model.added import index_added
from matchset.model.impact_lists import LARGEST, ImpactLists, invert, round_impacts
from matchset.model.lexical import index_titles
from matchset.model.match_set_model import SOURCES, Bounds, MatchSetModel
from matchset.model.reranker import (
    FEATURES,
    SITUATIONS,
    Calibration,
    Reranker,
    default_reranker,
)
from matchset.storage.file import read_header
from matchset.strings import Strings

QUERIES = [
    "red rose",
    "white vase garden",
    "mug",
    "blue",
    "large chair 3",
    "kitchen table",
    "rde rose",
    "black rose",  # no query has the color
    "black",
    "black green soap zyxo",
    " ".join([*COLORS, *THINGS, *EXTRA]),  # more words than are compared with a title at once
]
WIDE = Bounds(*[10**9] * 10)


@pytest.fixture(scope="module")
def trained():
    return make_model()


@pytest.fixture(scope="module")
def matcher():
    return make_match_set()


def describe(trained, queries, bounds):
    model = dataclasses.replace(trained.model, bounds=bounds)
    return model.describe(trained.data.vectorizer.native, Strings.of(queries))


def test_words_of_titles_are_counted_in_blocks_of_any_size(trained, monkeypatch):
    X, vocabulary = trained.data.X_titles, trained.data.vectorizer.vocabulary
    whole = dump_value(index_titles(X, vocabulary))
    monkeypatch.setattr("matchset.model.lexical._BLOCK", 7)
    assert dump_value(index_titles(X, vocabulary)) == whole


@pytest.mark.parametrize("query", QUERIES)
def test_wide_open_sources_know_of_each_product_what_the_parts_know(trained, query):
    wanted, situation = oracle(trained, query)
    found = describe(trained, [query], WIDE)
    is_proposed = np.zeros(len(wanted), dtype=bool)
    is_proposed[found.labels] = True
    assert len(set(found.labels)) == len(found.labels)
    assert found.situations.tolist() == [situation]
    # No source knows anything of the others.
    assert np.all(wanted[~is_proposed][:, [column("bm25"), column("vote_share")]] == 0)
    cosines = found.features[:, column("cosine")]
    wanted[found.labels, column("cosine_rank")] = np.log1p(count_greater(cosines))
    np.testing.assert_allclose(found.features, wanted[found.labels], rtol=2e-3, atol=5e-3)


def make_learned(trained):
    """Each row has weights of its own, each situation a curve; some scores are beyond the ends."""
    rng, n = np.random.default_rng(0), len(SITUATIONS)
    weights = rng.normal(size=(n, 2, len(FEATURES))).astype(np.float32)
    scores = score_linearly(describe(trained, QUERIES, WIDE), weights)
    knots = np.quantile(scores, [0.1, 0.3, 0.5, 0.7, 0.9]).astype(np.float32)
    log_odds = np.array([-6, -5, -2, -1.5, 2], np.float32)
    lines = (Calibration(knots[:m], log_odds[:m] - i) for i, m in enumerate((5, 1, 3)))
    return Reranker(weights, tuple(lines))


def calibrate(scores, lines):
    """Chances by straight lines in log-odds; beyond the ends the nearest line goes on."""
    knots, log_odds = lines.knots, lines.log_odds
    slopes = np.diff(log_odds) / np.diff(knots) if len(knots) > 1 else np.ones(1)
    line = np.clip(np.searchsorted(knots, scores) - 1, 0, len(slopes) - 1)
    return 1 / (1 + np.exp(-(log_odds[line] + slopes[line] * (scores - knots[line]))))


@pytest.mark.parametrize("is_learned", [False, True])
@pytest.mark.parametrize("query", QUERIES)
def test_a_wide_open_match_set_equals_scoring_all_products(trained, query, is_learned):
    reranker = make_learned(trained) if is_learned else trained.model.reranker
    model = dataclasses.replace(trained.model, bounds=WIDE, reranker=reranker)
    found = describe(trained, [query], WIDE)
    linear = score_linearly(found, reranker.weights)
    labels, scores = model.search_text(trained.data.vectorizer.native, query, 10**6)
    assert set(labels) == set(found.labels)
    at = np.argsort(found.labels)[np.searchsorted(np.sort(found.labels), labels)]
    assert np.all(np.diff(decide_order(found, linear)[at]) <= 1e-4)
    chances = calibrate(lift(found, linear)[at], reranker.calibrations[found.situations[0]])
    # What words put first is never said to be less probable than what comes after it.
    np.testing.assert_allclose(scores, np.minimum.accumulate(chances), rtol=1e-3, atol=1e-12)


def test_bounded_sources_propose_no_more_than_they_may(trained):
    narrow = Bounds(1, 5, 1, 1, 9, 50, 7, 50, 3, 6)
    found = describe(trained, QUERIES, narrow)
    for begin, end in zip(found.offsets, found.offsets[1:], strict=False):
        sources = found.sources[begin:end]
        assert np.count_nonzero(sources & SOURCES["tree"]) <= 2 * 5  # as many again take places
        assert np.count_nonzero(sources & SOURCES["lexical"]) <= 7
        assert np.all(sources > 0)
    everything = describe(trained, QUERIES, WIDE)
    assert len(found.labels) < len(everything.labels)


def test_a_product_that_the_beam_missed_has_no_tree_score(trained):
    found = describe(trained, QUERIES, Bounds(tree_beam=1, tree_products=3))
    is_missed = (found.sources & SOURCES["tree"]) == 0
    assert is_missed.any()
    assert np.all(found.features[is_missed, column("tree_missed")] == 1)
    assert np.all(found.features[is_missed][:, [column("tree_score"), column("tree_log")]] == 0)


def test_a_part_that_is_left_out_leaves_its_features_at_zero():
    trained = make_model(("tree", "lexical"))
    found = describe(trained, QUERIES, Bounds())
    names = ("cosine", "cosine_rank", "vote_share", "vote_log", "same_query")
    absent = [column(name) for name in names]
    assert np.all(found.features[:, absent] == 0)
    assert set(found.sources.tolist()) <= {1, 4, 5}


def test_of_many_queries_the_most_frequent_are_remembered():
    log, catalog = make_shop()
    every, few = (
        ms.train(log, catalog, make_config(max_past_queries=most)).model.neighbors.hashes
        for most in (2_000_000, 40)
    )
    count_of = dict(zip(log.queries.hashes(), log.query_counts(), strict=True))
    assert len(few) == 40 < len(every)
    forgotten = [count_of[each] for each in every if each not in set(few)]
    assert min(count_of[each] for each in few) >= max(forgotten)


def test_inverted_lists_propose_their_nearest_products(trained):
    everything = describe(trained, QUERIES, WIDE)
    found = describe(trained, QUERIES, dataclasses.replace(WIDE, list_products=3))
    for query in range(len(QUERIES)):
        rows = slice(*everything.offsets[query : query + 2])
        cosines = everything.features[rows, column("cosine")]
        is_placed = (everything.sources[rows] & SOURCES["towers"]) > 0
        nearest = sorted(zip(-cosines[is_placed], everything.labels[rows][is_placed], strict=True))
        mine = slice(*found.offsets[query : query + 2])
        is_proposed = (found.sources[mine] & SOURCES["towers"]) > 0
        assert set(found.labels[mine][is_proposed]) == {label for _, label in nearest[:3]}


@pytest.mark.parametrize("threads", [1, 2, 7])
def test_inverted_documents_equal_a_sort_by_numpy(threads):
    X = sp.random_array((400, 5000), density=0.02, rng=1, format="csr", dtype=np.float32)
    X.sort_indices()
    lists = invert(from_scipy(X), 0.9, n_terms=4500, threads=threads)
    wanted = X[:, :4500].tocoo()
    impacts = round_impacts(wanted.data, 0.9)
    order = np.lexsort((wanted.row, -impacts.astype(int), wanted.col))
    assert np.array_equal(lists.offsets, X[:, :4500].tocsc().indptr)
    assert np.array_equal(lists.ids, wanted.row[order])
    assert np.array_equal(lists.impacts, impacts[order])


def make_long_lists(known):
    """The same words in 3,000 titles: some words are rare, some in every title."""
    rng, shape = np.random.default_rng(0), (3000, len(known.titles_of))
    X = sp.csr_matrix(rng.random(shape) < np.geomspace(0.01, 1, shape[1]), dtype=np.float32)
    X.data[:] = rng.integers(1, LARGEST + 1, X.nnz)
    titles = from_scipy(X)
    return dataclasses.replace(
        known,
        titles_of=invert(titles, LARGEST),
        words_of=ImpactLists(titles.indptr, titles.indices, titles.data.astype(np.uint8)),
        row_of=np.arange(shape[0], dtype=np.int32),
    )


def sum_impacts(lists, words, budget, is_gone):
    """The shortest lists first, until so many entries of products that are there are read."""
    sums, ends = np.zeros(len(is_gone)), lists.offsets
    for word in sorted(words, key=lambda word: ends[word + 1] - ends[word]):
        entries = np.arange(ends[word], ends[word + 1])
        inside = entries[~is_gone[lists.ids[entries]]][:budget]
        sums[lists.ids[inside]] += lists.impacts[inside]
        budget -= len(inside)
    return sums


def add_long_lists(index, vectorizer, n_added, n_gone):
    """Products with random titles, some of words that each of them has; others of before go."""
    rng, words = np.random.default_rng(1), np.array([*COLORS, *THINGS, *EXTRA])
    chance = rng.permutation(np.geomspace(0.01, 1, len(words)))
    chosen = rng.random((n_added, len(words))) < chance
    titles = [" ".join(rng.permutation(words[mine])) for mine in chosen]
    is_gone = np.zeros(len(index.row_of), dtype=np.bool_)
    is_gone[rng.permutation(len(is_gone))[:n_gone]] = True
    texts = (Strings.of(titles),)
    return index_added(
        texts, vectorizer, lexical=index, towers=None, is_warm=~is_gone, is_gone=is_gone
    )


@pytest.mark.parametrize(("n_added", "n_gone"), [(0, 0), (300, 0), (6000, 0), (6000, 500)])
@pytest.mark.parametrize("n_postings", [300, 2000, 10**6])
def test_words_propose_the_best_of_the_titles_that_they_may_read(
    trained, n_postings, n_added, n_gone
):
    index, vectorizer = make_long_lists(trained.model.lexical), trained.data.vectorizer
    n_titles = len(index.row_of)
    added = add_long_lists(index, vectorizer, n_added, n_gone) if n_added else None
    is_gone = np.zeros(n_titles, dtype=np.bool_) if added is None else added.shown < 0
    shown = np.flatnonzero(~is_gone)
    model = MatchSetModel(
        np.zeros(n_titles, np.float32),
        np.zeros(n_titles, np.float32),
        default_reranker(""),
        lexical=index,
        bounds=Bounds(lexical_postings=n_postings, lexical_products=20),
        added=added,
    )
    for query in QUERIES:
        ids = vectorizer.encode(query)[0].astype(np.int64)
        words = ids - index.first_word
        words = words[(words >= 0) & (words < len(index.titles_of))]
        sums = sum_impacts(index.titles_of, words, n_postings, is_gone)
        if added is not None:
            words = np.flatnonzero(np.isin(added.words.features, ids))
            sums += sum_impacts(added.words.titles_of, words, n_postings, is_gone)
        best = [label for label in np.argsort(-sums, kind="stable")[:20] if sums[label] > 0]
        found = model.describe(vectorizer.native, Strings.of([query]))
        assert shown[found.labels].tolist() == best


def test_words_of_titles_lie_in_the_order_of_the_inverted_lists(trained):
    labels, row_of = trained.model.towers.lists.labels, trained.model.lexical.row_of
    assert np.array_equal(row_of[labels], np.arange(len(labels)))
    assert sorted(row_of) == list(range(len(row_of)))


@pytest.mark.parametrize("bounds", [Bounds(), Bounds(1, 5, 1, 1, 5, 20, 5, 20, 2, 5)])
def test_a_short_answer_is_the_beginning_of_a_longer_one(matcher, bounds):
    narrow = matcher.with_bounds(bounds)
    some = [product for i, product in enumerate(matcher.products.ids) if i % 3]
    for where in (None, some, some[:9]):
        for query in QUERIES:
            long = narrow.match(query, 160, where=where)
            for k in (1, 3, 10, 40, 100):
                assert narrow.match(query, k, where=where) == long[:k]


def test_a_search_widens_until_it_has_found_what_is_allowed(matcher):
    narrow = matcher.with_bounds(Bounds(*[1] * 10))
    for product in matcher.products.ids[::13]:
        assert list(narrow.match("red rose", 1, where=[product]).ids) == [product]


def test_a_query_without_a_known_n_gram_gets_nothing(matcher):
    for query in ("zzzzqqq", "", "  ", "\U0001f339", "ሰላም", "x" * 10):
        assert len(matcher.match(query)) == 0
        assert len(matcher.match(query, where=list(matcher.products.ids[:5]))) == 0


@pytest.mark.parametrize(
    ("query", "meant"),
    [("whitte rosse", "white rose"), ("gren tabble", "green table"), ("blacck mugg", "black mug")],
)
def test_a_query_whose_words_are_all_misspelt_is_found_by_its_trigrams(matcher, query, meant):
    assert len(matcher.part("lexical").match(query)) == 0  # no word is known
    assert matcher.match(query, 1).titles[0].startswith(meant)


def test_queries_of_every_kind_get_an_answer(matcher):
    for query in (
        "red rose \U0001f339",
        "rose " * 200_000,
        "שלום red rose",
        "RED\nROSE",
        "rde rose",
    ):
        assert len(matcher.match(query, 5)) == 5


@pytest.mark.parametrize("check", CHECKS, ids=name_of)
def test_a_match_set_keeps_the_contract(check, matcher):
    check(Subject(matcher, QUERIES, list(matcher.products.ids)))


def test_scores_are_chances(matcher):
    for match in matcher.match(QUERIES):
        assert np.all((match.scores > 0) & (match.scores <= 1))


def test_a_saved_match_set_gives_the_same_answers(matcher, tmp_path):
    matcher.save(tmp_path / "model")
    ms.verify(tmp_path / "model")
    loaded = ms.load(tmp_path / "model")
    assert isinstance(loaded, ms.MatchSet)
    assert loaded.model.parts == PARTS
    assert loaded.config == matcher.config
    assert loaded.match(QUERIES) == matcher.match(QUERIES)
    assert pickle.loads(pickle.dumps(loaded)).match(QUERIES) == matcher.match(QUERIES)
    assert pickle.loads(pickle.dumps(matcher)).match(QUERIES) == matcher.match(QUERIES)


def test_any_damaged_array_is_refused_or_answers_safely(matcher, tmp_path):
    matcher.save(tmp_path / "model")
    file = tmp_path / "model"
    whole, header = file.read_bytes(), read_header(tmp_path / "model")
    rng = np.random.default_rng(0)
    for entry in header.entries.values():
        if entry.n_bytes == 0:
            continue
        damaged = bytearray(whole)
        for at in rng.integers(entry.n_bytes, size=8):
            damaged[header.begin + entry.offset + at] ^= 0xFF
        file.unlink()
        file.write_bytes(bytes(damaged))
        try:
            for query in QUERIES[:3]:
                ms.load(tmp_path / "model").match(query)
        except (ModelFileError, ValueError, IndexError, OverflowError):
            pass
    file.unlink()
    file.write_bytes(whole)
    assert ms.load(tmp_path / "model").match(QUERIES) == matcher.match(QUERIES)


def test_a_file_holds_no_n_gram_and_no_rare_query(tmp_path):
    # A rare query with a name that no title has.
    log, catalog = make_shop(more=[("wilhelmina xylander rose", 1, 2.0)])
    matcher = ms.train(log, catalog, make_config())
    assert "p001" in matcher.only("neighbors").match("wilhelmina xylander rose", 3).ids  # it votes
    matcher.save(tmp_path / "model")
    data = (tmp_path / "model").read_bytes()
    assert b"wilhel" not in data
    assert b"xylander" not in data
    loaded = ms.load(tmp_path / "model")
    assert not any(loaded.vectorizer.vocabulary.names)


@pytest.mark.parametrize("threads", [2, 7])
def test_threads_do_not_change_the_model(threads, tmp_path):
    log, catalog = make_shop()
    base = make_config()
    for name, n in (("one", 1), ("many", threads)):
        learn = dataclasses.replace(base.learn, threads=n)
        ms.train(log, catalog, dataclasses.replace(base, learn=learn), out=tmp_path / name)
    (first, one), (second, many) = (take_apart(tmp_path / name) for name in ("one", "many"))
    assert one.keys() == many.keys()
    for name, array in one.items():
        np.testing.assert_array_equal(array, many[name], err_msg=name)
    first, second = (each["fields"]["model"] for each in (first, second))
    assert first == second


def test_the_default_has_every_part_and_a_tree_alone_is_xr_linear():
    log, catalog = make_shop()
    assert isinstance(ms.train(log, catalog), ms.MatchSet)
    assert ms.train(log, catalog).model.parts == PARTS
    alone = ms.train(log, catalog, ms.TrainConfig(parts=("tree",)))
    assert isinstance(alone, XRLinearMatcher)


@pytest.mark.parametrize("name", PARTS)
def test_each_part_is_a_matcher_of_its_own(name):
    log, catalog = make_shop()
    part = ms.train(log, catalog, make_config()).part(name)
    assert part.kind == ("xr_linear" if name == "tree" else "match_set")
    assert len(part.match("red rose", 5)) > 0
    with pytest.raises(ValueError, match="part must be one of tree, towers, lexical, neighbors"):
        ms.train(log, catalog, make_config()).part("leaves")


def test_a_beam_is_that_of_the_tree_inside():
    log, catalog = make_shop()
    matcher = ms.train(log, catalog, make_config())
    bounds = dataclasses.replace(matcher.model.bounds, tree_beam=1)
    assert matcher.match("red rose", beam=1) == matcher.with_bounds(bounds).match("red rose")
    with pytest.raises(ValueError, match="beam must be at least 1; got 0"):
        matcher.match("red rose", beam=0)
    with pytest.raises(ValueError, match="not an option of a match set without a tree"):
        matcher.part("towers").match("red rose", beam=3)


def test_without_a_catalog_there_are_tree_and_neighbors():
    log, _ = make_shop()
    matcher = ms.train(log, None, make_config())
    assert matcher.model.parts == ("tree", "neighbors")
    assert len(matcher.match("red rose", 5)) == 5


def test_parts_that_read_titles_need_a_catalog():
    log, _ = make_shop()
    with pytest.raises(DataError, match="must have titles from a catalog; got none"):
        ms.train(log, None, ms.TrainConfig(parts=("towers",)))


@pytest.mark.parametrize("n_queries", [5, 20, 50])
def test_a_tiny_log_has_weights_near_the_prior_and_answers_sensibly(n_queries, caplog):
    log, catalog = make_shop(n_queries)
    matcher = ms.train(log, catalog, make_config())
    assert not matcher.model.reranker.is_calibrated
    told = [each.message for each in caplog.records if "no probabilities" in each.message]
    assert len(told) == 1
    for query in ("red rose", "black mug", "white vase"):
        titles = matcher.match(query, 4).titles
        assert all(query in title for title in titles)


@pytest.mark.parametrize("has_catalog", [True, False])
def test_a_log_with_one_product_answers_with_it(has_catalog):
    log, catalog = make_shop(1, more=[("red", 0, 5)])  # a rarer word would be private
    log = log.select(log.product == 0)
    matcher = ms.train(log, catalog if has_catalog else None, make_config())
    assert not matcher.model.reranker.is_learned
    assert matcher.match("red", 3).ids[0] == log.products[0]


def test_without_tuning_the_weights_are_the_defaults():
    matcher = make_match_set(tune=False)
    assert matcher.model.reranker.facts == {"is_learned": False, "reason": "tune is off"}


@pytest.mark.parametrize("wrong", [(), ("forest",), "tree", None])
def test_parts_must_be_known(wrong):
    with pytest.raises(ValueError, match="parts must be"):
        ms.TrainConfig(parts=wrong)


def test_a_match_set_without_a_part_has_the_re_ranker_that_was_fitted_without_it(matcher):
    learned = {"is_learned": True}
    left = tuple(part for part in PARTS if part != "towers")
    fitted = dataclasses.replace(default_reranker(""), facts=learned, parts=left)
    whole = dataclasses.replace(fitted, parts=PARTS, subsets=(fitted,))
    tuned = dataclasses.replace(matcher, model=dataclasses.replace(matcher.model, reranker=whole))
    smaller = tuned.prune(0.2, drop=["towers"])
    assert smaller.model.parts == smaller.config.parts == left
    assert smaller.model.reranker is fitted
    assert smaller.model.tree.n_weights < matcher.model.tree.n_weights
    assert not tuned.prune(drop=["towers", "tree"]).model.reranker.is_learned
    assert tuned.prune(0.2).model.reranker is whole
    with pytest.raises(ValueError, match=r"threshold is for a match set with a tree; got 0\.2"):
        tuned.prune(0.2, drop=["tree"])


def test_a_match_set_with_another_beam_searches_as_if_asked_to(matcher):
    assert matcher.with_beam(1).match(QUERIES) == matcher.match(QUERIES, beam=1)

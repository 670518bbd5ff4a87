"""One search over several candidate sources gives what scoring every product would give."""

import dataclasses
import math
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from contract import CHECKS, Subject, name_of
from match_sets import COLORS, EXTRA, THINGS, make_config, make_match_set, make_model, make_shop

import matchset as ms
from matchset.config import PARTS
from matchset.errors import ModelFileError
from matchset.matrices import from_scipy
from matchset.model.added import index_added
from matchset.model.impact_lists import LARGEST, ImpactLists, invert, round_impacts
from matchset.model.lexical import index_titles, store_lexical
from matchset.model.match_set_model import SOURCES, Bounds, MatchSetModel
from matchset.model.packed import PackedTree
from matchset.model.reranker import FEATURES, Reranker, default_reranker
from matchset.model.search import search_rule
from matchset.strings import Strings
from matchset.text import normalize_strings

QUERIES = [
    "red rose",
    "white vase garden",
    "mug",
    "blue",
    "large chair 3",
    "kitchen table",
    "rde rose",
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


def test_texts_are_described_in_blocks_of_any_size(trained, monkeypatch):
    whole = describe(trained, QUERIES, WIDE)
    monkeypatch.setattr("matchset.model.match_set_model._BLOCK", 2)
    blocks = describe(trained, QUERIES, WIDE)
    for each in dataclasses.fields(whole):
        one, two = (getattr(found, each.name) for found in (whole, blocks))
        np.testing.assert_array_equal(one, two)


def test_words_of_titles_are_counted_in_blocks_of_any_size(trained, monkeypatch):
    X, vocabulary = trained.data.X_titles, trained.data.vectorizer.vocabulary
    whole = store_lexical(index_titles(X, vocabulary))
    monkeypatch.setattr("matchset.model.lexical._BLOCK", 7)
    blocks = store_lexical(index_titles(X, vocabulary))
    assert blocks.header == whole.header
    for name, array in whole.arrays.items():
        np.testing.assert_array_equal(blocks.arrays[name], array)


def column(name):
    return FEATURES.index(name)


def oracle(trained, query):
    """Features of every product, from the parts alone: no bound, no candidate."""
    model, data = trained.model, trained.data
    ids, weights = data.vectorizer.encode(query)
    n = len(data.products)
    found = np.zeros((n, len(FEATURES)))
    found[:, column("constant")] = 1
    found[:, column("popularity")] = np.log1p(data.n_queries_of)
    found[:, column("recent")] = np.log1p(data.recent)
    labels, logs = PackedTree.search_row(
        model.tree, ids.astype(np.int32), weights, search_rule(n, n, "log-l3-hinge")
    )
    found[:, column("tree_missed")] = 1
    for label, log in zip(labels, logs, strict=True):
        if log >= -14:
            found[label, column("tree_score")] = math.exp(log)
            found[label, column("tree_log")] = log + 14
            found[label, column("tree_missed")] = 0
    towers = model.towers
    rows = towers.row_of[ids]
    vector = towers.table.to_floats()[rows[rows >= 0]].sum(axis=0)
    vector /= np.linalg.norm(vector) or 1
    found[towers.lists.labels, column("cosine")] = towers.lists.vectors.to_floats() @ vector
    bm25 = np.zeros(n)
    words = model.lexical.words_of
    for label in range(n):
        row = model.lexical.row_of[label]
        inside = slice(*words.offsets[row : row + 2])
        is_wanted = np.isin(words.ids[inside] + model.lexical.first_word, ids)
        bm25[label] = words.impacts[inside][is_wanted].sum() * model.lexical.scale
    found[:, column("bm25")] = bm25
    found[:, column("bm25_any")] = bm25 > 0
    found[:, column("bm25_share")] = bm25 / (bm25.max() or 1)
    votes, same = count_votes(model.neighbors, ids, weights, query, n)
    share = votes / (votes.sum() or 1)
    found[:, column("vote_share")] = share
    found[:, column("vote_log")] = np.where(
        votes > 0, np.maximum(np.log(np.maximum(share, 1e-4)) + 9.21034, 0), 0
    )
    found[:, column("same_query")] = same
    return found


def count_votes(past, ids, weights, query, n):
    similarity = np.zeros(len(past))
    lists = past.queries_of
    for feature, weight in zip(ids, weights, strict=True):
        if feature < len(lists):
            inside = slice(*lists.offsets[feature : feature + 2])
            similarity[lists.ids[inside]] += weight * lists.impacts[inside] / LARGEST
    votes, same = np.zeros(n), np.zeros(n)
    for near in np.flatnonzero(similarity):
        inside = slice(*past.offsets[near : near + 2])
        votes[past.products[inside]] += similarity[near] ** 3
    own = np.flatnonzero(past.hashes == normalize_strings(Strings.of([query])).hashes()[0])
    for at in own:
        inside = slice(*past.offsets[past.by_hash[at] :][:2])
        same[past.products[inside]] = past.counts[inside]
    return votes, same


@pytest.mark.parametrize("query", QUERIES)
def test_wide_open_sources_know_of_each_product_what_the_parts_know(trained, query):
    wanted = oracle(trained, query)
    found = describe(trained, [query], WIDE)
    is_proposed = np.zeros(len(wanted), dtype=bool)
    is_proposed[found.labels] = True
    assert len(set(found.labels)) == len(found.labels)
    # No source knows anything of the others.
    assert np.all(wanted[~is_proposed][:, [column("bm25"), column("vote_share")]] == 0)
    cosines = found.features[:, column("cosine")]
    wanted[found.labels, column("cosine_rank")] = np.log1p(count_greater(cosines))
    np.testing.assert_allclose(found.features, wanted[found.labels], rtol=2e-3, atol=5e-3)


def count_greater(cosines):
    """How many are in a higher step of 1/128 than each."""
    step = ((1 - cosines) * np.float32(128)).clip(0).astype(int)
    return (step < step[:, None]).sum(axis=1)


def score_linearly(features, weights):
    is_warm = (features[:, column("popularity")] > 0).astype(int)
    return (features.astype(float) * weights[is_warm]).sum(axis=1)


def make_learned(trained):
    """Cold and warm products have weights of their own, and some scores lie beyond both ends."""
    weights = np.random.default_rng(0).normal(size=(2, len(FEATURES))).astype(np.float32)
    scores = score_linearly(describe(trained, QUERIES, WIDE).features, weights)
    knots = np.quantile(scores, [0.1, 0.3, 0.5, 0.7, 0.9]).astype(np.float32)
    return Reranker(weights, knots, np.array([-6, -5, -2, -1.5, 2], np.float32))


def calibrate(scores, knots, log_odds):
    """Chances by straight lines in log-odds; beyond the ends the nearest line goes on."""
    slopes = np.diff(log_odds) / np.diff(knots) if len(knots) > 1 else np.ones(1)
    line = np.clip(np.searchsorted(knots, scores) - 1, 0, len(slopes) - 1)
    return 1 / (1 + np.exp(-(log_odds[line] + slopes[line] * (scores - knots[line]))))


@pytest.mark.parametrize("is_learned", [False, True])
@pytest.mark.parametrize("query", QUERIES)
def test_a_wide_open_match_set_equals_scoring_all_products(trained, query, is_learned):
    reranker = make_learned(trained) if is_learned else trained.model.reranker
    model = dataclasses.replace(trained.model, bounds=WIDE, reranker=reranker)
    candidates = describe(trained, [query], WIDE)
    linear = score_linearly(candidates.features, reranker.weights)
    labels, scores = model.search_text(trained.data.vectorizer.native, query, 10**6)
    assert set(labels) == set(candidates.labels)
    score_of = dict(zip(candidates.labels.tolist(), linear.tolist(), strict=True))
    in_order = np.array([score_of[label] for label in labels.tolist()])
    assert np.all(np.diff(in_order) <= 1e-4)
    chances = calibrate(in_order, reranker.knots, reranker.log_odds)
    np.testing.assert_allclose(scores, chances, rtol=1e-3)


def test_bounded_sources_propose_no_more_than_they_may(trained):
    narrow = Bounds(1, 5, 1, 1, 9, 50, 7, 50, 3, 6)
    found = describe(trained, QUERIES, narrow)
    for begin, end in zip(found.offsets, found.offsets[1:], strict=False):
        sources = found.sources[begin:end]
        assert np.count_nonzero(sources & SOURCES["tree"]) <= 5
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
    return index_added(texts, vectorizer, lexical=index, towers=None, is_gone=is_gone)


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
    [("whitte rosse", "white rose"), ("gren tabble", "green table"), ("blakc mugg", "black mug")],
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
    files = sorted((tmp_path / "model").glob("*"))
    rng = np.random.default_rng(0)
    for file in files:
        whole = file.read_bytes()
        if not whole or file.suffix == ".json":
            continue
        damaged = bytearray(whole)
        for at in rng.integers(len(whole), size=8):
            damaged[at] ^= 0xFF
        file.write_bytes(bytes(damaged))
        try:
            for query in QUERIES[:3]:
                ms.load(tmp_path / "model").match(query)
        except (ModelFileError, ValueError, IndexError, OverflowError):
            pass
        file.write_bytes(whole)
    assert ms.load(tmp_path / "model").match(QUERIES) == matcher.match(QUERIES)


def test_a_folder_holds_no_n_gram_and_no_rare_query(tmp_path):
    # A rare query with a name that no title has.
    log, catalog = make_shop(more=[("wilhelmina xylander rose", 1, 2.0)])
    matcher = ms.train(log, catalog, make_config())
    assert "p001" in matcher.match("wilhelmina xylander rose", 3).ids  # it votes
    matcher.save(tmp_path / "model")
    for file in (tmp_path / "model").rglob("*"):
        if file.is_file():
            assert b"wilhel" not in file.read_bytes()
            assert b"xylander" not in file.read_bytes()
    loaded = ms.load(tmp_path / "model")
    assert not any(loaded.vectorizer.vocabulary.names)


@pytest.mark.parametrize("threads", [2, 7])
def test_threads_do_not_change_the_model(threads, tmp_path):
    log, catalog = make_shop()
    base = make_config()
    for name, n in (("one", 1), ("many", threads)):
        learn = dataclasses.replace(base.learn, threads=n)
        ms.train(log, catalog, dataclasses.replace(base, learn=learn), out=tmp_path / name)
    for file in sorted((tmp_path / "one").iterdir()):
        if file.suffix != ".json":
            assert file.read_bytes() == (tmp_path / "many" / file.name).read_bytes(), file.name
    one, many = (ms.load(tmp_path / name) for name in ("one", "many"))
    assert np.array_equal(one.model.reranker.weights, many.model.reranker.weights)
    assert np.array_equal(one.model.reranker.log_odds, many.model.reranker.log_odds)


def test_the_default_has_every_part_and_a_tree_alone_is_xr_linear():
    log, catalog = make_shop()
    assert isinstance(ms.train(log, catalog), ms.MatchSet)
    assert ms.train(log, catalog).model.parts == PARTS
    alone = ms.train(log, catalog, ms.TrainConfig(parts=("tree",)))
    assert isinstance(alone, ms.XRLinearMatcher)


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
    with pytest.raises(ms.DataError, match="must have titles from a catalog; got none"):
        ms.train(log, None, ms.TrainConfig(parts=("towers",)))


def test_a_tiny_log_trains_with_default_weights_and_answers_sensibly():
    log, catalog = make_shop(50)
    matcher = ms.train(log, catalog, make_config())
    facts = matcher.model.reranker.facts
    assert not matcher.model.reranker.is_learned
    assert "weights need 200" in facts["reason"]
    titles = matcher.match("red rose", 4).titles
    assert all("red rose" in title for title in titles)


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
    tuned = dataclasses.replace(matcher, model=matcher.model.with_reranker(whole))
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

"""An explanation adds up to the score, and says where a label was lost."""

import json
from io import StringIO
from itertools import pairwise

import numpy as np
import pytest
from match_sets import make_config, make_match_set, make_shop
from rich.console import Console
from search_oracles import exhaustive, margins, random_model, random_rows, row

import matchset as ms
from matchset.matchers.explanation import Explanation
from matchset.model.match_set_model import COUNTS, Bounds
from matchset.model.packed import pack
from matchset.model.reranker import FEATURES
from matchset.model.search import search_rule
from matchset.model.tree_path import follow_label, parent_of
from matchset.strings import Strings

MODEL, X = random_model(1, splits=(6, 300, 4)), random_rows(1)
PACKED = pack(MODEL, precision="float32")


def test_steps_add_up_to_the_score_of_an_exhaustive_search():
    dense = X.to_scipy().toarray()
    for i in range(1, 6):
        labels, scores = exhaustive(MODEL, dense[i], k=10**6)
        for at in (0, len(labels) // 2, len(labels) - 1):
            path = follow_label(PACKED, *row(X, i), int(labels[at]))
            score = np.prod([step.score for step in path])
            np.testing.assert_allclose(score, scores[at], rtol=1e-4, atol=1e-30)
            for step in path:
                expected = margins(MODEL, step.level, dense[i])[step.node]
                np.testing.assert_allclose(
                    step.bias + step.contributions.sum(), expected, rtol=1e-5
                )
                assert (np.diff(abs(step.contributions)) <= 0).all()


def test_a_label_is_lost_where_the_search_loses_it():
    for i in range(1, len(X)):
        found, _ = PACKED.search_row(*row(X, i), search_rule(5, 2))
        for label in MODEL.tree.labels[::97]:
            path = follow_label(PACKED, *row(X, i), int(label), k=5, beam=2)
            is_kept = [step.is_kept for step in path]
            assert all(is_kept) == (label in found)
            assert is_kept == sorted(is_kept, reverse=True)
            for before, step in pairwise(path):
                assert (step.rank is None) == (not before.is_kept)


def test_parents_and_weights_are_those_of_the_model():
    for level, layer in enumerate(MODEL.layers):
        parents = MODEL.tree.parents(level)
        for node in range(0, len(parents), max(1, len(parents) // 20)):
            assert parent_of(PACKED, level, node) == parents[node]
            features, weights, bias = PACKED.native.node_weights(level, node)
            assert bias == layer.bias[node]
            top = PACKED.native.strongest(level, node, 3)
            by_feature = dict(zip(features, weights, strict=True))
            assert [by_feature[f] for f in top] == sorted(weights, reverse=True)[:3]
            assert len(top) == min(3, len(features))


@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_weights_of_one_node_are_those_of_its_parent_unpacked(precision):
    packed = pack(MODEL, precision=precision)
    wanted = np.arange(1, MODEL.n_features, 2, dtype=np.int32)[::-1].copy()
    for level, n_nodes in enumerate(packed.sizes):
        first_child = MODEL.tree.offsets[level]
        for node in range(0, n_nodes, max(1, n_nodes // 30)):
            parent = int(np.searchsorted(first_child, node, side="right")) - 1
            unpacked = packed.native.unpack_parent(level, parent)
            features, first_entry, children, weights, bias = unpacked
            child = node - first_child[parent]
            is_own = children == child
            features, weights = np.repeat(features, np.diff(first_entry))[is_own], weights[is_own]
            own, own_weights, own_bias = packed.native.node_weights(level, node)
            np.testing.assert_array_equal(own, features)
            np.testing.assert_array_equal(own_weights, weights)
            assert own_bias == bias[child]
            order = np.lexsort((features, -weights))
            np.testing.assert_array_equal(
                packed.native.strongest(level, node, 7), features[order[:7]]
            )
            some, some_weights, _ = packed.native.node_weights(level, node, wanted)
            is_wanted = np.isin(features, wanted)
            np.testing.assert_array_equal(some[::-1], features[is_wanted])
            np.testing.assert_array_equal(some_weights[::-1], weights[is_wanted])


def test_the_order_of_a_querys_features_does_not_matter():
    ids, values = row(X, 2)
    label = int(MODEL.tree.labels[0])
    there, back = (follow_label(PACKED, ids[::way], values[::way], label) for way in (1, -1))
    for one, other in zip(there, back, strict=True):
        np.testing.assert_array_equal(one.features, other.features)
        np.testing.assert_array_equal(one.contributions, other.contributions)


def test_what_is_not_in_the_tree_is_refused():
    missing = np.setdiff1d(np.arange(MODEL.n_labels), MODEL.tree.labels)[0]
    with pytest.raises(ValueError, match="label must be in the tree"):
        follow_label(PACKED, *row(X, 1), int(missing))
    with pytest.raises(ValueError, match="node must be in the tree"):
        parent_of(PACKED, 0, 10**6)
    for ask in (PACKED.native.node_weights, lambda *node: PACKED.native.strongest(*node, 5)):
        with pytest.raises(IndexError, match="a node must be in the tree"):
            ask(0, PACKED.sizes[0])


# Match sets

QUERIES = ["red rose", "white vase garden", "mug", "blue chairs 3", "kitchen tabel", "rose zzzqq"]
QUERIES += ["black", "black rose"]  # no query has the color: words decide


@pytest.fixture(scope="module")
def match_set():
    return make_match_set(language="en")


def features_of(matcher, query, product):
    """What search itself knows of a candidate; None where the product is none."""
    found = matcher.model.describe(matcher.vectorizer.native, Strings.of([query]))
    at = np.flatnonzero(found.labels == matcher.label_of(product))
    return found.features[at[0]] if len(at) else None


@pytest.mark.parametrize("query", QUERIES)
def test_the_shares_of_the_parts_add_up_to_the_score_of_the_answer(match_set, query):
    answer = match_set.match(query, 20)
    found = match_set.model.describe(match_set.vectorizer.native, Strings.of([query]))
    for rank, hit in enumerate(answer, start=1):
        reasons = match_set.explain(query, hit.id, k=20)
        assert (reasons.rank, reasons.is_returned, reasons.score) == (rank, True, hit.score)
        assert reasons.verdict == f"found at rank {rank}"
        assert sum(part.share for part in reasons.parts) == pytest.approx(reasons.linear, abs=1e-4)
        lines = match_set.model.reranker.calibrations[found.situations[0]]
        log_odds = lines.read(np.array([reasons.linear]))[0]
        assert 1 / (1 + np.exp(-log_odds)) == pytest.approx(hit.score, rel=1e-3)


def test_words_add_up_to_bm25_and_to_the_cosine(match_set):
    for query in QUERIES:
        for hit in match_set.match(query, 30):
            features = features_of(match_set, query, hit.id)
            if features is None:
                continue
            parts = {part.name: part for part in match_set.explain(query, hit.id).parts}
            for part, name, within in (("lexical", "bm25", 1e-3), ("towers", "cosine", 0.02)):
                total = sum(each.weight for each in parts[part].words)
                assert total == pytest.approx(features[FEATURES.index(name)], abs=within)


def test_words_are_those_of_the_query_and_trigrams_are_folded_into_them(match_set):
    reasons = match_set.explain("blue chairs 3", match_set.match("blue chairs 3", 1).ids[0])
    allowed = {"blue", "chairs", "3", "blue chairs", "chairs 3"}
    words = {each.word for one in (*reasons.parts, *reasons.steps) for each in one.words}
    assert {"blue", "chairs"} <= words <= allowed
    lexical = next(part for part in reasons.parts if part.name == "lexical")
    assert lexical.words[0].weight > 0


def test_ranks_in_sources_are_those_of_the_sources(match_set):
    query, first = "red rose", {}
    for product in match_set.products.ids:
        for part in match_set.explain(query, product).parts:
            if part.rank == 1:
                first[part.name] = product
    assert first["tree"] == match_set.part("tree").match(query, 1).ids[0]
    lexical = match_set.model.describe(match_set.vectorizer.native, Strings.of([query]))
    bm25 = lexical.features[:, FEATURES.index("bm25")]
    best = lexical.labels[bm25 == bm25.max()]
    assert match_set.label_of(first["lexical"]) == best.min()


def test_a_product_that_no_source_proposed_has_a_reason_for_each(match_set):
    narrow = match_set.with_bounds(Bounds(*[1] * len(COUNTS)))
    answer = narrow.match("red rose", 1)
    lost = 0
    for product in narrow.products.ids:
        reasons = narrow.explain("red rose", product, k=1)
        assert reasons.is_returned == (product in answer.ids)
        if features_of(narrow, "red rose", product) is None and not reasons.is_returned:
            lost += 1
            assert reasons.rank is None
            assert reasons.verdict.startswith("no source proposed it; it would have been rank ")
            assert not any(part.is_proposed for part in reasons.parts)
            assert all(part.note for part in reasons.parts)
            lexical = next(part for part in reasons.parts if part.name == "lexical")
            title = reasons.title.split()
            assert (lexical.note == "no word in common") == (not {"red", "rose"} & set(title))
    assert lost > 100


def test_what_a_wider_search_finds_is_explained_too(match_set):
    narrow = match_set.with_bounds(Bounds(*[1] * len(COUNTS)))
    shown, more = narrow.match("red rose", 20), narrow.match("red rose", 60)
    for rank, hit in enumerate(more, start=1):
        reasons = narrow.explain("red rose", hit.id, k=60)
        assert (reasons.rank, reasons.score) == (rank, hit.score)
        assert any(part.is_proposed for part in reasons.parts)
    later = [narrow.explain("red rose", hit.id, k=20) for hit in more[20:]]
    assert any(reasons.rank is not None for reasons in later[:4])
    for reasons in later:
        if reasons.rank is not None:
            assert reasons.verdict.endswith("beyond k = 20")
            assert reasons.score <= shown[-1].score


def test_the_filter_counts(match_set):
    first, second, *_ = match_set.match("red rose", 5).ids
    excluded = match_set.explain("red rose", first, where=[second])
    assert (excluded.is_allowed, excluded.is_returned) == (False, False)
    assert excluded.verdict == "the filter excludes it"
    assert excluded.rank == 1
    assert excluded.score == pytest.approx(match_set.match("red rose", 1).scores[0], rel=1e-5)
    full = match_set.explain("red rose", first, k=1, where=[second])
    assert (full.rank, full.score) == (excluded.rank, excluded.score)
    assert match_set.explain("red rose", second, where=[second]).rank == 1
    tree = match_set.part("tree")
    assert tree.explain("red rose", first, where=[second]).verdict == "the filter excludes it"
    assert tree.explain("red rose", second, where=[second]).rank == 1


def test_a_query_without_a_known_n_gram_has_no_reasons(match_set):
    reasons = match_set.explain("zzzzqqq", match_set.products.ids[0])
    assert (reasons.score, reasons.rank, reasons.parts) == (0.0, None, ())
    assert reasons.verdict == "the query has no known n-gram"
    with pytest.raises(ValueError, match="product must be one of the matcher's products"):
        match_set.explain("red rose", "nothing")


def test_what_a_rare_query_led_to_is_not_told_apart():
    more = [("red rose vase", 1, 2.0), ("blue mug soap", 2, 50.0)]
    log, catalog = make_shop(more=more)
    matcher = ms.train(log, catalog, make_config(tune=False))
    for query, product, is_told in (("red rose vase", "p001", 0), ("blue mug soap", "p002", 1)):
        reasons = matcher.explain(query, product)
        assert reasons.is_returned
        assert sum(part.name == "same query" for part in reasons.parts) == is_told
        assert sum(part.share for part in reasons.parts) == pytest.approx(reasons.linear, abs=1e-4)


def test_every_matcher_that_explains_prints_alike_and_survives_json(match_set):
    for matcher in (match_set, match_set.part("tree"), match_set.part("neighbors")):
        reasons = matcher.explain("red rose", matcher.match("red rose", 1).ids[0])
        console = Console(width=150, file=StringIO())
        console.print(reasons)
        for printed in (str(reasons), console.file.getvalue()):
            assert "found at rank 1" in printed
        sent = json.loads(json.dumps(reasons.to_dict()))
        assert Explanation.from_dict(sent) == reasons
        assert set(sent) == set(match_set.explain("mug", "p000").to_dict())

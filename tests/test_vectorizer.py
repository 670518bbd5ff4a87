"""Queries become features as the plain twin and scikit-learn make them, for any text."""

import pickle
import subprocess
import sys
from copy import deepcopy
from itertools import pairwise
from unittest.mock import patch

import numpy as np
import oracles
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.feature_extraction.text import TfidfVectorizer
from stored import dump_value

from matchset.config import NGrams, VectorizerConfig
from matchset.features import ngram_counts
from matchset.features.ngram_counts import add_counts, count_ngrams
from matchset.features.stems import lay_out_stems, list_words, unite_words
from matchset.features.vectorizer import Vectorizer
from matchset.features.vocabulary import (
    count_unknown,
    learn_vocabulary,
    make_vocabulary,
    weigh_unknown,
)
from matchset.memory import limit_memory
from matchset.strings import Strings
from matchset.text import normalize

words = st.text("abc6é靴", min_size=1, max_size=5)
queries = st.lists(words, max_size=5).map(" ".join)
corpora = st.lists(queries, max_size=12)
kinds = st.lists(
    st.tuples(
        st.sampled_from(["word", "char"]), st.integers(1, 4), st.integers(0, 30), st.integers(1, 2)
    ),
    min_size=1,
    max_size=4,
    unique_by=lambda kind: kind[:2],
)

SHOP = [
    "red running shoes", "red shoe", "blue running shoe mens", "rose of jericho plant",
    "artistic iphone 6s case", "iphone 6 case", "#6 x 1/2 in wood screw", "wood screws",
    "plant pot",
]  # fmt: skip


def configured(kinds, **settings):
    ngrams = tuple(NGrams(unit, n, limit, min_df) for unit, n, limit, min_df in kinds)
    return VectorizerConfig(ngrams=ngrams, **settings)


def pickle_and_back(value):
    return pickle.loads(pickle.dumps(value))


def same_rows(left, right):
    return all(
        np.array_equal(getattr(left, part), getattr(right, part))
        for part in ("indptr", "indices", "data")
    )


def test_the_papers_example_has_the_papers_ngrams():
    shown = Vectorizer().ngrams("Artistic iPhone 6s case")
    assert shown[:7] == [
        "artistic", "iphone", "6s", "case", "artistic#iphone", "iphone#6s", "6s#case"
    ]  # fmt: skip
    assert " ".join(shown[7:]) == (
        "#ar art rti tis ist sti tic ic# #ip iph pho hon one ne# #6s 6s# #ca cas ase se#"
    )


@given(queries, kinds)
def test_ngrams_equal_the_twin(query, kinds):
    expected = [
        ngram.replace(" ", "#") for unit, n, *_ in kinds for ngram in oracles.ngrams(query, unit, n)
    ]
    assert Vectorizer(configured(kinds)).ngrams(query) == expected


@given(corpora, kinds)
def test_the_vocabulary_keeps_the_most_frequent_ties_by_the_ngram(corpus, kinds):
    vocabulary = Vectorizer(configured(kinds)).fit(corpus).vocabulary
    kept = oracles.vocabulary(corpus, kinds)
    flat = [item for kind in kept for item in kind]
    assert vocabulary.sizes == tuple(map(len, kept))
    assert list(vocabulary.names) == [ngram.replace(" ", "#") for ngram, _ in flat]
    assert list(vocabulary.df) == [df for _, df in flat]


@given(corpora, corpora, kinds)
def test_rows_equal_the_twin(corpus, asked, kinds):
    vectorizer = Vectorizer(configured(kinds, oov_buckets=0)).fit(corpus)
    rows = vectorizer.transform(asked)
    assert rows.dtype == np.float32
    assert rows.has_sorted_indices
    np.testing.assert_allclose(rows.toarray(), oracles.tfidf(corpus, asked, kinds), atol=1e-6)


@settings(max_examples=25)
@given(corpora, kinds, st.integers(0, 3), st.integers(1, 7))
def test_threads_batches_and_memory_change_nothing(corpus, kinds, buckets, threads):
    # Enough texts for several chunks per thread.
    corpus = [f"{text} {i % 97}" for i, text in enumerate(corpus * 700)]
    config = configured(kinds, oov_buckets=buckets)
    one = Vectorizer(config).fit(corpus, threads=1)
    with limit_memory(200_000):
        other = Vectorizer(config).fit(corpus, threads=threads)
    for name in ("slots", "df", "unknown_idf"):
        assert np.array_equal(getattr(one.vocabulary, name), getattr(other.vocabulary, name))
    assert one.vocabulary.names == other.vocabulary.names
    rows = one.transform(corpus, threads=1)
    assert same_rows(rows, other.transform(corpus, threads=threads))
    assert same_rows(rows[:5], one.transform(corpus[:5]))
    for i in range(min(3, len(corpus))):
        ids, weights = one.encode(corpus[i])
        assert np.array_equal(ids, rows[[i]].indices)
        assert np.array_equal(weights, rows[[i]].data)


@pytest.mark.parametrize("size", [3, 1 << 24])
@given(corpora, kinds, st.integers(0, 2), st.lists(st.integers(0, 12)), st.data())
def test_a_vocabulary_of_parts_is_that_of_all_texts(size, corpus, kinds, buckets, cuts, data):
    config = configured(kinds, oov_buckets=buckets)
    language = data.draw(st.sampled_from(["de", None]))
    texts = Strings.of([normalize(text) for text in corpus])
    shown = np.array(data.draw(st.lists(st.booleans(), min_size=len(texts), max_size=len(texts))))
    shown = shown.astype(np.bool_)
    whole = learn_vocabulary(texts, config, 1, language=language, shown=shown)
    ends = [0, *sorted(min(cut, len(texts)) for cut in cuts), len(texts)]
    parts = [(texts.slice(*ab), shown[slice(*ab)]) for ab in pairwise(ends)]
    stems = None
    if language is not None:
        words = unite_words([list_words(part, language, marks) for part, marks in parts])
        stems = lay_out_stems(language, words)
    counted = [
        count_ngrams(part, config, stems, threads=1, shown=marks, is_part=True)
        for part, marks in parts
    ]
    with patch.object(ngram_counts, "_SLICE", size):
        added = [
            add_counts(each, kind)
            for each, kind in zip(zip(*counted, strict=True), config.ngrams, strict=True)
        ]
    vocabulary = make_vocabulary(added, config, len(texts), stems=stems, threads=1)
    unknown = sum(count_unknown(vocabulary, part, threads=1) for part, _ in parts)
    vocabulary = weigh_unknown(vocabulary, unknown)
    assert dump_value(whole) == dump_value(vocabulary)


@pytest.mark.parametrize(
    ("kinds", "options"),
    [
        ([("word", 1, 999, 1)], {"token_pattern": r"\S+"}),
        (
            [("word", 1, 999, 1), ("word", 2, 999, 1)],
            {"token_pattern": r"\S+", "ngram_range": (1, 2)},
        ),
        ([("char", 3, 999, 1)], {"analyzer": "char_wb", "ngram_range": (3, 3)}),
        (
            [("char", 2, 999, 2), ("char", 3, 999, 2)],
            {"analyzer": "char_wb", "ngram_range": (2, 3), "min_df": 2},
        ),
    ],
)
def test_scikit_learn_gives_the_same_matrix(kinds, options):
    corpus = [normalize(query).replace("#", "") for query in SHOP]
    theirs = TfidfVectorizer(lowercase=False, **options).fit(corpus)
    ours = Vectorizer(configured(kinds, oov_buckets=0)).fit(corpus)
    # scikit-learn shows a boundary, and the gap between two words, as a space.
    columns = [theirs.vocabulary_[name.replace("#", " ")] for name in ours.vocabulary.names]
    assert len(columns) == len(theirs.vocabulary_)
    np.testing.assert_allclose(
        ours.transform(corpus).toarray(),
        theirs.transform(corpus)[:, columns].toarray(),
        atol=1e-6,
    )


LIMITED = [("word", 1, 3, 1)]


def test_unknown_ngrams_share_an_id_that_counts_once():
    vectorizer = Vectorizer(configured(LIMITED)).fit(["a b", "a c", "a d e", "a b"])
    assert list(vectorizer.vocabulary.names) == ["a", "b", "c"]
    row = vectorizer.transform(["a d zebra yak"]).toarray()[0]
    known, unknown = 1.0, np.log(5 / 2) + 1  # one query of four had cut n-grams
    length = np.hypot(known, unknown)
    np.testing.assert_allclose(row, [known / length, 0, 0, unknown / length], atol=1e-6)
    assert vectorizer.name(3) == "(unknown word 1-gram)"


def test_unknown_ngrams_can_go_to_buckets_or_be_ignored():
    corpus = [f"a w{i}" for i in range(64)]
    buckets = Vectorizer(configured(LIMITED, oov_buckets=8)).fit(corpus)
    ignored = Vectorizer(configured(LIMITED, oov_buckets=0)).fit(corpus)
    used = {int(feature) for query in corpus for feature in buckets.encode(query)[0]}
    assert used == set(range(3 + 8))
    assert ignored.n_features == 3
    assert list(ignored.encode("a w63")[0]) == [0]


def test_an_unknown_id_that_training_never_saw_is_silent():
    vectorizer = Vectorizer().fit(SHOP)
    ids, weights = vectorizer.encode("red zebra")
    assert max(ids) < vectorizer.vocabulary.n_known
    assert np.isclose(np.linalg.norm(weights), 1)


@pytest.mark.parametrize("buckets", [0, 1, 8])
def test_a_query_without_known_ngrams_has_an_empty_row(buckets):
    vectorizer = Vectorizer(configured(LIMITED, oov_buckets=buckets)).fit(["a b", "c d e f"])
    rows = vectorizer.transform(["", "  ", "zebra", "!?", "a"])
    assert list(np.diff(rows.indptr)) == [0, 0, 0, 0, 1]
    assert len(vectorizer.encode("zebra")[0]) == 0


@given(st.text(st.characters(), max_size=30))
def test_any_str_is_a_query(query):
    config = configured([("char", 1, 999, 1), ("word", 2, 9, 1)])
    vectorizer = Vectorizer(config).fit([query, "a b"])
    row = vectorizer.transform([query])
    assert row.nnz == 0 if not normalize(query) else np.isclose(np.linalg.norm(row.data), 1)


@pytest.mark.parametrize(
    "query", ["a" * 1_000_000, "a " * 500_000, "\x00", "\ud800", "👩‍🚀 é \u202ex"]
)
def test_strange_queries_fit_and_transform(query):
    vectorizer = Vectorizer().fit([query, "shoe"])
    assert vectorizer.transform([query, "shoe"]).shape == (2, vectorizer.n_features)


@pytest.mark.parametrize("travel", [pickle_and_back, deepcopy], ids=["pickled", "deep-copied"])
@pytest.mark.parametrize("source", ["fitted", "opened", "not fitted"])
def test_a_vectorizer_can_be_pickled_and_deep_copied(tmp_path, travel, source):
    vectorizer = Vectorizer(configured([("word", 1, 10, 1), ("char", 3, 20, 1)]))
    if source != "not fitted":
        vectorizer.fit(SHOP, shown=np.arange(len(SHOP)) > 2)
    if source == "opened":
        vectorizer.save(tmp_path / "vectorizer")
        vectorizer = Vectorizer.load(tmp_path / "vectorizer")
    copy = travel(vectorizer)
    assert copy.config == vectorizer.config
    assert repr(copy) == repr(vectorizer)
    if source == "not fitted":
        with pytest.raises(ValueError, match="must be fitted first"):
            copy.transform(SHOP)
        return
    assert same_rows(copy.transform(SHOP), vectorizer.transform(SHOP))
    assert same_rows(copy.transform(SHOP[:1]), vectorizer.transform(SHOP[:1]))
    assert list(copy.vocabulary.names) == list(vectorizer.vocabulary.names)


def test_ngrams_of_rare_queries_have_no_name():
    shown = np.array([query != "rose of jericho plant" for query in SHOP])
    vectorizer = Vectorizer().fit(SHOP, shown=shown)
    names = list(vectorizer.vocabulary.names)
    assert "plant" in names  # "plant pot" may be shown
    assert not [name for name in names if "jericho" in name or "#je" in name]
    feature = int(vectorizer.encode("jericho")[0][0])
    assert vectorizer.name(feature) == "(not shown)"
    everything = Vectorizer().fit(SHOP)
    assert same_rows(vectorizer.transform(SHOP), everything.transform(SHOP))
    with pytest.raises(ValueError, match=r"shown must have one entry per query, \(9,\); got"):
        Vectorizer().fit(SHOP, shown=np.ones(2, dtype=bool))


def test_a_word_has_a_name_where_any_of_its_texts_is_shown():
    rng = np.random.default_rng(1)
    corpus = [f"word{a} {b:x}" for a, b in rng.integers(0, 30_000, (15_000, 2))]
    shown = rng.random(len(corpus)) < 0.3
    config = configured([("word", 1, 10**6, 1)])
    one, everything, public = (
        Vectorizer(config).fit(texts, shown=marks, threads=1).vocabulary
        for texts, marks in ((corpus, shown), (corpus, None), (list(np.array(corpus)[shown]), None))
    )
    known, names = set(public.names), list(everything.names)
    assert list(one.names) == [name if name in known else "" for name in names]
    assert names == [name for _, name in sorted(zip(-one.df.astype(int), names, strict=True))]
    for threads in (2, 7):
        other = Vectorizer(config).fit(corpus, shown=shown, threads=threads).vocabulary
        assert other.names == one.names
        assert np.array_equal(other.slots, one.slots)


def test_strings_and_lists_and_iterators_are_the_same():
    by_list = Vectorizer().fit(SHOP)
    by_strings = Vectorizer().fit(Strings.of(SHOP))
    assert same_rows(by_list.transform(iter(SHOP)), by_strings.transform(Strings.of(SHOP)))


def test_another_process_with_another_hash_seed_learns_the_same_bytes():
    code = (
        "import sys; from matchset.features.vectorizer import Vectorizer; "
        f"sys.stdout.buffer.write(Vectorizer().fit({SHOP!r}).vocabulary.slots.tobytes())"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONHASHSEED": "7"}, capture_output=True, check=True
    )
    assert run.stdout == Vectorizer().fit(SHOP).vocabulary.slots.tobytes()


def fitted():
    return Vectorizer().fit(SHOP)


@pytest.mark.parametrize(
    ("call", "error", "rule"),
    [
        (lambda: fitted().transform(["a", None]), TypeError, r"queries\[1\] must be str; got"),
        (lambda: fitted().fit(["a", b"b"]), TypeError, r"queries\[1\] must be str; got"),
        (lambda: fitted().encode(3), TypeError, "query must be str; got"),
        (lambda: fitted().ngrams(None), TypeError, "query must be str; got"),
        (lambda: fitted().transform("red"), TypeError, "a sequence of str; got one str"),
        (lambda: Vectorizer().transform(["red"]), ValueError, "must be fitted first"),
        (lambda: Vectorizer().encode("red"), ValueError, "must be fitted first"),
        (lambda: Vectorizer().fit(SHOP, threads="2"), TypeError, "threads must be"),
        (lambda: Vectorizer().fit(SHOP, threads=2**40), ValueError, "threads must be"),
        (lambda: VectorizerConfig(ngrams=()), ValueError, "ngrams must be distinct kinds, at"),
        (lambda: configured([("word", 1, 5, 1), ("word", 1, 9, 1)]), ValueError, "be distinct"),
        (lambda: VectorizerConfig(oov_buckets=-1), ValueError, "from 0 to 16777216; got -1"),
        (lambda: NGrams("byte", 1, 10), ValueError, "unit must be 'word' or 'char'; got 'byte'"),
        (lambda: NGrams("word", 0, 10), ValueError, "n must be from 1 to 16; got 0"),
        (lambda: NGrams("word", 1, 1e6), TypeError, "limit must be an int; got float"),
    ],
)
def test_what_makes_no_sense_is_an_error_that_says_the_rule(call, error, rule):
    with pytest.raises(error, match=rule):
        call()


def test_nothing_to_learn_from_gives_a_vectorizer_that_knows_nothing():
    assert Vectorizer().fit([]).transform(["red"]).nnz == 0

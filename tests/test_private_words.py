"""Words that only rare queries have are in no file of a match set, in no form."""

import numpy as np
import pyarrow as pa
import pytest
from match_sets import make_config, make_shop
from stored import take_apart

import matchset as ms
from matchset import _native
from matchset.data.catalog import Catalog
from matchset.features.ngram_counts import kind_arrays
from matchset.learn import private_words
from matchset.learn.private_words import forget_private_words
from matchset.strings import Strings
from matchset.text import normalize

SECRETS = {  # a name and a telephone number; one whose trigrams other words have too
    "wilhelmina xylander 5550173 rose": ("wilhelmina", "xylander", "5550173"),
    "gardener vaser lampot red mug": ("gardener", "vaser", "lampot"),
}
PUBLIC_FORMS = {"gardener": "garden"}  # words of titles with the same stem
WORDS = [f"w{chr(97 + i // 26)}{chr(97 + i % 26)}" for i in range(600)]


def forget(queries, counts, titles=None, least=5, **settings):
    texts = None if titles is None else Strings.of(titles)
    counts = np.array(counts, dtype=np.float64)
    return list(forget_private_words(Strings.of(queries), counts, texts, least=least, **settings))


def test_a_rare_query_loses_the_words_that_only_rare_queries_have():
    queries = ["john 5550173 red shoes", "blue shoes", "", "xylander", "shoes"]
    assert forget(queries, [1, 1, 1, 4, 9], ["Red SHOE's", "shoes"]) == [
        "red shoes",
        "shoes",
        "",
        "",
        "shoes",
    ]


def test_a_frequent_query_keeps_its_words_and_makes_them_public():
    assert forget(["xylander", "xylander rose"], [5, 1]) == ["xylander", "xylander"]


def test_words_of_several_rare_queries_become_public_together():
    queries = ["rose pot", "rose vase", "rose rose lamp"]
    assert forget(queries, [2, 2, 1]) == ["rose", "rose", "rose rose"]
    assert forget(queries, [2, 1, 1]) == ["", "", ""]


@pytest.mark.parametrize("threads", [1, 2, 7])
@pytest.mark.parametrize(
    ("language", "wanted"),
    [("en", ["red shoe", "painted", "", "roses"]), (None, ["red", "", "", "roses"])],
)
def test_a_form_that_is_public_takes_the_place_of_a_private_word(language, wanted, threads):
    queries = ["red shoes", "paints", "xylanders", "roses"]  # nobody wrote xylander
    found = forget(
        queries, [1, 1, 1, 9], ["Red shoe", "painted"], language=language, threads=threads
    )
    assert found == wanted


def test_numbers_are_apart_from_units_and_characters_come_alone_and_in_pairs():
    assert forget(["20v drill", "21v drill"], [1, 1], ["20 v drill"]) == ["20v drill", "drill"]
    assert forget(["赤いシューズ 田中"], [1], ["新しい赤いシューズ"]) == ["赤いシューズ"]
    assert forget(["鍋 茶 扇"], [1], ["土鍋", "紅茶"]) == ["鍋 茶"]  # no title has the fan
    assert forget(["扇", "扇 鍋"], [3, 2]) == ["扇", "扇"]


def test_a_private_pair_of_public_characters_is_not_learned(tmp_path):
    titles = ["田植え 赤い靴", "中型 赤い靴", "山田 土鍋", "中鍋", "赤い鍋", "茶 山中"] * 2
    assert forget(["田中 赤い靴", "田 中 鍋"], [1, 1], titles) == ["赤い靴", "田 中 鍋"]
    table = {
        "query": [*titles, "田中 赤い靴"],
        "sku": [f"p{i}" for i in range(len(titles))] + ["p0"],
    }
    catalog = Catalog(Strings.of(table["sku"][:-1]), Strings.of(titles))
    ms.train(ms.read_log(pa.table(table)), catalog, make_config(language="cjk"), out=tmp_path / "m")
    arrays = take_apart(tmp_path / "m")[1]
    config, known = ms.load(tmp_path / "m").vectorizer.config, known_ngrams(arrays)
    unit, length = kind_arrays(config.ngrams)

    def is_known(word, kind):
        keys = _native.list_ngrams(word, unit[kind : kind + 1], length[kind : kind + 1])[1]
        return [int(key) in known for key in keys]

    assert (
        is_known("田", 0) == is_known("中", 0) == is_known("鍋", 0) == is_known("赤い", 0) == [True]
    )
    assert is_known("田中", 0) == is_known("田 中", 1) == [False]
    secret = {known[key] for key in ngrams_of("田中", config) if key in known}
    public = {known[key] for key in ngrams_of("赤い靴", config) if key in known}
    assert not features_of(arrays, "田中 赤い靴") & (secret - public)


@pytest.mark.parametrize(("threads", "block"), [(1, 1 << 20), (2, 7), (7, 1 << 20)])
def test_private_words_are_those_of_a_plain_count_with_any_number_of_threads(
    threads, block, monkeypatch
):
    monkeypatch.setattr(private_words, "_BLOCK", block)
    rng = np.random.default_rng(1)
    queries = [" ".join(dict.fromkeys(row)) for row in rng.choice(["ab", "cd", *WORDS], (500, 4))]
    counts = rng.choice([1.0, 2.0, 9.0], len(queries), p=[0.8, 0.15, 0.05])
    titles = Strings.of(["AB cd", *WORDS[:20]])
    total = dict.fromkeys(["ab", "cd", *WORDS[:20]], np.inf)
    for query, count in zip(queries, counts, strict=True):
        for word in query.split():
            total[word] = total.get(word, 0) + count
    wanted = [
        query if count >= 5 else " ".join(word for word in query.split() if total[word] >= 5)
        for query, count in zip(queries, counts, strict=True)
    ]
    assert wanted != queries
    found = forget_private_words(Strings.of(queries), counts, titles, least=5, threads=threads)
    assert list(found) == wanted


def test_losing_most_words_is_told(caplog):
    assert forget(["rose", "pot"], [1, 1]) == ["", ""]
    assert "nothing is learned from 2 of 2 words in queries" in caplog.text
    assert "occurred less than 5 times (min_query_count)" in caplog.text


def test_a_log_of_private_words_alone_trains_and_finds_nothing():
    log, _ = make_shop(20)
    matcher = ms.train(log, None, make_config(min_query_count=10**6))
    assert len(matcher.match("red rose")) == 0


def test_nothing_is_private_where_every_query_may_be_shown():
    assert forget(["a b", "c"], [1, 1], least=0) == ["a b", "c"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A match set whose log has the secrets, once each."""
    more = [(query, product, 2.0) for product, query in enumerate(SECRETS, start=1)]
    log, catalog = make_shop(more=more)
    path = tmp_path_factory.mktemp("private") / "model"
    ms.train(log, catalog, make_config(language="en"), out=path)
    return path


def ngrams_of(text, config):
    """The keys of a text's n-grams, as someone who has the folder and a guess computes them."""
    return set(_native.list_ngrams(text, *kind_arrays(config.ngrams))[1].tolist())


def known_ngrams(arrays):
    slots = np.asarray(arrays["vectorizer.slots"])
    pairs = slots.view([("key", "<u8"), ("id", "<u4"), ("idf", "<f4")])
    return {int(key): int(each) for key, each, _ in pairs if key != 2**64 - 1}


def features_of(arrays, query):
    """What the file remembers of a query whose whole text is guessed: the join of all files."""
    arrays = {n.removeprefix("model.neighbors."): a for n, a in arrays.items() if "neighbors" in n}
    (at,) = np.flatnonzero(arrays["hashes"] == Strings.of([normalize(query)]).hashes()[0])
    offsets, ids = arrays["queries_of.offsets"], arrays["queries_of.ids"]
    feature_of = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    return set(feature_of[ids == arrays["by_hash"][at]].tolist())


@pytest.mark.parametrize("query", SECRETS)
def test_no_guess_of_a_private_word_is_confirmed_by_a_folder(folder, query):
    arrays = take_apart(folder)[1]
    config = ms.load(folder).vectorizer.config
    known = known_ngrams(arrays)
    words = np.asarray(arrays["vectorizer.stems.slots"])
    hashes = words.view([("key", "<u8"), ("kept", "<u4"), ("suffix", "<u4")])["key"]
    remembered = features_of(arrays, query)
    public = query
    for secret in SECRETS[query]:
        # Titles have a garden, which stands for a gardener: what is remembered is a public word.
        public = public.replace(secret, PUBLIC_FORMS.get(secret, "")).strip()
        assert Strings.of([secret]).hashes()[0] not in hashes
        unit, length = kind_arrays(config.ngrams)
        (key,) = _native.list_ngrams(secret, unit[:1], length[:1])[1]
        assert int(key) not in known  # neither as a word nor, below, by its trigrams in a query
    rest = {known[key] for key in ngrams_of(public, config) if key in known}
    secret = {known[key] for key in ngrams_of(" ".join(SECRETS[query]), config) if key in known}
    assert remembered & rest
    assert not remembered & (secret - rest)


def test_pairs_of_a_private_word_and_another_are_unknown(folder):
    arrays = take_apart(folder)[1]
    config, known = ms.load(folder).vectorizer.config, known_ngrams(arrays)
    for query, secrets in SECRETS.items():
        unit, length = kind_arrays(config.ngrams)
        (data, offsets), keys = _native.list_ngrams(query, unit[1:2], length[1:2])
        for pair, key in zip(Strings(data, offsets), keys, strict=True):
            if any(word in secrets for word in pair.split("#")):
                assert int(key) not in known


def test_no_file_spells_a_private_word(folder):
    for file in folder.parent.glob(f"{folder.name}*"):
        content = file.read_bytes()
        for word in (word for secrets in SECRETS.values() for word in secrets):
            assert word.encode() not in content


def test_a_rare_query_still_votes(folder):
    matcher = ms.load(folder)
    for product, query in enumerate(SECRETS, start=1):
        assert f"p{product:03}" in matcher.only("neighbors").match(query, 3).ids


def test_the_paper_s_tree_learns_from_every_word():
    log, catalog = make_shop(more=[("wilhelmina xylander", 1, 2.0)])
    tree = ms.train(log, catalog, ms.TrainConfig(parts=("tree",)))
    assert len(tree.match("xylander", 3)) == 3

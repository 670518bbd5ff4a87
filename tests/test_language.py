"""Languages: stems for words, the surface for characters, and which language a shop speaks."""

import pickle
import re
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from shop_titles import PRODUCTS, UNKNOWN, make_titles
from test_vectorizer import SHOP, same_rows

import matchset as ms
from matchset import _native
from matchset.baselines import BM25, TitleSimilarity
from matchset.config import LANGUAGES, STEMMED
from matchset.data.catalog import Catalog
from matchset.errors import ModelFileError
from matchset.features.analysis import Analyzer, choose_language, detect_language, list_languages
from matchset.features.query_words import find_query_words
from matchset.features.stems import Stems, learn_stems
from matchset.features.vectorizer import KIND, Vectorizer
from matchset.memory import limit_memory
from matchset.storage.codec import decode, encode
from matchset.storage.file import read_header, verify_file
from matchset.strings import Strings
from matchset.text import normalize, normalize_strings

DATA = Path(__file__).parents[2] / "shared" / "data"
HOME_DEPOT, TITLES = DATA / "homedepot" / "products.tsv", DATA / "titles"
ENGLISH = [
    "Cordless drills for the home",
    "drill and bits",
    "6ft ladder with wheels",
    "running shoes",
]
GERMAN = [
    f"{color} {thing} {extra}"
    for color in ("Rote", "Schwarze", "Grüne", "Weiße", "Blaue")
    for thing in ("Türschlösser", "Küchenmesser", "Gartenstühle", "Bohrmaschinen", "Lampen")
    for extra in ("für den Garten", "mit Griff und Schraube", "aus Holz", "zum Aufhängen")
]
JAPANESE = [
    "赤い靴 レディース",
    "黒い革靴",
    "子供用長靴 20cm",
    "電動ドリル",
    "木の椅子",
    "ガラスの花瓶",
]
JAPANESE_SHOP = [  # without a space anywhere
    f"{whose}{color}{thing}セット"
    for whose in ("紳士用", "子供用", "家庭用")
    for color in ("赤い", "黒い", "白い", "青い")
    for thing in ("革靴", "長靴", "椅子", "花瓶", "電動ドリル")
]
ENGLISH_SHOP = [
    f"{color} {thing} {extra}"
    for color in ("Red", "Black", "Green", "White", "Blue")
    for thing in ("drills", "lamps", "chairs", "ladders", "vases")
    for extra in ("for the home", "with a handle and screws", "made of wood", "to hang from a wall")
]
MIXED = [*GERMAN, *(f"{title} pour la maison avec des vis" for title in ENGLISH * 25)]
HOSTILE = [
    "",
    " ",
    "😀 👍🏽",
    "נעלי ריצה",
    "\ud800",
    "the",
    "\x00",
    "x" * 10**6,
    "drills " * 150_000,
]


def make_catalog(titles):
    return Catalog(Strings.of([f"p{i}" for i in range(len(titles))]), Strings.of(titles))


def normalized(texts):
    return normalize_strings(Strings.of(texts))


def analyze(texts, language, known=None, shown=None):
    stems = learn_stems(normalized(texts if known is None else known), language, shown)
    return list(stems.analyze(normalized(texts)))


@pytest.mark.parametrize(
    ("language", "texts", "wanted"),
    [
        ("en", ENGLISH, ["cordless drill home", "drill bit", "6 ft ladder wheel", "run shoe"]),
        ("en", ["the", "for the", "The Who"], ["the", "for the", "who"]),  # stop words alone stay
        ("en", ["6ft", "2x4", "2x4x8ft", "3/4in"], ["6 ft", "2 4", "2 4 8 ft", "3/4"]),
        ("en", [".5l", "100%", "10x", "5µm"], [".5 l", "100%", "10 x", "5 μm"]),
        ("en", ["dw4300b", "4300b2", "1.5"], ["dw4300b", "4300b2", "1.5"]),
        ("en", ["iphone 7 plus", "l7 ce285a"], ["iphon 7 plus", "l7 ce285a"]),
        (
            "en",
            ["shoesの靴drills", "theの靴 靴the"],
            ["shoe の靴 drill  の  靴", "の靴 靴  の  靴"],
        ),
        ("cjk", ["赤い靴 abc", "靴", "ไทย"], ["赤い い靴 abc  赤  い  靴", "靴", "ไท ทย"]),
        ("cjk", ["한국 신발"], ["한국 신발"]),  # Hangul has spaces
    ],
)
def test_words_become_stems_and_pieces_known_or_not(language, texts, wanted):
    assert analyze(texts, language) == analyze(texts, language, known=[]) == wanted


@given(st.lists(st.text(max_size=30), max_size=4), st.sampled_from(STEMMED))
@settings(deadline=None)
def test_the_table_gives_what_the_stemmer_gives(texts, language):
    assert analyze(texts, language) == analyze(texts, language, known=[])


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_language_has_a_stemmer_and_stop_words_that_normalization_leaves(language):
    assert set(STEMMED) == set(list_languages())
    if language == "cjk":
        return
    found = list_languages()[language]
    assert Analyzer.of(language).stem(["xyzzy"]) != [""]
    assert all(normalize(word) == word for word in found.stop_words)


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_number_and_its_unit_are_the_same_together_and_apart_in_every_language(language):
    for joined, apart in (
        ("hdmi 2m", "hdmi 2 m"),
        ("hp 85a toner", "hp 85 a toner"),
        ("1.5l", "1.5 l"),
        ("20x30cm", "20x30 cm"),
        ("12v 9ah", "12 v 9 ah"),
    ):
        assert analyze([joined], language) == analyze([apart], language)


@pytest.mark.parametrize("language", STEMMED)
def test_no_letter_is_lost_as_a_stop_word(language):
    letters = [*"abcdefghijklmnopqrstuvwxyz", *"абвгдежзиклмнопрстуфхцчшщэюя"]
    texts = [f"{word}85 {letter}" for letter in letters for word in ("x", "")]
    assert analyze(texts, language) == analyze(texts, language, known=[]) == texts
    assert all(len(word) > 1 or word in "àèé" for word in list_languages()[language].stop_words)


def test_a_letter_tells_products_apart():
    titles = [f"Vitamin {letter} drops for the family" for letter in "abcde"]
    matcher = BM25.from_catalog(make_catalog(titles), language="en")
    for letter, product in zip("abcde", range(5), strict=True):
        assert matcher.match(f"vitamin {letter}", 1).ids == (f"p{product}",)


@pytest.mark.parametrize("language", LANGUAGES)
def test_scripts_without_spaces_become_pairs_and_single_characters_in_every_language(language):
    texts = ["赤い靴 靴", "靴20cm用品", "ไทย", "2026年モデル"]
    assert analyze(texts, language) == [
        "赤い い靴 靴  赤  い  靴",
        "靴 20 cm 用品  用  品",
        "ไท ทย",
        "2026 年モ モデ デル  年  モ  デ  ル",
    ]
    assert analyze(texts, language, known=[]) == analyze(texts, language)


@given(st.lists(st.text("靴赤いア\U00020000ทยab 12", max_size=12), max_size=4))
@settings(deadline=None)
def test_pairs_and_single_characters_equal_the_twin(texts):
    assert analyze(texts, "cjk") == [analyze_unspaced(normalize(text)) for text in texts]


def analyze_unspaced(text):
    """A text of words, runs without spaces, and numbers, without any stems."""
    pieces, singles = [], []
    for word in text.split():
        for part in split_numbers(word) if word.isascii() else split_runs(word):
            if is_unspaced(part[0]):
                pieces += [part[i : i + 2] for i in range(max(1, len(part) - 1))]
                singles += [char for char in part if len(part) > 1 and char >= "\u3040"]
            else:
                pieces += split_numbers(part)
    return " ".join(pieces) + "".join(f"  {char}" for char in singles)


def split_numbers(word):
    found = re.fullmatch(r"(\d+)([a-z]*)", word)
    return [part for part in found.groups() if part] if found else [word]


def split_runs(word):
    return ["".join(run) for _, run in groupby(word, is_unspaced)]


def is_unspaced(char):
    return char >= "\u0e00"


def test_no_ngram_of_several_words_has_a_single_character_of_a_pair():
    vectorizer = Vectorizer(language="en").fit(["赤い靴 drills 20cm"])
    named = set(vectorizer.ngrams("赤い靴 drills 20cm"))
    assert {"赤い", "い靴", "赤", "い", "靴", "い靴#drill", "drill#20", "20#cm"} <= named
    assert not {"cm#赤", "赤#い", "い#靴", "#赤", ""} & named
    found = find_query_words(vectorizer, "赤い靴 drills 20cm")
    assert {"赤い靴", "drills", "20cm"} <= {
        word for words in found.words.values() for word in words
    }
    assert set(found.ngrams.values()) == named


@pytest.mark.parametrize("query", ["鍋", "夫", "社"])
def test_a_query_of_one_character_finds_the_titles_that_have_it(query):
    titles = ["土鍋セット", "家庭用鍋", "鍋 20cm", "電気ポット", "工夫茶器", "会社用机", *ENGLISH]
    wanted = {f"p{i}" for i, title in enumerate(titles) if query in title}
    for language in ("cjk", "en"):
        for kind in (BM25, TitleSimilarity):
            matcher = kind.from_catalog(make_catalog(titles), language=language)
            assert set(matcher.match(query, len(wanted)).ids) == wanted
    matcher = train_shop([*JAPANESE_SHOP, *titles])
    assert {one.title for one in matcher.part("lexical").match(query, 100)} == {
        title for title in [*JAPANESE_SHOP, *titles] if query in title
    }


def test_words_are_stems_and_characters_are_the_surface():
    vectorizer = Vectorizer(language="en").fit(ENGLISH)
    names = [vectorizer.name(i) for i in range(vectorizer.vocabulary.n_known)]
    assert {"drill", "run", "cordless#drill", "lls", "ing"} <= set(names)
    assert not {"drills", "running", "for#the", "cordless#drills"} & set(names)
    assert vectorizer.ngrams("Drills!")[:2] == ["drill", "#dr"]
    assert "language en" in repr(vectorizer)
    n_words = sum(vectorizer.vocabulary.sizes[:2])
    plural, singular = (
        {int(feature) for feature in vectorizer.encode(query)[0] if feature < n_words}
        for query in ("wheel drills", "wheels drill")
    )
    assert plural == singular
    assert len(plural) == 2


def test_without_a_language_nothing_changes():
    plain, off = Vectorizer().fit(SHOP), Vectorizer(language="none").fit(SHOP)
    small = Vectorizer(language="auto").fit(SHOP)  # too few words to tell
    for other in (off, small):
        assert other.vocabulary.stems is None
        assert other.vocabulary.slots.tobytes() == plain.vocabulary.slots.tobytes()
        assert other.vocabulary.df.tobytes() == plain.vocabulary.df.tobytes()
        assert same_rows(other.transform(SHOP), plain.transform(SHOP))


@pytest.mark.parametrize("language", ["en", "de", "cjk"])
def test_threads_budgets_and_batches_do_not_matter(language):
    texts = [*ENGLISH, *GERMAN, *JAPANESE] * 30
    one = Vectorizer(language=language).fit(texts, threads=1)
    with limit_memory(200_000):
        many = Vectorizer(language=language).fit(texts, threads=3)
    assert one.vocabulary.slots.tobytes() == many.vocabulary.slots.tobytes()
    assert list(one.vocabulary.names) == list(many.vocabulary.names)
    unseen = [f"{text} drilling{i} Schlössern{i}" for i, text in enumerate(texts)]
    rows = one.transform(unseen, threads=1)
    assert same_rows(rows, many.transform(unseen, threads=3))
    for i in range(0, len(unseen), 97):
        ids, weights = many.encode(unseen[i])
        assert np.array_equal(ids, rows[[i]].indices)
        assert np.array_equal(weights, rows[[i]].data)


def test_unknown_words_are_stemmed_in_many_threads_at_once():
    vectorizer = Vectorizer(language="en").fit(ENGLISH)
    queries = [f"drilling{i} wheels{i} running shoes" for i in range(3000)]
    expected = vectorizer.transform(queries, threads=1)
    with ThreadPoolExecutor(4) as pool:
        rows = pool.map(lambda _: vectorizer.transform(queries, threads=3), range(8))
        assert all(same_rows(each, expected) for each in rows)


@pytest.mark.parametrize("language", ["en", "de", "ru", "cjk"])
@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: repr(text[:8]))
def test_any_text_can_be_asked_and_learned(text, language):
    vectorizer = Vectorizer(language=language).fit([*ENGLISH, *JAPANESE, text])
    rows = vectorizer.transform([text, "drills"])
    assert rows.shape[0] == 2
    assert rows[[1]].nnz > 0
    assert same_rows(rows[[0]], vectorizer.transform([text]))


def test_the_longest_text_of_pairs_is_counted():
    text = "".join(chr(0x20000 + i) for i in range(5000))  # four bytes a character
    vectorizer = Vectorizer(language="cjk").fit([text, "靴"])
    assert vectorizer.transform([text]).nnz > 3000


def test_a_misspelt_word_is_still_found_by_its_trigrams():
    titles = [*ENGLISH, *GERMAN]
    matcher = TitleSimilarity.from_catalog(make_catalog(titles), language="en")
    assert matcher.match("crodless drils", 1).ids == ("p0",)


def test_a_saved_vectorizer_answers_alike(tmp_path):
    vectorizer = Vectorizer(language="de").fit(GERMAN)
    vectorizer.save(tmp_path / "v")
    verify_file(tmp_path / "v", KIND)
    queries = [*GERMAN, "rotes Türschloss", "Bohrmaschinchen"]
    for other in (Vectorizer.load(tmp_path / "v"), pickle.loads(pickle.dumps(vectorizer))):
        assert other.language == other.vocabulary.language == "de"
        assert same_rows(other.transform(queries), vectorizer.transform(queries))
    loaded = Vectorizer.load(tmp_path / "v")
    assert same_rows(
        pickle.loads(pickle.dumps(loaded)).transform(queries), loaded.transform(queries)
    )


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.data())
def test_any_flipped_byte_of_stems_is_found_and_never_crashes(tmp_path_factory, data):
    saved = tmp_path_factory.getbasetemp() / "flipped"
    if not saved.exists():
        Vectorizer(language="de").fit(GERMAN).save(saved)
    file, header = saved, read_header(saved)
    entries = [entry for name, entry in header.entries.items() if name.startswith("stems")]
    entry = data.draw(st.sampled_from([entry for entry in entries if entry.n_bytes]))
    whole = file.read_bytes()
    at = header.begin + entry.offset + data.draw(st.integers(0, entry.n_bytes - 1))
    flipped = bytes([whole[at] ^ data.draw(st.integers(1, 255))])
    file.write_bytes(whole[:at] + flipped + whole[at + 1 :])
    try:
        with pytest.raises(ModelFileError, match="checksum of stems"):
            verify_file(saved, KIND)
        try:
            vectorizer = Vectorizer.load(saved)
        except ModelFileError:
            return
        rows = vectorizer.transform(GERMAN)
        assert rows.nnz == 0 or rows.indices.max() < vectorizer.n_features
    finally:
        file.write_bytes(whole)


@given(
    st.binary(min_size=16 * 8, max_size=16 * 8),
    st.integers(1, 8),
    st.lists(st.binary(max_size=64), max_size=5),
)
def test_a_table_of_noise_is_safe_to_ask(noise, n_homes, suffixes):
    data = np.frombuffer(b"".join(suffixes), np.uint8)
    offsets = np.cumsum([0, *map(len, suffixes)]).astype(np.int64)
    native = _native.Stems(np.frombuffer(noise, np.uint8), n_homes, data, offsets, None)
    texts = normalized([*GERMAN, *HOSTILE])
    found = Strings(*native.analyze(texts.data, texts.offsets, 2))
    assert len(found) == len(texts)
    assert found.lengths.max() <= 15 * 4096


def test_a_header_of_stems_that_does_not_fit_is_refused():
    stems = learn_stems(normalized(GERMAN), "de")
    header, arrays = encode(stems)
    for change in ({"language": "xx"}, {"language": None}, {"n_homes": 0}, {"n_homes": 10**9}):
        with pytest.raises(ValueError, match="must be"):
            _ = decode(Stems, {**header, **change}, arrays).native
    long = Strings.of(["x" * 65])
    with pytest.raises(ValueError, match="too long"):
        _ = Stems("de", stems.slots, 1, long).native


def test_suffixes_of_hidden_words_give_no_word_away():
    texts = normalized(["dying flies", "Geheimtürschlösser happy lying"])
    stems = learn_stems(texts, "en", np.array([True, False]))
    hidden = learn_stems(texts, "en", np.array([False, False]))
    assert set(hidden.suffixes) == {""}
    assert set(stems.suffixes) <= {"", "i", "ie"}
    assert list(stems.analyze(texts)) == list(hidden.analyze(texts)) == analyze(list(texts), "en")
    german = learn_stems(normalized(["Lampen", "Türschlösser"]), "de", np.array([True, False]))
    assert not any("rschlo" in suffix for suffix in german.suffixes)
    assert list(german.analyze(normalized(["Türschlösser"]))) == ["turschloss"]


@pytest.mark.parametrize("code", PRODUCTS)
def test_the_language_of_titles_without_function_words_is_known(code):
    assert detect_language([normalized(make_titles(code))]) == code
    assert detect_language([normalized([title.lower() for title in make_titles(code)])]) == code


@pytest.mark.parametrize("code", UNKNOWN)
def test_a_language_without_a_stemmer_is_not_taken_for_a_similar_one(code):
    assert detect_language([normalized(make_titles(code))]) is None


@pytest.mark.parametrize("others", [["fr"], ["de"], ["es", "it"], ["nl", "sv"]])
def test_a_shop_of_several_languages_has_none(others):
    parts = [normalized(make_titles(code)) for code in ("en", *others)]
    assert detect_language(parts) is None
    assert detect_language([Strings.concatenate(parts)]) is None
    some = [normalized(make_titles("de")), normalized(make_titles("en", 50))]
    assert detect_language(some) == "de"


def test_the_language_is_that_of_its_words_and_endings():
    assert detect_language([normalized(GERMAN)]) == "de"
    assert detect_language([normalized(JAPANESE)]) == "cjk"
    assert detect_language([normalized(MIXED)]) is None
    assert detect_language([normalized(ENGLISH)]) is None  # too few words
    assert detect_language([]) is None
    assert detect_language([normalized(["red"] * 1000)]) is None


@pytest.mark.parametrize("call", [choose_language, lambda name, _: ms.TrainConfig(language=name)])
def test_an_unknown_language_is_an_error(call):
    with pytest.raises(ValueError, match=r"language must be auto, none or one of en, .*; got 'xx'"):
        call("xx", [])


@pytest.mark.parametrize(
    ("titles", "language", "query", "wanted"),
    [
        (GERMAN, "de", "Gartenstuhl blau Holz", "Blaue Gartenstühle aus Holz"),
        (GERMAN, "de", "Lampe rot zum Aufhängen", "Rote Lampen zum Aufhängen"),
        (JAPANESE, "cjk", "革靴", "黒い革靴"),
        (JAPANESE, "cjk", "花瓶", "ガラスの花瓶"),
        (MIXED, None, "Rote Lampen aus Holz", "Rote Lampen aus Holz"),
    ],
)
@pytest.mark.parametrize("kind", [BM25, TitleSimilarity])
def test_catalogs_of_any_language_are_searched(kind, titles, language, query, wanted, tmp_path):
    matcher = kind.from_catalog(make_catalog(titles), language="auto")
    holder = matcher if kind is BM25 else matcher.vectorizer.vocabulary
    assert (None if holder.stems is None else holder.stems.language) == language
    assert matcher.match(query, 1)[0].title == wanted
    matcher.save(tmp_path / "m")
    loaded = kind.load(tmp_path / "m")
    assert loaded.match([query, "xyzzy", wanted]) == matcher.match([query, "xyzzy", wanted])
    assert pickle.loads(pickle.dumps(loaded)).match(query) == matcher.match(query)


def test_a_german_shop_is_trained_and_opened_in_german(tmp_path):
    matcher = train_shop(GERMAN, out=tmp_path / "m")
    assert matcher.summary.language == "de"
    loaded = ms.load(tmp_path / "m")
    asked = ["Rote Lampe aus Holz", "Türschloss", "Bohrmaschinchen", "xyzzy"]
    for each in (matcher, loaded, pickle.loads(pickle.dumps(loaded))):
        assert each.vectorizer.vocabulary.language == "de"
        assert each.match(asked) == matcher.match(asked)
    assert matcher.match(asked[0], 1)[0].title == "Rote Lampen aus Holz"
    assert (
        matcher.config.language == "auto"
    )  # what was asked for; the vocabulary has what was chosen


def train_shop(titles, out=None):
    """A match set of a shop, whose customers searched for every other title."""
    rows = range(0, len(titles), 2)
    table = {"query": [titles[row] for row in rows], "sku": [f"p{row}" for row in rows]}
    return ms.train(ms.read_log(pa.table(table)), make_catalog(titles), out=out)


@pytest.mark.parametrize(
    ("titles", "language"),
    [
        (JAPANESE_SHOP, "cjk"),
        ([*JAPANESE_SHOP, *ENGLISH_SHOP[:20]], "cjk"),
        ([*ENGLISH_SHOP, *JAPANESE_SHOP[:20:2]], "en"),
    ],
    ids=["japanese", "japanese with some english", "english with some japanese"],
)
def test_a_match_set_finds_what_is_inside_a_run_without_spaces(titles, language, tmp_path):
    matcher = train_shop(titles, out=tmp_path / "m")
    assert matcher.vectorizer.vocabulary.language == language
    lexical = matcher.part("lexical")
    for each in (matcher, lexical, ms.load(tmp_path / "m")):
        for query in ("革靴", "白い長靴", "電動", "drills", "red lamps"):
            wanted = {title for title in titles if query in title.lower()}
            # One character is resemblance: a match set need not put all of them first.
            n = len(wanted) * (1 if each is lexical else 2)
            found = each.match(query, n) if n else ()
            assert {one.title for one in found} >= wanted
            assert not found or found[0].title in wanted


def test_a_product_that_is_added_is_found_inside_a_run_without_spaces():
    added = train_shop(ENGLISH_SHOP).add(pa.table({"sku": ["n"], "title": ["紳士用革靴セット"]}))
    for each in (added, added.part("lexical")):
        assert each.match("革靴", 1).ids == ("n",)


def test_a_query_with_markup_is_the_query_without():
    queries = ["Black &amp; Decker", "Black &amp; Decker", "black & decker"]
    log = ms.read_log(pa.table({"query": queries, "sku": ["a", "a", "b"]}))
    assert list(log.queries) == ["black decker"]
    assert list(log.spellings) == ["Black & Decker"]
    vectorizer = Vectorizer().fit(log.queries)
    assert same_rows(
        vectorizer.transform(["<b>black</b>&nbsp;decker"]), vectorizer.transform(log.queries)
    )


@pytest.mark.parametrize("threads", [1, 2, 7])
def test_words_are_listed_and_counted_the_same_with_any_number_of_threads(threads):
    rng = np.random.default_rng(1)
    numbers = enumerate(rng.integers(0, 999, (9000, 2)))
    texts = [f"{'the ' * (i % 3)}w{a:x} 椅子{b}" for i, (a, b) in numbers]
    shown = rng.random(len(texts)) < 0.1
    packed = Strings.of(texts)
    words = [word for text in texts for word in text.split()]
    found, marks = _native.list_words(packed.data, packed.offsets, threads, shown.view(np.uint8))
    listed = list(dict.fromkeys(word.removeprefix("椅子") for word in words))
    public = {w.removeprefix("椅子") for row in np.flatnonzero(shown) for w in texts[row].split()}
    assert list(Strings(*found)) == listed
    assert marks.tolist() == [word in public for word in listed]
    wanted = ["the", "none", "w1", "-e", "-1f", "-f", "-子7", "-子77", "-17"]
    counts, n_words, n_unspaced = _native.count_words(
        (packed.data, packed.offsets), pack(wanted), threads
    )
    found = Counter(find_sign(word, wanted) for word in words)
    assert counts.tolist() == [found[sign] for sign in wanted]
    assert found["-1f"] > 0 < found["-子77"]
    assert found["-e"] > 0 == found["none"]
    assert (n_words, n_unspaced) == (len(words), len(texts))


def pack(texts):
    packed = Strings.of(texts)
    return packed.data, packed.offsets


def find_sign(word, wanted):
    """The word itself among the wanted, or else its longest ending behind two bytes or more."""
    endings = (f"-{word[i:]}" for i in range(len(word)) if len(word[:i].encode()) >= 2)
    return next((sign for sign in (word, *endings) if sign in wanted), None)

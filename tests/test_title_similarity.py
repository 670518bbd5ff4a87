"""Title similarity finds titles by their n-grams, new products included."""

import json

import numpy as np
import pytest
from bookshelf import IDS, QUERIES, TITLES, make_catalog
from contract import CHECKS, Subject, name_of

from matchset.config import NGrams, VectorizerConfig
from matchset.errors import ModelFileError
from matchset.features.vectorizer import Vectorizer
from matchset.matchers.title_similarity import TitleSimilarity


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("titles") / "matcher"
    TitleSimilarity.from_catalog(make_catalog()).save(folder)
    return folder


@pytest.mark.parametrize("check", CHECKS, ids=name_of)
@pytest.mark.parametrize("is_loaded", [False, True], ids=["learned", "loaded"])
def test_title_similarity_keeps_the_contract(check, is_loaded, saved):
    matcher = (
        TitleSimilarity.load(saved) if is_loaded else TitleSimilarity.from_catalog(make_catalog())
    )
    check(Subject(matcher, QUERIES, IDS))


def test_scores_are_cosines_of_query_and_title():
    vectorizer = Vectorizer()
    titles = vectorizer.fit_transform(TITLES).toarray()
    for match in TitleSimilarity.from_catalog(make_catalog()).match(QUERIES, k=10):
        cosines = titles @ vectorizer.transform([match.query]).toarray()[0]
        wanted = [IDS[i] for i in np.argsort(-cosines, kind="stable") if cosines[i] > 0]
        assert list(match.ids) == wanted
        np.testing.assert_allclose(match.scores, np.sort(cosines[cosines > 0])[::-1], rtol=1e-5)


def test_a_title_is_the_best_answer_to_itself():
    matcher = TitleSimilarity.from_catalog(make_catalog())
    for product, title in zip(IDS, TITLES, strict=True):
        if title:
            assert matcher.match(title, k=1).ids == (product,)
            assert matcher.match(title, k=1).scores[0] == pytest.approx(1.0, abs=1e-5)


def test_misspelled_words_are_found_by_their_characters():
    assert TitleSimilarity.from_catalog(make_catalog()).match("bouqet", k=1).ids == ("p1",)


def test_a_filter_is_filled_from_allowed_products():
    matcher = TitleSimilarity.from_catalog(make_catalog())
    assert matcher.match("red rose", k=2, where="price < 8").ids == ("p4", "p3")
    assert matcher.match("red rose", where="colour = 'white'").ids == ("p1",)


def test_other_ngrams_can_be_chosen():
    words = VectorizerConfig(ngrams=(NGrams("word", 1, limit=1000),))
    matcher = TitleSimilarity.from_catalog(make_catalog(), words)
    assert set(matcher.match("vase").ids) == {"p1", "p6"}
    assert len(matcher.match("bouqet")) == 0


def test_a_saved_matcher_answers_alike(saved):
    matcher = TitleSimilarity.from_catalog(make_catalog())
    loaded = TitleSimilarity.load(saved)
    assert loaded.match([*QUERIES, ""]) == matcher.match([*QUERIES, ""])
    assert loaded.match("vase").titles == matcher.match("vase").titles
    assert loaded.match("vase", where="price > 8") == matcher.match("vase", where="price > 8")
    with pytest.raises(FileExistsError):
        matcher.save(saved)


@pytest.mark.parametrize("fault", ["width", "missing", "type"])
def test_a_damaged_folder_is_an_error_that_names_it(fault, tmp_path):
    TitleSimilarity.from_catalog(make_catalog()).save(tmp_path / "matcher")
    file = tmp_path / "matcher" / "manifest.json"
    manifest = json.loads(file.read_text())
    if fault == "width":
        manifest["header"]["sections"]["postings"]["n_documents"] = 3
    elif fault == "missing":
        del manifest["arrays"]["postings.weights"]
    else:
        manifest["arrays"]["postings.weights"]["dtype"] = "<i4"
    file.write_text(json.dumps(manifest))
    with pytest.raises(ModelFileError, match="damaged"):
        TitleSimilarity.load(tmp_path / "matcher")


def test_a_catalog_without_titles_gives_nothing():
    catalog = make_catalog()
    empty = type(catalog)(catalog.ids, catalog.titles.take(np.full(7, 5)))
    assert len(TitleSimilarity.from_catalog(empty).match("rose")) == 0

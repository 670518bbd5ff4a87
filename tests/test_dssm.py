"""DSSM learns which titles lie near a query, and keeps the contract."""

import shutil
from dataclasses import replace

import numpy as np
import pytest
from bookshelf import IDS, QUERIES, RELEVANT, TITLES, make_catalog
from contract import CHECKS, Subject, name_of
from stored import damage_array, forge
from towers import CONFIG, make_log, train_small

import matchset as ms
from matchset.baselines import BM25, TitleSimilarity
from matchset.errors import DataError, ModelFileError
from matchset.lab import DSSM, DSSMConfig
from matchset.lab.dssm.exact import find_nearest
from matchset.strings import Strings

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def matcher():
    return train_small()


@pytest.fixture(scope="module")
def saved(tmp_path_factory, matcher):
    folder = tmp_path_factory.mktemp("dssm") / "matcher"
    matcher.save(folder)
    return folder


@pytest.mark.parametrize("check", CHECKS, ids=name_of)
@pytest.mark.parametrize("is_loaded", [False, True], ids=["learned", "loaded"])
def test_dssm_keeps_the_contract(check, is_loaded, matcher, saved):
    check(Subject(DSSM.load(saved) if is_loaded else matcher, QUERIES, IDS))


def test_a_training_query_gets_its_own_products_first(matcher):
    for query, counts in RELEVANT.items():
        wanted = {IDS[i] for i in counts if TITLES[i]}
        assert set(matcher.match(query, k=len(wanted)).ids) == wanted


def test_scores_are_cosines_of_what_encode_gives(matcher):
    titles = matcher.encode(TITLES)
    for match in matcher.match(QUERIES):
        cosines = titles @ matcher.encode([match.query])[0]
        labels = [IDS.index(product) for product in match.ids]
        np.testing.assert_allclose(match.scores, cosines[labels], atol=1e-6)


def test_search_of_encoded_queries_is_match(matcher):
    found = matcher.search(matcher.encode(QUERIES), 3)
    matches = matcher.match(QUERIES, 3)
    assert found.indices.tolist() == matches.found.indices.tolist()
    assert found.data.tolist() == matches.found.data.tolist()


def test_vectors_have_unit_length_or_none_for_what_is_unknown(matcher):
    vectors = matcher.encode([*QUERIES, "", "xyz qqq"])
    norms = np.linalg.norm(vectors, axis=1)
    np.testing.assert_allclose(norms, [1, 1, 1, 0, 0], atol=1e-6)
    assert len(matcher.match("xyz qqq")) == 0
    assert matcher.encode([]).shape == (0, 32)


def test_a_text_has_the_same_vector_alone_and_among_others(matcher):
    together = matcher.encode([*QUERIES, *TITLES])
    alone = [matcher.encode([text])[0] for text in (*QUERIES, *TITLES)]
    np.testing.assert_array_equal(together, alone)


def test_the_numpy_tower_gives_what_the_network_gives():
    import torch

    from matchset.lab.dssm.batches import prepare_training_data, take_rows
    from matchset.lab.dssm.network import Network
    from matchset.lab.dssm.space import pool_rows

    data = prepare_training_data(make_log(), make_catalog(), CONFIG, threads=1)
    network = Network(data.vectorizer.n_features, 16, seed=3)
    titles = data.examples.titles
    ids, starts = take_rows(titles, np.flatnonzero(np.diff(titles.indptr)))
    bags = torch.from_numpy(ids), torch.from_numpy(starts[:-1])
    with torch.no_grad():
        for _ in range(5):  # batch normalization learns its statistics
            network.embed(network.table * 2 + 1, *bags)
        network.norm.weight.uniform_(0.5, 2)
        network.norm.bias.uniform_(-1, 1)
        network.norm.eval()
        wanted = network.embed(network.table, *bags).numpy()
    found = pool_rows(titles.to_scipy(), *network.fold())
    np.testing.assert_allclose(found[found.any(axis=1)], wanted, atol=1e-6)


def test_the_same_seed_gives_the_same_bytes_and_another_does_not():
    few = replace(CONFIG, epochs=3)
    first, again = train_small(few).space, train_small(few).space
    other = train_small(replace(few, seed=1)).space
    np.testing.assert_array_equal(first.tower.embeddings, again.tower.embeddings)
    np.testing.assert_array_equal(first.vectors, again.vectors)
    assert not np.array_equal(first.vectors, other.vectors)


def test_it_finds_more_than_title_similarity_and_products_never_bought():
    shop = ms.lab.simulate_shop(products=600, queries=1500)
    train, test = ms.split_by_time(shop.log, test_days=30)
    steps = []
    config = DSSMConfig(device="cpu", dimensions=64, epochs=6, batch_size=256)
    matcher = ms.lab.train_dssm(train, shop.catalog, config, progress=steps.append)
    lexical = TitleSimilarity.from_catalog(shop.catalog)
    found, floor = (ms.evaluate(m, test, train=train) for m in (matcher, lexical))
    assert found.recall(10) > floor.recall(10)
    assert [step.stage for step in steps[:2]] == ["read", "vectorize"]
    assert {step.stage for step in steps[2:]} == {"fit", "encode"}
    summary = matcher.provenance["summary"]
    assert max(summary["validation_recall"]) == summary["validation_recall"][summary["epochs"] - 1]


def test_training_ends_when_recall_no_longer_grows():
    relevant = {f"rose {n}": {0: 1, 1: 1} for n in range(40)}  # found at once: nothing to gain
    config = replace(CONFIG, epochs=20, patience=2, validation_share=0.2)
    matcher = ms.lab.train_dssm(make_log(relevant), make_catalog(), config)
    assert len(matcher.provenance["summary"]["validation_recall"]) == 3


def test_no_epoch_starts_after_the_time_limit():
    matcher = train_small(replace(CONFIG, time_limit=1e-9))
    assert matcher.provenance["summary"]["epochs"] == 1


def test_it_knows_what_it_was_trained_on(matcher, saved):
    for one in (matcher, DSSM.load(saved)):
        assert one.training.is_seen(Strings.of(["Red Rose", "blue rose"])).tolist() == [True, False]
        assert one.training.is_warm(Strings.of(["p0", "nothing"])).tolist() == [True, False]


def test_a_saved_matcher_answers_alike(matcher, saved):
    loaded = DSSM.load(saved)
    assert loaded.match([*QUERIES, "zebra"]) == matcher.match([*QUERIES, "zebra"])
    assert loaded.match("vase", where="price > 8") == matcher.match("vase", where="price > 8")
    assert loaded.config == matcher.config
    assert loaded.provenance["summary"]["pairs"] == matcher.provenance["summary"]["pairs"]
    with pytest.raises(ModelFileError, match="holds a 'dssm' matcher; expected a 'bm25'"):
        BM25.load(saved)


@pytest.mark.parametrize("name", ["space.tower.embeddings", "space.tower.shift", "space.vectors"])
def test_a_damaged_file_is_an_error_that_names_the_array(name, saved, tmp_path):
    file = shutil.copy(saved, tmp_path / "copy")
    forge(file, lambda _, arrays: arrays.update({name: arrays[name][:-1]}))
    with pytest.raises(ModelFileError, match=f"damaged: {name.rpartition('.')[0]}"):
        DSSM.load(file)
    shutil.copy(saved, file)
    damage_array(file, name)
    with pytest.raises(ModelFileError, match=f"checksum of {name}"):
        ms.verify(file)


def test_a_training_can_be_cancelled_and_saves_nothing(tmp_path):
    def stop(step):
        if step.stage == "fit":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_small(out=tmp_path / "model", progress=stop)
    assert list(tmp_path.iterdir()) == []
    train_small(replace(CONFIG, epochs=1), out=tmp_path / "model")
    assert len(DSSM.load(tmp_path / "model").match("rose")) == 6


def test_a_log_without_a_pair_to_learn_from_is_an_error():
    with pytest.raises(DataError, match="must have a positive pair with a title"):
        ms.lab.train_dssm(make_log({"soil": {5: 1}}), make_catalog(), CONFIG)


@pytest.mark.parametrize("share", [0.1, 0.7, 1.0])
@pytest.mark.parametrize("k", [1, 7, 50, 500])
def test_nearest_are_those_of_a_plain_sort(k, share):
    rng = np.random.default_rng(0)
    vectors = rng.integers(-2, 3, (300, 8)).astype(np.float32)  # many ties
    vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1)
    labels = np.flatnonzero(rng.random(300) < share).astype(np.int32)
    queries = vectors[:20]
    found = find_nearest(vectors, queries, k, labels=labels)
    for row, query in enumerate(queries):
        cosines = np.einsum("ij,j->i", vectors[labels], query)
        wanted = labels[np.lexsort([labels, -cosines])][: k if query.any() else 0]
        assert found.indices[slice(*found.indptr[row : row + 2])].tolist() == wanted.tolist()

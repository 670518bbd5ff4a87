"""A server of one match set: its parts by name, least scores, attributes of products."""

import json

import numpy as np
import pytest
from serving import ask, serving, working

import matchset as ms
from matchset.matchers.match import Hit
from matchset.serve.loaded_model import LoadedModel, ModelVersion, open_matchers
from matchset.serve.request_errors import RequestError

PARTS = ("tree", "towers", "lexical", "neighbors")
QUERY = "sofa bed"


@pytest.fixture(scope="module")
def server(served_shop):
    with serving(served_shop, "--also", served_shop / "bm25", model="set", workers=1) as running:
        yield running


@pytest.fixture(scope="module")
def whole(served_shop):
    return ms.load(served_shop / "set")


def ids_of(reply):
    return [one["id"] for one in reply.json["products"]]


def test_a_match_set_answers_unless_a_part_is_asked_for(server, whole):
    assert ids_of(server.match(QUERY, k=9)) == list(whole.match(QUERY, 9).ids)
    for name in PARTS:
        found = server.match(QUERY, k=9, matcher=name, where="price > 10")
        assert found.json["matcher"] == name
        assert ids_of(found) == list(whole.part(name).match(QUERY, 9, where="price > 10").ids)


@pytest.mark.parametrize("k", [1, 30, 10**6])
@pytest.mark.parametrize(
    "query", [QUERY, "", "zzqx", 'so"fa\\\n bed', "sofá 🛋 bed", "\x00 sofa", "s" * 5000]
)
def test_an_answer_that_is_made_natively_is_that_of_match(whole, query, k):
    found = whole.match(query, k)
    for titles in (True, False):
        answer_query = whole.prepare_answer(k, titles=titles)
        body, n_products, microseconds, ids = answer_query(b'{"a":1,', query, True)
        answer = json.loads(body)
        assert (answer["a"], answer["query"], n_products) == (1, query, len(found))
        assert answer["microseconds"] == microseconds >= 0
        assert json.loads(ids) == list(found.ids)
        hits = [
            Hit(one["id"], np.float32(one["score"]), one.get("title")) for one in answer["products"]
        ]
        assert hits == [hit if titles else hit._replace(title=None) for hit in found]


def test_answers_are_prepared_for_usual_options_alone(server):
    """Others take another way, with the same products."""
    usual = server.match(QUERY, k=20).json["products"]
    assert usual == server.match(QUERY, k=20, min_score=0).json["products"]
    assert usual == server.match(QUERY, k=20, where="price >= 0").json["products"]
    named = server.match(QUERY, k=20, attributes="price").json["products"]
    assert [one | {"attributes": None} for one in usual] == [
        one | {"attributes": None} for one in named
    ]
    assert server.match(QUERY, k=500).json["products"][:20] == usual
    assert "title" not in server.match(QUERY, k=20, titles="false").json["products"][0]


def test_the_model_lists_the_parts_behind_the_folders(server):
    listed = server.call("/v1/model").json["matchers"]
    assert [one["name"] for one in listed] == ["match_set", "bm25", *PARTS]
    assert [one["part_of"] for one in listed] == [None, None, *["match_set"] * len(PARTS)]
    assert {one["name"] for one in listed if one["has_beam"]} == {"match_set", "tree"}


def test_a_beam_is_for_the_tree_and_ignored_by_the_others(server, whole):
    narrow = whole.match(QUERY, 50, beam=1)
    assert ids_of(server.match(QUERY, k=50, beam=1)) == list(narrow.ids)
    for name in ("towers", "lexical", "neighbors", "bm25"):
        alone = server.match(QUERY, k=9, matcher=name)
        assert ids_of(server.match(QUERY, k=9, matcher=name, beam=1)) == ids_of(alone)


def test_least_scores_cut_answers_of_both_methods(server, whole):
    scores = whole.match(QUERY, 50).scores
    assert scores[0] > scores[10]
    for cut in ({"min_score": float(scores[10])}, {"min_relative": float(scores[3] / scores[0])}):
        expected = list(whole.match(QUERY, 50, **cut).ids)
        assert 0 < len(expected) < 50
        assert ids_of(server.match(QUERY, k=50, **cut)) == expected
        sent = {"queries": [QUERY, ""], "k": 50, **cut}
        first, empty = server.post("/v1/match", sent).json["results"]
        assert [one["id"] for one in first["products"]] == expected
        assert empty["products"] == []
        with ms.Client(server.address) as client:
            assert client.match(QUERY, 50, **cut) == whole.match(QUERY, 50, **cut)
            assert client.match([QUERY], 50, **cut) == whole.match([QUERY], 50, **cut)
    assert ids_of(server.match(QUERY, min_score=1.01)) == []
    for shown in server.match(QUERY, k=5).json["products"]:  # as one copies it from an answer
        assert shown["id"] in ids_of(server.match(QUERY, min_score=shown["score"]))


def test_a_client_has_the_errors_of_a_local_matcher(server, whole):
    for matcher in (whole, ms.Client(server.address)):
        with pytest.raises(ValueError, match="min_relative must be from 0 to 1; got 2"):
            matcher.match(QUERY, min_relative=2)
        with pytest.raises(ValueError, match="min_score must be a number; got nan"):
            matcher.match(QUERY, min_score=float("nan"))


def test_a_least_score_cuts_our_part_of_a_fusion_alone(server, whole):
    theirs = ["unknown-1", "unknown-2"]
    least = float(whole.match(QUERY, 3).scores[2])
    sent = {"queries": [QUERY], "candidates": [theirs], "fusion": {"method": "append"}}
    products = server.post("/v1/match", {**sent, "min_score": least}).json["results"][0]["products"]
    assert [one["id"] for one in products] == [*theirs, *whole.match(QUERY, min_score=least).ids]
    assert len(products) == 5
    products = server.post("/v1/match", {**sent, "min_score": 1.01}).json["results"][0]["products"]
    assert [one["id"] for one in products] == theirs


def test_products_come_with_the_attributes_that_are_asked_for(server, whole):
    names = ["brand", "price", "fast_delivery", "launched"]
    asked = server.match(QUERY, k=5, attributes=",".join(names)).json["products"]
    sent = {"queries": [QUERY], "k": 5, "attributes": names, "candidates": [["unknown"]]}
    fused = server.post("/v1/match", sent).json["results"][0]["products"]
    shown = {one["id"]: one["attributes"] for one in fused}
    assert shown.pop("unknown") == {}
    for one in asked:
        label = int(whole.products.index_of([one["id"]])[0])
        price = whole.products.attributes["price"].values[label]
        assert one["attributes"]["price"] == pytest.approx(price)
        assert isinstance(one["attributes"]["brand"], str)
        assert isinstance(one["attributes"]["fast_delivery"], bool)
        assert len(one["attributes"]["launched"]) == len("2026-11-16")
        assert one["attributes"] == shown.get(one["id"], one["attributes"])
    reply = server.match(QUERY, attributes="prize")
    assert (reply.code, reply.json["error"]["parameter"]) == ("bad_parameter", "attributes")


def test_parts_share_the_arrays_of_their_match_set(served_shop):
    matchers = open_matchers([served_shop / "set"])
    whole = matchers["match_set"]
    for name in PARTS:
        assert matchers[name].products is whole.products
    assert np.shares_memory(matchers["towers"].model.towers.row_of, whole.model.towers.row_of)


def test_a_new_version_may_have_other_parts(served_shop, folder):
    with working(served_shop / "set") as worker:
        asked = b"q=sofa&matcher=towers&k=3"
        assert ask(worker, "/v1/match", asked)[0] == 200
        matchers = {name: worker.model.matchers[name] for name in ("match_set", "tree")}
        model = LoadedModel(ModelVersion(2, "v2"), matchers, None)
        with pytest.raises(RequestError, match="must be one of match_set, tree; got 'towers'"):
            model.find("towers")
        worker.model = model
        status, answer = ask(worker, "/v1/match", asked)
        assert (status, answer["error"]["code"]) == (400, "unknown_matcher")


def test_a_product_is_explained_by_the_shares_of_the_parts(server, whole):
    first, *_, last = whole.match(QUERY, 9).ids
    sent = {"query": QUERY, "product": first, "k": 9}
    reasons = server.post("/v1/explain", sent).json
    assert (reasons["rank"], reasons["is_returned"]) == (1, True)
    assert {*PARTS, "popularity"} <= {part["name"] for part in reasons["parts"]}
    shares = sum(part["share"] for part in reasons["parts"])
    assert shares == pytest.approx(reasons["linear"], abs=1e-3)
    with ms.Client(server.address) as client:
        assert client.explain(QUERY, first, k=9) == whole.explain(QUERY, first, k=9)
    cut = {**sent, "product": last, "min_relative": 1.0}
    reasons = server.post("/v1/explain", cut).json
    assert not reasons["is_returned"]
    assert reasons["verdict"] == "rank 9, but its score is too low"
    alone = server.post("/v1/explain", {**sent, "matcher": "lexical"}).json
    assert alone["parts"][0]["name"] == "lexical"
    reply = server.post("/v1/explain", {**sent, "matcher": "bm25"})
    assert (reply.status, reply.code) == (404, "cannot_explain")

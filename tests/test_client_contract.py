"""A client of a real server keeps the contract, with the same results as the model."""

import os
import re
import subprocess

import pytest
from contract import (
    CHECKS,
    Subject,
    a_filter_can_be_an_array_or_used_again,
    a_filter_of_other_products_is_an_error,
    name_of,
)
from serving import COMMAND, KEY, make_shop, serving

import matchset as ms
from matchset.baselines import BM25
from matchset.errors import FilterError, ServerError

# The order of a server's products is not known here; test_client.py tests what then holds.
NOT_FROM_AFAR = {
    a_filter_can_be_an_array_or_used_again,
    a_filter_of_other_products_is_an_error,
}
QUERIES = ["sofa", "running shoes", "red"]
STRANGE = ["", "\x00", "\ud800", "a" * 512, "ß" * 300, "<script>", "%00&k=3", "\u202e", "🌹" * 200]


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    return make_shop(tmp_path_factory.mktemp("shop"))


@pytest.fixture(scope="module")
def local(shop):
    return ms.load(shop / "model")


@pytest.fixture(scope="module")
def address(shop):
    with serving(shop, "--also", shop / "bm25") as server:
        yield server.address


@pytest.fixture(scope="module")
def client(address):
    with ms.Client(address) as client:
        yield client


@pytest.mark.parametrize("check", [c for c in CHECKS if c not in NOT_FROM_AFAR], ids=name_of)
def test_a_client_keeps_the_contract(client, local, check):
    check(Subject(client, QUERIES, list(local.products.ids)))


def test_answers_are_those_of_the_model(client, local):
    queries = [*QUERIES, *STRANGE] * 50  # more than a request may have
    for options in ({}, {"k": 7, "beam": 3}, {"k": 300, "where": "price < 50 and stock > 0"}):
        assert client.match(queries, **options) == local.match(queries, **options)
        for query in QUERIES:
            found = client.match(query, **options)
            assert found == local.match(query, **options)
            assert found.titles == local.match(query, **options).titles
    assert client.match("sofa", where="price < 0").titles == ()  # as of a local match


def test_a_filter_that_is_used_again_goes_as_its_ids(client, local):
    cheap = local.filter("price < 50")
    assert client.match(QUERIES, where=cheap) == local.match(QUERIES, where=cheap)


def test_reasons_are_those_of_the_model(client, local):
    for product in local.match("sofa").ids[:2]:
        assert client.explain("sofa", product, k=20) == local.explain("sofa", product, k=20)
    assert client.explain("sofa", product, beam=1) == local.explain("sofa", product, beam=1)
    dear = local.explain("sofa", product, where="price > 1000000")
    assert client.explain("sofa", product, where="price > 1000000") == dear
    assert dear != local.explain("sofa", product)
    with pytest.raises(ValueError, match="product must be one of"):
        client.explain("sofa", "a product that is not there")


def test_a_model_tells_of_itself(client, local):
    model = client.model()
    assert model["products"] == len(local.products)
    assert {one["name"] for one in model["attributes"]} == set(local.products.attributes)


@pytest.mark.parametrize("where", ["", "price <", "prize < 3", "price < 'a'", "stock > 0; drop"])
def test_a_bad_filter_is_the_same_error_as_at_home(client, local, where):
    with pytest.raises(FilterError) as at_home:
        local.match("sofa", where=where)
    with pytest.raises(FilterError) as from_afar:
        client.match("sofa", where=where)
    assert str(from_afar.value) == str(at_home.value)


def test_what_is_beyond_a_limit_is_a_value_error_with_the_sentence_of_the_server(client):
    with pytest.raises(ValueError, match="must have at most 512 characters; got 513"):
        client.match("a" * 513)
    with pytest.raises(ValueError, match="beam must be at most 200; got 201"):
        client.match("sofa", beam=201)


def test_another_matcher_of_the_server_can_be_asked(address, shop):
    with ms.Client(address, matcher="bm25", titles=False) as bm25:
        found = bm25.match("sofa")
    assert found == BM25.load(shop / "bm25").match("sofa")
    assert found.titles is None
    with (
        ms.Client(address, matcher="oracle") as oracle,
        pytest.raises(ValueError, match=r"matcher must be one of .*; got 'oracle'"),
    ):
        oracle.match("sofa")


def test_a_key_opens_a_server(shop, local):
    keys = shop / "keys"
    with serving(shop, "--api-key-file", keys, workers=1) as server:
        address = server.address
        with ms.Client(address, api_key=KEY) as client:
            assert client.match("sofa") == local.match("sofa")
        for wrong in (None, "another-key-of-the-shop"):
            with (
                ms.Client(address, api_key=wrong) as stranger,
                pytest.raises(ServerError, match="key") as caught,
            ):
                stranger.match("sofa")
            assert caught.value.status == 401
        said = evaluate(address, shop / "log.parquet", "--api-key-file", keys, "--sample", 20)
        assert "Recall" in said.stdout


def evaluate(*arguments):
    command = [COMMAND, "evaluate", *map(str, arguments)]
    environment = {**os.environ, "COLUMNS": "200", "NO_COLOR": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return done


def test_a_running_server_has_the_recall_of_its_model(address, shop, client, local):
    test = ms.read_log(str(shop / "log.parquet"))
    at_home, from_afar = ms.evaluate(local, test), ms.evaluate(client, test)
    for k in (10, 50, 100):
        assert from_afar.score("recall", k).value == at_home.score("recall", k).value
        assert from_afar.score("ndcg", k).value == at_home.score("ndcg", k).value
    segments = {score.segment for score in from_afar.scores}
    assert segments == {"all", "head query", "tail query", "rare query"}
    # A server does not list its catalog, so coverage is unknown rather than wrong.
    assert not {s.metric for s in from_afar.scores} - {s.metric for s in at_home.scores}
    coverage = [score.value for score in from_afar.scores if score.metric == "coverage"]
    assert all(value != value for value in coverage)


def recalls(table):
    """Every recall with its margin, of all queries and by traffic."""
    lines = [line for line in table.splitlines() if "│ Recall " in line or "by traffic" in line]
    return [re.findall(r"[\d.]+ ±[\d.]+|(?<=│ )[\d.]+(?= )", line) for line in lines]


def test_the_command_evaluates_a_running_server(address, shop):
    log = shop / "log.parquet"
    from_afar = evaluate(address, log, "--sample", 200)
    assert "Give its training log: --train LOG" in " ".join(from_afar.stderr.split())
    at_home = evaluate(shop / "model", log, "--sample", 200)
    assert recalls(from_afar.stdout) == recalls(at_home.stdout) != []
    with_training = evaluate(address, log, "--sample", 200, "--train", log)
    assert "warm product" in with_training.stdout
    assert "is it the log that the model was trained on?" in with_training.stderr


def test_unknown_ids_of_a_filter_are_named(client, shop, caplog):
    known = ms.load(shop / "model").products.ids[0]
    client.match("sofa", where=[known, "nobody", "nothing"])
    assert "does not know these ids in `where`: nobody, nothing" in caplog.text

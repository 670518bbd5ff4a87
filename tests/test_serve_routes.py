"""Every path of a running server, and every error."""

import json
import re
from unittest.mock import ANY
from urllib.parse import quote, urlencode

import msgspec
import pytest
from serving import HOSTILE, eventually, serving

import matchset as ms
from matchset.baselines import BM25, TitleSimilarity
from matchset.data.positives import relevance
from matchset.serve.endpoints import ENDPOINTS
from matchset.serve.request_errors import CODES
from matchset.serve.response_schemas import Error


@pytest.fixture(scope="module")
def server(served_shop):
    also = ["--also", served_shop / "bm25", "--also", served_shop / "titles"]
    with serving(served_shop, *also, "--log", served_shop / "log.parquet") as running:
        yield running


@pytest.fixture(scope="module")
def matcher(served_shop):
    return ms.load(served_shop / "model")


def as_dicts(match):
    return [{"id": hit.id, "score": hit.score, "title": hit.title} for hit in match]


def rounded(products):
    return [{**one, "score": pytest.approx(one["score"], rel=1e-6)} for one in products]


def test_a_query_gets_what_the_model_gives(server, matcher):
    reply = server.match("sofa", k=7)
    assert reply.status == 200
    assert reply.headers["content-type"] == "application/json"
    found = reply.json
    assert set(found) == {"model_version", "matcher", "query", "microseconds", "products"}
    assert (found["query"], found["matcher"]) == ("sofa", "xr_linear")
    assert rounded(found["products"]) == as_dicts(matcher.match("sofa", k=7))
    assert found["model_version"] == reply.headers["x-model-version"]


def test_options_are_followed(server, matcher):
    found = server.match("sofa", k=5, beam=1, where="price < 500", titles="false").json
    expected = matcher.match("sofa", k=5, beam=1, where="price < 500")
    assert [one["id"] for one in found["products"]] == list(expected.ids)
    assert all("title" not in one for one in found["products"])


def test_a_batch_equals_one_by_one(server):
    queries = ["sofa", "", "red dress", "zzzzzz"]
    reply = server.post("/v1/match", {"queries": queries, "k": 3})
    assert reply.status == 200
    assert [one["query"] for one in reply.json["results"]] == queries
    for query, result in zip(queries, reply.json["results"], strict=True):
        assert result["products"] == server.match(query, k=3).json["products"]
    assert server.post("/v1/match", {"queries": []}).json["results"] == []


@pytest.mark.parametrize("name", ["bm25", "title_similarity"])
def test_other_matchers_answer_too(server, served_shop, name):
    folder = {"bm25": BM25, "title_similarity": TitleSimilarity}[name]
    alone = folder.load(served_shop / ("bm25" if name == "bm25" else "titles"))
    found = server.match("sofa bed", k=4, matcher=name, where="price > 10").json
    assert found["matcher"] == name
    expected = alone.match("sofa bed", k=4, where="price > 10")
    assert [one["id"] for one in found["products"]] == list(expected.ids)


def test_a_saved_fusion_is_served_with_ranks(served_shop, tmp_path):
    parts = [ms.load(served_shop / name) for name in ("model", "bm25")]
    fusion = ms.Fusion(parts, "weighted", weights=[2, 1])
    fusion.save(tmp_path / "fusion")
    with serving(served_shop, "--also", tmp_path / "fusion") as running:
        found = running.match("sofa bed", k=5, matcher="fusion").json
        theirs = ms.Client(running.address, matcher="fusion").match("sofa bed", k=5)
    expected = fusion.match("sofa bed", k=5)
    assert [one["ranks"] for one in found["products"]] == list(expected.ranks)
    assert (theirs.ids, theirs.titles) == (expected.ids, expected.titles)


def test_a_matcher_of_any_kind_can_be_the_model(served_shop):
    alone = ms.load(served_shop / "bm25")
    with serving(served_shop, model="bm25", workers=1) as running:
        found = running.match("sofa bed", k=4).json
        assert found["matcher"] == "bm25"
        assert [one["id"] for one in found["products"]] == list(alone.match("sofa bed", 4).ids)
        asked = {"query": "sofa", "product": alone.products.ids[0]}
        reply = running.post("/v1/explain", asked)
        assert (reply.status, reply.code) == (404, "cannot_explain")
        described = running.call("/v1/model").json["matchers"]
    assert described == [
        {
            "name": "bm25",
            "label": "BM25",
            "part_of": None,
            "can_explain": False,
            "has_beam": False,
        }
    ]


def test_candidates_of_the_caller_are_fused(server, matcher):
    ours = matcher.match("sofa", k=100)
    theirs = ["unknown-1", ours.ids[5], "unknown-2"]
    asked = {"queries": ["sofa"], "k": 10, "candidates": [theirs]}
    products = server.post("/v1/match", asked).json["results"][0]["products"]
    best = products[0]
    assert (best["id"], best["ranks"]) == (ours.ids[5], {"candidates": 2, "xr_linear": 6})
    assert best["title"] == ours.titles[5]
    unknown = next(one for one in products if one["id"] == "unknown-1")
    assert unknown["ranks"] == {"candidates": 1}
    assert "title" not in unknown


def test_candidates_keep_their_order_when_ours_are_appended(server, matcher):
    ours = list(matcher.match("sofa", k=100).ids)
    theirs = ["x", ours[3], "y"]
    asked = {"queries": ["sofa"], "k": 6, "candidates": [theirs], "fusion": {"method": "append"}}
    products = server.post("/v1/match", asked).json["results"][0]["products"]
    assert [one["id"] for one in products] == [*theirs, *ours[:3]]


def test_a_candidate_that_we_know_has_its_title(server, matcher):
    product = matcher.products.ids[200]
    asked = {"queries": [""], "candidates": [[product]]}
    (found,) = server.post("/v1/match", asked).json["results"][0]["products"]
    assert found["title"] == matcher.products.titles[200]


@pytest.mark.parametrize(
    ("by", "kept"),
    [("expression", ["new", "cheap"]), ("cheap", ["cheap"]), ("cheap new", ["new", "cheap"])],
)
def test_candidates_are_filtered_like_our_own_products(server, matcher, by, kept):
    names = {"new": "not-in-the-model"}
    for name, where in (("dear", "price > 30"), ("cheap", "price <= 30")):
        names[name] = matcher.match("sofa", k=1, where=where).ids[0]
    where = "price <= 30" if by == "expression" else [names[name] for name in by.split()]
    theirs = [names[name] for name in ("dear", "new", "cheap")]
    asked = {"queries": ["sofa"], "k": 1000, "candidates": [theirs], "where": where}
    products = server.post("/v1/match", asked).json["results"][0]["products"]
    ranks = {one["id"]: one["ranks"].get("candidates") for one in products}
    assert [ranks.get(names[name]) for name in kept] == list(range(1, len(kept) + 1))
    assert names["dear"] not in ranks


def test_a_product_is_explained(server, matcher):
    best, *_, last = matcher.match("sofa", k=5).ids
    reply = server.post("/v1/explain", {"query": "sofa", "product": best, "k": 4})
    reasons = reply.json
    assert (reasons["rank"], reasons["is_returned"]) == (1, True)
    assert reasons["steps"][-1]["name"] == reasons["title"]
    assert "sofa" in [word["word"] for word in reasons["steps"][0]["words"]]
    lost = server.post("/v1/explain", {"query": "sofa", "product": last, "k": 4}).json
    assert (lost["rank"], lost["is_returned"]) == (None, False)
    assert not lost["steps"][-1]["is_kept"]
    kept_out = {"query": "sofa", "product": best, "where": "price < 0"}
    filtered = server.post("/v1/explain", kept_out).json
    assert (filtered["is_allowed"], filtered["is_returned"]) == (False, False)


def test_the_model_is_described(server, matcher):
    model = server.call("/v1/model").json
    assert [one["name"] for one in model["matchers"]] == ["xr_linear", "bm25", "title_similarity"]
    assert model["products"] == len(matcher.products)
    assert {"name": "price", "type": "number"} in model["attributes"]
    assert model["limits"]["k"] == 1000
    assert (model["has_purchases"], model["purchases_are"]) == (True, "bought")
    assert "/" not in json.dumps(model["provenance"])  # no paths of the machine


def test_examples_are_frequent_queries_only(server, served_shop):
    log = ms.read_log(str(served_shop / "log.parquet"))
    shown = {
        spelling for spelling, is_shown in zip(log.spellings, log.shown(), strict=True) if is_shown
    }
    assert set(server.call("/v1/model").json["examples"]) <= shown


def test_purchases_are_listed(server, served_shop):
    pairs = relevance(ms.read_log(str(served_shop / "log.parquet")))
    query = pairs.queries[0]
    ids = [pairs.products[int(place)] for place in pairs.pairs[[0]].indices]
    found = server.call(f"/v1/purchases?q={quote(query)}").json
    assert (found["query"], sorted(found["products"])) == (query, sorted(ids))
    assert server.call("/v1/purchases?q=never%20asked").json["products"] == []


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_health_is_reported(server, path):
    reply = server.call(path)
    assert (reply.status, reply.json) == (200, {"status": "ok"})
    reply = server.call(path, method="HEAD")
    assert (reply.status, reply.body) == (200, b"")


@pytest.mark.parametrize("title", HOSTILE)
def test_hostile_titles_are_only_text(server, matcher, title):
    product = matcher.products.ids[list(matcher.products.titles).index(title)]
    described = server.post("/v1/explain", {"query": title, "product": product}).json
    assert described["title"] == title
    reply = server.post("/v1/match", {"queries": [title], "matcher": "bm25"})
    assert reply.json["results"][0]["query"] == title
    assert reply.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/nothing", 404, "not_found"),
        ("GET", "/v1/match/", 404, "not_found"),
        ("GET", "/v1/match%0A?q=a", 404, "not_found"),
        ("GET", "/page/../run.py", 404, "not_found"),
        ("GET", "/..%2f..%2fetc%2fpasswd", 404, "not_found"),
        ("DELETE", "/v1/match?q=a", 405, "method_not_allowed"),
        ("OPTIONS", "/v1/match", 405, "method_not_allowed"),
        ("GET", "/v1/reload", 405, "method_not_allowed"),
        ("POST", "/v1/reload", 403, "reload_forbidden"),
        ("GET", "/v1/match", 400, "bad_parameter"),
        ("GET", "/v1/match?q=a&matcher=nobody", 400, "unknown_matcher"),
        ("GET", "/v1/match?q=a&where=prize%3C3", 400, "bad_filter"),
        ("GET", f"/v1/match?q={'a' * 600}", 400, "query_too_long"),
    ],
)
def test_errors_have_a_code_and_a_sentence(server, method, path, status, code):
    reply = server.call(path, method=method)
    assert (reply.status, reply.code) == (status, code)
    assert CODES[code][0] == status
    assert set(reply.json) == {"error", "request_id"}
    assert reply.json["request_id"] == reply.headers["x-request-id"]
    assert "Traceback" not in reply.json["error"]["message"]


def test_a_wrong_method_gets_the_allowed_ones(server):
    assert server.call("/v1/match", method="PUT").headers["allow"] == "GET, POST"


def test_an_error_in_a_filter_has_its_position(server):
    assert server.match("a", where="price < ").json["error"] == {
        "code": "bad_filter",
        "message": "where: expected a value; got the end (at character 9)",
        "parameter": "where",
        "rule": "expected a value; got the end",
        "position": 8,
    }


def test_an_error_names_its_parameter(server):
    error = server.match("a", k=5000).json["error"]
    assert (error["code"], error["parameter"]) == ("k_out_of_range", "k")
    assert error["message"] == "k must be at most 1000; got 5000"


@pytest.mark.parametrize(
    ("path", "body", "status", "code"),
    [
        ("/v1/match", b'{"queries": [', 400, "bad_json"),
        ("/v1/match", {"queries": ["a"], "k": 5000}, 400, "k_out_of_range"),
        ("/v1/match", {"queries": ["a"], "beam": 5000}, 400, "beam_out_of_range"),
        ("/v1/match", {"queries": ["a"] * 257}, 400, "too_many_queries"),
        ("/v1/match", {"queries": ["a"], "where": "price < 1 " * 300}, 400, "filter_too_long"),
        ("/v1/explain", {"query": "a", "product": "nobody's"}, 404, "unknown_product"),
    ],
)
def test_errors_in_bodies_have_a_code(server, path, body, status, code):
    reply = server.post(path, body)
    assert (reply.status, reply.code) == (status, code)


def test_only_json_is_read(server):
    reply = server.post("/v1/match", b"{}", headers={"content-type": "text/plain"})
    assert (reply.status, reply.code) == (415, "not_json")
    with_charset = {"content-type": "application/json; charset=utf-8"}
    assert server.post("/v1/match", {"queries": []}, headers=with_charset).status == 200


def test_every_response_has_security_headers(server):
    for path in ("/", "/docs", "/v1/model", "/nothing", "/metrics"):
        headers = server.call(path).headers
        policy = headers["content-security-policy"].split("; ")
        assert {"default-src 'self'", "form-action 'self'", "frame-ancestors 'none'"} <= set(policy)
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert "access-control-allow-origin" not in headers


def test_a_harmless_request_id_is_kept(server):
    given = {"x-request-id": "abc-1.2_3"}
    assert server.call("/healthz", headers=given).headers["x-request-id"] == "abc-1.2_3"
    for bad in ("a b", "x" * 65, "<script>"):
        reply = server.call("/healthz", headers={"x-request-id": bad})
        assert reply.headers["x-request-id"] != bad


def test_the_page_is_served_and_cached(server):
    reply = server.call("/")
    assert reply.headers["content-type"] == "text/html; charset=utf-8"
    again = server.call("/", headers={"if-none-match": reply.headers["etag"]})
    assert (again.status, again.body) == (304, b"")
    assert "content-length" not in again.headers  # it would be that of the page


def test_pages_load_nothing_from_elsewhere(server):
    for path in ("/", "/docs", "/docs.css", "/docs.js", "/page.css", "/page.js"):
        text = server.call(path).body.decode()
        assert not re.search(r"""(src|href|action)=["']?\s*(https?:)?//|url\(|@import""", text)
        assert "https://" not in text


def test_the_schema_has_every_path_and_code(server):
    document = server.call("/openapi.json").json
    assert set(document["paths"]) == {endpoint.path for endpoint in ENDPOINTS}
    for code, (status, _) in CODES.items():
        assert f"- `{code}` ({status}): " in document["info"]["description"]
    names = re.findall(r"#/components/schemas/(\w+)", json.dumps(document))
    assert set(names) <= set(document["components"]["schemas"])


def test_every_example_of_the_docs_gets_what_the_schema_describes(server):
    # Another shop's product; no experiment; no key; not writable.
    refused = {"/v1/explain": 404, "/v1/events": 404, "/v1/reload": 403}
    refused |= dict.fromkeys(("/v1/products", "/v1/products/{id}"), 403)
    for endpoint in ENDPOINTS:
        path, example = endpoint.path.replace("{id}", "P1"), endpoint.example or {}
        if endpoint.method != "POST":
            path += "?" + urlencode({name: example[name] for name in example if name != "id"})
        body = example if endpoint.method == "POST" else None
        reply = server.call(path, method=endpoint.method, body=body)
        assert reply.status == refused.get(endpoint.path, 200), endpoint.path
        kind = endpoint.response if reply.status == 200 else Error
        if kind is not None:
            msgspec.json.decode(reply.body, type=kind)


def read_metrics(server, name):
    lines = server.call("/metrics").body.decode().splitlines()
    return {
        line.rpartition(" ")[0]: float(line.rpartition(" ")[2])
        for line in lines
        if line.startswith(name)
    }


def test_metrics_exist_before_the_first_request_and_static_files_are_none(served_shop):
    with serving(served_shop, workers=1) as running:
        for path in ("/", "/page.js", "/favicon.ico", "/docs", "/openapi.json"):
            assert running.call(path).status == 200
        assert read_metrics(running, "matchset_requests_total") == {
            f'matchset_requests_total{{route="{path}",status="200"}}': 0
            for path in {endpoint.path for endpoint in ENDPOINTS} | {"other"}
        } | {'matchset_requests_total{route="/readyz",status="200"}': ANY}
        for family in ("queries", "empty_results"):
            name = f'matchset_{family}_total{{matcher="xr_linear"}}'
            assert read_metrics(running, f"matchset_{family}_total") == {name: 0}
        assert set(read_metrics(running, "matchset_reloads_total").values()) == {0}
        assert 0 in read_metrics(running, "matchset_request_seconds_count").values()
        running.call("/nothing")
        missing = 'matchset_requests_total{route="other",status="404"}'
        # A request is counted after its answer.
        eventually(lambda: read_metrics(running, "matchset_requests_total").get(missing) == 1)


def test_metrics_are_sums_over_all_workers(server):
    def read(name):
        return read_metrics(server, name)

    key = 'matchset_requests_total{route="/v1/match",status="200"}'

    def count():
        return read("matchset_requests_total")[key]

    eventually(lambda: read("matchset_requests_in_flight")["matchset_requests_in_flight"] == 1)
    before = count()
    for _ in range(40):  # each over a connection of its own, so that both workers get some
        assert server.match("sofa").status == 200
    server.match("")
    eventually(lambda: count() - before == 41)  # each is counted after its answer
    version = server.call("/v1/model").json["model_version"]
    assert read("matchset_workers") == {f'matchset_workers{{version="{version}"}}': 2}
    assert (
        read("matchset_empty_results_total{")['matchset_empty_results_total{matcher="xr_linear"}']
        >= 1
    )
    assert any('le="0.0002"' in name for name in read("matchset_request_seconds_bucket"))
    assert read("matchset_requests_in_flight")["matchset_requests_in_flight"] >= 1  # this one


def test_units_mean_nothing_without_an_experiment(server):
    assert not {"arm", "query_id"} & set(server.match("sofa", unit="u").json)
    reply = server.post("/v1/events", {"events": []})
    assert (reply.status, reply.code) == (404, "no_experiment")

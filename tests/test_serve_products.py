"""Products come, change and go over HTTP, on disk and in every worker before the answer."""

import asyncio
import errno
import shutil
import threading

import pytest
from fresh_shop import list_goods, make_goods, trained_shop
from match_sets import make_shop
from reloading import AUTH, all_serve
from serving import KEY, eventually, serving, working
from stored import copy_model

import matchset as ms
from matchset.baselines import BM25
from matchset.serve import product_writer
from matchset.serve.options import ServeConfig
from matchset.serve.request_errors import RequestError
from matchset.serve.requests import ProductsRequest, ToldProduct


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    folder = tmp_path_factory.mktemp("written")
    trained_shop().save(folder / "model")
    (folder / "keys").write_text(f"{KEY}\n")
    (folder / "keys").chmod(0o600)
    return folder


@pytest.fixture(scope="module")
def server(shop):
    with serving(shop, "--api-key-file", shop / "keys", "--writable") as running:
        yield running


def send(server, **body):
    return server.post("/v1/products", body, headers=AUTH)


def write(server, **body):
    """Change products, and wait until every worker serves the change."""
    reply = send(server, **body)
    if reply.status == 200:
        eventually(lambda: all_serve(server) == reply.json["model_version"])
    return reply


def remove(server, path):
    reply = server.call(f"/v1/products/{path}", method="DELETE", headers=AUTH)
    if reply.status == 200:
        eventually(lambda: all_serve(server) == reply.json["model_version"])
    return reply


def find(server, query):
    """What every worker answers: each call may reach another one."""
    path = f"/v1/match?q={query}&titles=false"
    asked = [server.call(path, headers=AUTH).json["products"] for _ in range(8)]
    found = {tuple(one["id"] for one in products) for products in asked}
    assert len(found) == 1
    return found.pop()


def test_products_are_found_by_all_workers_and_are_on_disk_when_the_answer_comes(server, shop):
    told = {"id": "h1", "title": "zyxo rose", "attributes": {"price": 3, "brand": "zeta"}}
    reply = write(server, products=[told, {"id": "h2", "title": "zyxo mug"}])
    assert reply.status == 200, reply.json
    assert set(find(server, "zyxo")) == {"h1", "h2"}
    assert reply.json["model_version"] == reply.headers["x-model-version"]
    generation = reply.json["generation"]
    assert set(ms.load(shop / "model").match("zyxo").ids) == {"h1", "h2"}
    assert find(server, "zyxo&where=price%3C5") == ("h1",)
    write(server, products=[{"id": "h1", "attributes": {"price": 9}}])
    assert find(server, "zyxo&where=price%3C5") == ()
    assert find(server, "zyxo&where=brand%3D%27zeta%27") == ("h1",)
    assert remove(server, "h1").status == 200
    assert find(server, "zyxo") == ("h2",)
    again = remove(server, "h1?version=1763300000000")
    assert (again.status, again.json["unknown"]) == (200, ["h1"])
    assert write(server, remove=["h2", "nobody"]).json["unknown"] == ["nobody"]
    assert find(server, "zyxo") == ()
    assert write(server).json["generation"] == generation + 4
    described = server.call("/v1/model", headers=AUTH).json
    assert described["products"] == 160
    assert described["freshness"]["added"] == 0


def test_n9_a_path_that_is_not_utf8_removes_nothing(server):
    write(server, products=[{"id": "\ufffd", "title": "zyxo odd"}])
    for path in ("%ff", "%zz", "%", "%c3", "a%2"):
        reply = server.call(f"/v1/products/{path}", method="DELETE", headers=AUTH)
        assert (reply.status, reply.code) == (400, "bad_parameter")
    assert find(server, "zyxo+odd")[0] == "\ufffd"
    reply = remove(server, "%EF%BF%BD")
    assert (reply.status, reply.json["unknown"]) == (200, [])


def test_attributes_are_cleaned_of_markup_over_http(server):
    told = {"id": "h3", "title": "zyxo drill", "attributes": {"brand": "B&amp;D"}}
    assert write(server, products=[told]).status == 200
    assert find(server, "zyxo&where=brand%3D%27B%26D%27") == ("h3",)
    write(server, remove=["h3"])


def test_a_removal_is_counted_under_its_route(server):
    def read():
        return server.call("/metrics", headers=AUTH).body.decode().splitlines()

    def count(route):
        lines = read()
        counted = [line for line in lines if line.startswith("matchset_requests_total")]
        found = [line.split()[-1] for line in counted if f'route="{route}",status="200"' in line]
        return sum(map(float, found))

    eventually(lambda: "matchset_requests_in_flight 1.0" in read())  # all others are counted
    before, others = count("/v1/products/{id}"), count("other")
    for product in ("not-there", "not%2Fthere", "not%0Athere", "%7Bid%7D"):
        path = f"/v1/products/{product}"
        assert server.call(path, method="DELETE", headers=AUTH).status == 200
    # A request is counted once it is answered.
    assert eventually(lambda: count("/v1/products/{id}") == before + 4)
    assert count("other") == others
    assert server.call("/v1/products/", method="DELETE", headers=AUTH).status == 400


def test_an_older_version_changes_nothing(server):
    new = {"id": "v1", "title": "zyxo lamp"}
    first = write(server, products=[new], version=5).json["generation"]
    assert write(server, products=[{**new, "title": "mug"}], version=5).json["generation"] == first
    assert write(server, remove=["v1"], version=4).json["generation"] == first
    assert find(server, "zyxo") == ("v1",)
    assert write(server, remove=["v1"], version=6).json["generation"] == first + 1


def test_a_file_that_begins_anew_is_served_before_the_answer_comes(shop, tmp_path):
    trained_shop().save(tmp_path / "model")
    shutil.copy(shop / "keys", tmp_path / "keys")
    options = ("--api-key-file", tmp_path / "keys", "--writable")
    with serving(tmp_path, *options, workers=1) as running:
        for number in range(3):
            write(running, products=[{"id": f"a{number}", "title": "zyxo lamp"}])
        # The same training again, as from a backup: its count of changes is behind.
        trained_shop().save(tmp_path / "model", overwrite=True)
        assert write(running, products=[{"id": "late", "title": "zyxo tent"}]).status == 200
        assert find(running, "zyxo") == ("late",)
        (tmp_path / "model").write_text("{}")
        reply = write(running, products=[{"id": "never", "title": "zyxo pot"}])
        assert (reply.status, reply.code) == (507, "not_written")


@pytest.fixture
def worker(shop, tmp_path):
    trained_shop().save(tmp_path / "model")
    config = ServeConfig(writable=True, api_key_file=shop / "keys")
    with working(tmp_path / "model", config=config) as made:
        yield made


LAMP = ProductsRequest((ToldProduct("n1", "zyxo lamp"),))


def test_a_change_that_is_written_and_not_served_says_so(worker, monkeypatch):
    def fail(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(product_writer, "publish", fail)
    with pytest.raises(RequestError, match=r"is written, but not served yet: .*No space") as error:
        asyncio.run(worker.write_in_thread(LAMP))
    assert error.value.code == "model_rejected"
    assert list(ms.load(worker.sources.model).match("zyxo").ids) == ["n1"]


def test_n10_changes_that_come_together_are_published_together(worker, monkeypatch):
    published, publish = [], product_writer.publish

    def count(*given):
        published.append(given)
        return publish(*given)

    monkeypatch.setattr(product_writer, "publish", count)

    async def write_all():
        return await asyncio.gather(
            *(
                worker.write_in_thread(ProductsRequest((ToldProduct(f"n{n}", f"zyxo {n}"),)))
                for n in range(6)
            )
        )

    written = asyncio.run(write_all())
    assert sorted(one.generation for one in written) == list(range(1, 7))
    assert len(published) < 6
    assert len(worker.model.matchers["match_set"].match("zyxo").ids) == 6


def test_many_writers_at_once_lose_nothing(server):
    replies = []

    def add(number):
        told = {"id": f"m{number}", "title": f"zyxo {number}"}
        replies.append(send(server, products=[told]))

    threads = [threading.Thread(target=add, args=[number]) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {reply.status for reply in replies} == {200}
    write(server)
    assert {f"m{number}" for number in range(6)} <= set(find(server, "zyxo"))
    assert set(find(server, "zyxo")) == {f"m{number}" for number in range(6)}
    write(server, remove=[f"m{number}" for number in range(6)])


def test_a_client_writes_as_it_reads(server):
    with ms.Client(server.address, api_key=KEY) as client:
        lamp = {"id": "c/1", "title": "zyxo lamp", "attributes": {"price": 3, "brand": None}}
        first = client.upsert([lamp, {"id": "c2", "title": "zyxo mug"}], version=1)
        assert set(client.match("zyxo", 5).ids) == {"c/1", "c2"}
        assert client.upsert([{"id": "c2", "attributes": {"price": 9}}]) == first + 1
        assert client.match("zyxo", 5, where="price > 5").ids == ("c2",)
        assert client.upsert([{"id": "c/1", "title": "mug"}], version=1) == first + 1  # too late
        assert client.remove(["c/1", "c2", "unheard"], version=2) == first + 2
        assert not client.match("zyxo", 5).ids
        with pytest.raises(ValueError, match="a new product must have a title"):
            client.upsert([{"id": "new"}])
        with pytest.raises(TypeError, match="remove"):
            client.remove("c2")


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"products": [{"title": "a"}]}, "'products[0].id' must be given"),
        ({"products": [{"id": "x"}]}, "a new product must have a title; got none for 'x'"),
        ({"products": [{"id": "p001", "attributes": {"size": 3}}]}, "attributes must be among"),
        ({"products": [{"id": "p001", "attributes": {"price": "x"}}]}, "price must be a number"),
        ({"products": [{"id": "p001", "attributes": {"price": [1]}}]}, "price must be a number"),
        (
            {"products": [{"id": "", "title": "a"}]},
            "products[0].id must have at least 1 characters; got 0",
        ),
        ({"products": [{"id": "x", "title": " "}]}, "a title must have words"),
        ({"products": [{"id": "p001"}, {"id": "p001"}]}, "got 'p001' twice"),
        ({"remove": [3]}, "remove[0] must be str"),
        ({"version": -1}, "version must be at least 0"),
        ({"prices": []}, "'prices' is no parameter"),
    ],
)
def test_what_cannot_be_written_is_refused_and_changes_nothing(server, body, said):
    before = write(server).json["generation"]
    reply = write(server, **body)
    assert (reply.status, reply.code) == (400, "bad_parameter")
    assert said in reply.json["error"]["message"]
    assert write(server).json["generation"] == before


def test_a_removed_product_is_shown_by_no_matcher_of_the_server(shop, tmp_path):
    trained_shop().save(tmp_path / "model")
    goods, (log, _) = make_goods(list_goods()), make_shop()
    BM25.from_catalog(goods).save(tmp_path / "words")
    log.save(tmp_path / "log.parquet")
    shutil.copy(shop / "keys", tmp_path / "keys")
    options = ("--api-key-file", tmp_path / "keys", "--writable", "--also", tmp_path / "words")
    with serving(tmp_path, *options, "--log", tmp_path / "log.parquet", workers=1) as running:

        def ask(path, **body):
            reply = (
                running.post(path, body, headers=AUTH) if body else running.call(path, headers=AUTH)
            )
            assert reply.status == 200, reply.body
            return str({**reply.json, "unknown": None})  # which names it

        def show():
            yield ask("/v1/match?q=red+rose+small&matcher=bm25&k=160")
            yield ask("/v1/match?q=red+rose+small&matcher=bm25&k=160&where=price%3C90")
            yield ask("/v1/match", queries=["red rose small"], candidates=[["p000"]], k=160)
            yield ask("/v1/match", queries=["red"], candidates=[["p000"]], where=["p000", "p001"])
            yield ask("/v1/purchases?q=red+rose")

        assert all("'p000'" in shown for shown in show())
        told = [{"id": "a/b", "title": "zyxo tent"}]
        assert write(running, products=told, remove=["p000"]).status == 200
        assert not any("'p000'" in shown for shown in show())
        asked = {"query": "red rose", "product": "p000"}
        assert running.post("/v1/explain", asked, headers=AUTH).code == "unknown_product"
        found = running.call("/v1/match?q=red+rose&matcher=tree", headers=AUTH).json["products"]
        assert found[0]["score"] > 0.1  # as before, without calibration
        assert find(running, "zyxo") == ("a/b",)
        for path, status in (("/v1/products/a%2Fb", 200), ("/v1/products/", 400)):
            assert running.call(path, method="DELETE", headers=AUTH).status == status
        assert find(running, "zyxo") == ()


def test_writing_needs_a_key(server):
    assert server.post("/v1/products", {"remove": ["p001"]}).status == 401
    assert server.call("/v1/products/p001", method="DELETE").status == 401
    with pytest.raises(ValueError, match="writable needs api_key_file"):
        ServeConfig(writable=True)


def test_a_server_that_is_not_writable_refuses_products(shop, tmp_path):
    copy_model(shop / "model", tmp_path / "model")
    shutil.copy(shop / "keys", tmp_path / "keys")
    with serving(tmp_path, "--api-key-file", tmp_path / "keys", workers=1) as running:
        reply = write(running, remove=["p001"])
        assert (reply.status, reply.code) == (403, "read_only")
        assert running.call("/v1/model", headers=AUTH).json["freshness"]["changed"] is not None


def test_a_large_batch_is_one_step(server):
    told = [{"id": f"b{i}", "title": f"zyxo number {i}"} for i in range(2000)]
    before = write(server).json["generation"]
    reply = write(server, products=told)
    assert reply.json["generation"] == before + 1
    assert len(find(server, "zyxo")) == 100
    write(server, remove=[one["id"] for one in told])
    too_many = write(server, remove=["x"] * 10_001)
    assert (too_many.status, too_many.code) == (400, "too_many_products")


def test_a_model_that_was_refreshed_is_served_and_takes_more(server, shop):
    before = write(server, products=[{"id": "r1", "title": "zyxo soap"}]).json["generation"]
    log, _ = make_shop(30, seed=5, more=[("qwxyz thing", 1, 9)])
    assert find(server, "qwxyz") == ()
    with ms.open_writer(shop / "model") as keeper:
        keeper.refresh(log)
    reply = write(server, products=[{"id": "r2", "title": "zyxo chair"}])
    assert reply.json["generation"] == before + 2
    assert "p001" in find(server, "qwxyz")[:10]
    assert {"r1", "r2"} <= set(find(server, "zyxo"))
    described = server.call("/v1/model", headers=AUTH).json
    assert described["freshness"]["added"] == 1  # r1 is like any other by now
    assert described["provenance"]["refresh"]["new_pairs"] > 1

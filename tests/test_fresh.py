"""Products come, change and go, and a match set answers as if it had happened in one step."""

import dataclasses
import math
import pickle
import shutil
import tempfile
from datetime import date

import numpy as np
import pyarrow as pa
import pytest
from contract import CHECKS, Subject, name_of
from fresh_shop import BRANDS, QUERIES, dump, list_goods, make_goods, trained_shop
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from match_set_oracles import decide_order, score_linearly
from match_sets import make_config, make_shop

import matchset as ms
from matchset.baselines import BM25
from matchset.config import PARTS, TrainConfig
from matchset.data.arrow import NO_DAY
from matchset.data.catalog import Column
from matchset.errors import DataError
from matchset.model.match_set_model import Bounds
from matchset.model.products import Products
from matchset.model.reranker import FEATURES
from matchset.model.upserts import Upsert, upserting
from matchset.strings import Strings

WIDE = Bounds(*[10**9] * 10)
NEW = {
    "n1": ("red rose zyxo", 5.0, "zeta"),
    "n2": ("white vase kitchen", 45.0, None),
    "n3": ("purple zyxo zyxo lamp", None, "acme"),
}


@pytest.fixture(scope="module")
def base():
    return trained_shop()


@pytest.fixture(scope="module")
def changed(base):
    return base.add(make_goods(NEW)).remove(["p000", "p031"])


@pytest.mark.parametrize("check", CHECKS, ids=name_of)
def test_a_changed_match_set_keeps_the_contract(check, changed):
    check(Subject(changed, QUERIES, list(changed.products.ids)))


def test_an_added_product_is_found_by_its_words_and_its_title(base):
    grown = base.add(make_goods(NEW))
    assert "n1" in grown.match("red rose", 10).ids
    assert "n2" in grown.match("white vase kitchen", 10).ids
    assert "n2" in grown.match("white vase kitchen", 3, new_share=0.3).ids
    assert len(grown.products) == len(base.products) + 3
    assert grown.products.titles_of(["n3"]) == ["purple zyxo zyxo lamp"]


def test_an_added_product_is_found_by_a_word_that_nobody_knew(base):
    assert len(base.match("zyxo")) == 0
    grown = base.add(make_goods(NEW))
    assert set(grown.match("zyxo").ids) == {"n1", "n3"}
    assert list(grown.match("zyxo", where="price < 20").ids) == ["n1"]
    assert len(grown.match("qwxyz")) == 0


def test_the_old_matcher_goes_on_as_before(base):
    before = dump(base)
    base.add(make_goods(NEW)).remove(["p001"])
    assert dump(base) == before


def test_an_added_product_has_the_features_of_one_that_was_trained_with_its_title(base):
    at = int(np.flatnonzero(base.n_queries_of == 0)[0])  # as cold as its double will be
    title = base.products.titles[at]
    grown = base.add(make_goods({"double": (title, 1.0, None)}))
    double = int(grown.products.index_of(["double"])[0])
    for query in (title, *title.split()):
        found = grown.model.describe(grown.vectorizer.native, Strings.of([query]), bounds=WIDE)
        rows = [np.flatnonzero(found.labels == label)[0] for label in (at, double)]
        np.testing.assert_array_equal(*found.features[rows])


def test_a_wide_open_search_equals_scoring_all_products(changed):
    model = dataclasses.replace(changed.model, bounds=WIDE)
    titles = list(changed.products.titles)
    for query in QUERIES:
        found = model.describe(changed.vectorizer.native, Strings.of([query]))
        has_word = {i for i, title in enumerate(titles) if set(title.split()) & set(query.split())}
        if set(query.split()) <= {"zyxo"}:
            assert set(found.labels.tolist()) == has_word
        assert has_word <= set(found.labels.tolist())
        order = decide_order(found, score_linearly(found, model.reranker.weights))
        best = np.lexsort([found.labels, -order])[0]
        labels, _ = model.search_text(changed.vectorizer.native, query, 10**6)
        assert set(labels) == set(found.labels)
        order_of = dict(zip(found.labels.tolist(), order.tolist(), strict=True))
        assert np.all(np.diff([order_of[label] for label in labels.tolist()]) <= 1e-4)
        assert math.isclose(order_of[int(labels[0])], order[best], abs_tol=1e-4)


def test_added_vectors_and_words_are_those_of_plain_arithmetic(changed):
    model, added = changed.model, changed.model.added
    rows = [i for i, product in enumerate(changed.products.ids) if product in NEW]
    query = "red zyxo lamp"
    ids, _ = changed.vectorizer.encode(query)
    towers = model.towers
    table_rows = towers.row_of[ids]
    vector = towers.table.to_floats()[table_rows[table_rows >= 0]].sum(axis=0)
    vector /= np.linalg.norm(vector)
    found = model.describe(changed.vectorizer.native, Strings.of([query]), bounds=WIDE)
    vectors = added.vectors.vectors.to_floats()[added.vectors.position_of]
    idf = math.log(1 + (len(model.popularity) - 1 + 0.5) / 1.5)  # of a word of one title
    for row, label in enumerate(rows):
        at = np.flatnonzero(found.labels == label)[0]
        cosine = found.features[at, FEATURES.index("cosine")]
        assert abs(cosine - vectors[row] @ vector) < 5e-3
    at = np.flatnonzero(found.labels == changed.products.index_of(["n3"])[0])[0]
    length = 4 / model.lexical.mean_length
    known = np.diff(model.lexical.titles_of.offsets)
    lamp = int(known[changed.vectorizer.encode("lamp")[0][0] - model.lexical.first_word])
    n = len(model.popularity)
    lamp_idf = math.log(1 + (n - lamp + 0.5) / (lamp + 0.5))
    norm = 0.5 * (0.55 + 0.45 * length)
    wanted = min(idf * 2 / (2 + norm), 255 * model.lexical.scale) + lamp_idf / (1 + norm)
    assert abs(found.features[at, FEATURES.index("bm25")] - wanted) < 3 * model.lexical.scale


def test_a_removed_product_is_nowhere(base, tmp_path):
    left = base.remove(["p000", "p002"])
    left.save(tmp_path / "model")
    for matcher in (
        left,
        ms.load(tmp_path / "model"),
        pickle.loads(pickle.dumps(left)),
        *(left.part(name) for name in PARTS),
        left.only(["lexical", "towers"]),
        left.prune(0.01),
        left.with_bounds(WIDE),
        ms.Fusion([left, left.part("lexical")], names=["all", "words"]),
    ):
        for where in (None, ["p000", "p001"], "price < 100"):
            for match in matcher.match([*QUERIES, "red rose small"], 200, where=where):
                assert not {"p000", "p002"} & set(match.ids)
        assert matcher.products.index_of(["p000", "p001"]).tolist()[0] == -1
        assert "p000" not in list(matcher.products.ids)
    assert left.filter(["p000", "p001"]).n_unknown == 1
    with pytest.raises(ValueError, match="must be one of the matcher's products; got 'p000'"):
        left.explain("red rose", "p000")


def test_removing_products_costs_no_answers(base):
    # A search without a filter still finds k of what is left.
    left = base.remove(list(base.match("red rose", 20).ids))
    assert len(left.match("red rose", 50)) == 50


def test_other_attributes_change_filters_and_no_score(base):
    cheap = base.update(make_goods({"p001": ("", 0.5, "omega")}))
    assert list(cheap.match("red rose", where="price = 0.5").ids) == ["p001"]
    assert list(cheap.match("red rose", where="brand = 'omega'").ids) == ["p001"]
    assert [one.scores.tobytes() for one in cheap.match(QUERIES)] == [
        one.scores.tobytes() for one in base.match(QUERIES)
    ]
    assert cheap.model.added is None


def test_another_title_is_found_and_the_old_one_no_more(base):
    renamed = base.update(make_goods({"p001": ("zyxo tent", 1.0, None)}))
    assert list(renamed.match("zyxo").ids) == ["p001"]
    assert "p001" not in base.part("lexical").match("tent").ids
    assert renamed.products.titles_of(["p001"]) == ["zyxo tent"]
    assert len(renamed.products) == len(base.products)
    back = renamed.update(make_goods({"p001": list_goods()["p001"]}))
    assert dump(back) == dump(base)


def test_an_update_changes_what_it_tells_and_nothing_else(base, tmp_path):
    (tmp_path / "prices.csv").write_text("product_id,price\np001,0.25\nnobody,3\n")
    cheap = base.update(tmp_path / "prices.csv")
    label = cheap.products.index_of(["p001"])[0]
    assert cheap.products.attributes["price"].values[label] == 0.25
    assert cheap.products.attributes["brand"].to_list() == list(
        base.products.attributes["brand"].to_list()
    )
    assert list(cheap.products.ids) == list(base.products.ids)


def test_attributes_of_another_kind_are_converted_or_refused(base, tmp_path):
    (tmp_path / "goods.csv").write_text("product_id,title,brand\nn9,red rose,42\n")
    grown = base.add(tmp_path / "goods.csv")
    assert list(grown.match("red rose", where="brand = '42'").ids) == ["n9"]
    (tmp_path / "goods.csv").write_text("product_id,title,price\nn9,red rose,cheap\n")
    with pytest.raises(ValueError, match="price must be a number as in the model; got a text"):
        base.add(tmp_path / "goods.csv")


def test_a_change_with_an_older_version_comes_too_late(base):
    first = base.add(make_goods({"n1": ("red rose zyxo", 1.0, None)}), version=7)
    assert dump(first.add(make_goods({"n1": ("blue mug", 2.0, None)}), version=7)) == dump(first)
    assert dump(first.remove(["n1"], version=3)) == dump(first)
    gone = first.remove(["n1"], version=8)
    assert dump(gone) == dump(base)
    assert dump(gone.add(make_goods(NEW), version=8)) == dump(
        base.add(make_goods({k: v for k, v in NEW.items() if k != "n1"}))
    )
    assert "n1" in gone.add(make_goods(NEW), version=9).products.ids
    with pytest.raises(ValueError, match="version must be from 0"):
        base.remove(["p001"], version=-1)


def test_a_change_without_a_version_keeps_the_last_one(base):
    first = base.add(make_goods({"n1": ("red rose zyxo", 1.0, None)}), version=7)
    cheap = first.update(make_goods({"n1": ("", 0.5, None)}))
    assert dump(cheap.add(make_goods({"n1": ("stale mug", 9.0, None)}), version=3)) == dump(cheap)
    gone = cheap.remove(["n1"])
    assert dump(gone.add(make_goods({"n1": ("stale mug", 9.0, None)}), version=7)) == dump(base)
    assert "n1" in gone.add(make_goods({"n1": ("mug", 9.0, None)}), version=8).products.ids


def test_a_cell_that_is_null_is_cleared_and_a_column_that_is_missing_stays(base, tmp_path, caplog):
    rows = '{"product_id":"p001","price":7}\n{"product_id":"p002","brand":"omega","price":null}\n'
    (tmp_path / "rows.jsonl").write_text(rows)
    changed = base.update(tmp_path / "rows.jsonl")
    assert not caplog.records  # updates need no titles
    before, after = (
        {name: column.to_list() for name, column in one.products.attributes.items()}
        for one in (base, changed)
    )
    assert (after["price"][1], after["brand"][1]) == (7.0, None)
    assert (after["price"][2], after["brand"][2]) == (None, "omega")
    assert None not in (before["brand"][1], before["price"][2])
    (tmp_path / "rows.jsonl").write_text('{"product_id":"p003","price":7}\n')
    for take in (
        base.update,
        lambda file: base.upsert([ms.Upsert("p003", attributes={"price": 7})]),
    ):
        columns = take(tmp_path / "rows.jsonl").products.attributes
        assert columns["brand"].to_list()[3] == before["brand"][3] is not None


def test_an_added_row_without_a_title_keeps_the_one_that_a_product_has(base, tmp_path):
    (tmp_path / "prices.csv").write_text("product_id,price\np001,3\n")
    with pytest.raises(DataError, match="title"):
        base.add(tmp_path / "prices.csv")
    kept = base.add(make_goods({"p001": ("", 3.0, None)}))
    assert kept.products.titles_of(["p001"]) == [list_goods()["p001"][0]]
    assert kept.n_queries_of[1] == base.n_queries_of[1]


@pytest.mark.parametrize("step", ["add", "update", "upsert"])
def test_attributes_are_cleaned_of_markup_in_every_step(base, step):
    brands = {"p001": "B&amp;D", "p002": "<i>B&D</i>", "p003": "zeta"}
    titles = [list_goods()[product][0] for product in brands]
    if step == "upsert":
        told = [
            ms.Upsert(product, attributes={"brand": brand}) for product, brand in brands.items()
        ]
        changed = base.upsert(told)
    else:
        table = {"sku": list(brands), "title": titles, "brand": list(brands.values())}
        changed = getattr(base, step)(pa.table(table))
    assert changed.products.attributes["brand"].to_list()[1:4] == ["B&D", "B&D", "zeta"]
    assert set(changed.match(" ".join(titles), 100, where="brand = 'B&D'").ids) == {"p001", "p002"}
    none = changed.upsert([ms.Upsert("p001", attributes={"brand": None})])
    assert none.products.attributes["brand"].to_list()[1:3] == [None, "B&D"]


@pytest.mark.parametrize("change", [str.upper, "<b>{}</b> &amp;".format])
def test_letter_case_and_markup_of_a_title_lose_nothing_that_was_learned(base, change):
    product = base.match("red rose", 1).ids[0]
    title = list_goods()[product][0]
    for again in (
        base.upsert([ms.Upsert(product, change(title))]),
        base.update(make_goods({product: (change(title), None, None)})),
    ):
        assert (
            again.match("red rose", 5).scores.tolist() == base.match("red rose", 5).scores.tolist()
        )
        assert (again.freshness.updated, again.freshness.retitled) == (1, 0)
    assert "<" not in base.upsert([ms.Upsert(product, change(title))]).products.titles[2]
    renamed = base.update(make_goods({product: ("zyxo tent", None, None)})).freshness
    assert (renamed.updated, renamed.retitled) == (0, 1)


def test_a_catalog_without_the_searched_columns_keeps_their_text():
    log, goods = make_shop(60)
    texts = Strings.of([f"quux{i}" for i in range(len(goods))])
    plain = dataclasses.replace(goods, attributes={})
    trained = ms.train(log, dataclasses.replace(plain, more_text=texts), make_config(tune=False))
    label = int(np.argmax(trained.n_queries_of))
    product = trained.products.ids[label]
    at = int(plain.ids.index_of(Strings.of([product]))[0])
    row = dataclasses.replace(
        plain, ids=Strings.of([product]), titles=plain.titles.take(np.array([at]))
    )
    again = trained.add(row, version=1)
    assert again.products.more_text[label] == trained.products.more_text[label] != ""
    assert again.n_queries_of[label] == trained.n_queries_of[label] > 0


def test_a_step_that_changes_nothing_is_no_step(base):
    goods = list_goods()
    for same in (
        base.add(make_goods(goods)),
        base.update(make_goods({"p001": goods["p001"]})),
        base.remove(["nobody"]),
        base.upsert([ms.Upsert("p001", goods["p001"][0])], remove=["nobody"]),
    ):
        assert same is base
    assert base.update(make_goods({"p001": goods["p001"]}), version=3).freshness.generation == 1


def test_every_way_in_refuses_what_the_model_does_not_have(base, tmp_path):
    (tmp_path / "goods.csv").write_text("product_id,title,prcie\np001,red rose,3\n")
    said = "among those of the model, price, brand; got 'prcie'"
    for step in (base.add, base.update):
        with pytest.raises(ValueError, match=said):
            step(tmp_path / "goods.csv")
    with pytest.raises(ValueError, match=said):
        base.upsert([ms.Upsert("p001", attributes={"prcie": 3})])


def test_every_way_in_refuses_a_product_that_is_told_twice(base, tmp_path):
    said = "must have each product once; got 'n1' twice"
    with pytest.raises(ValueError, match=said):
        base.upsert([ms.Upsert("n1", "zyxo"), ms.Upsert("n1", attributes={"price": 1})])
    with pytest.raises(ValueError, match=said):
        base.upsert([ms.Upsert("n1", "zyxo")], remove=["n1"])
    goods = make_goods({"n1": ("zyxo", 1.0, None), "n2": ("mug", 2.0, None)})
    twice = dataclasses.replace(goods, ids=Strings.of(["n1", "n1"]))
    for step in (base.add, base.update):
        with pytest.raises(ValueError, match=said):
            step(twice)
    (tmp_path / "prices.csv").write_text("product_id,price\np001,3\np001,4\n")
    with pytest.raises(DataError, match="'p001'"):
        base.update(tmp_path / "prices.csv")


@pytest.mark.parametrize(
    ("told", "said"),
    [
        (ms.Upsert("", "rose"), "must have an id; got an empty one"),
        (ms.Upsert("n1", "  "), "a title must have words; got '  ' for 'n1'"),
        (ms.Upsert("p001", "<br>"), "a title must have words"),
        (ms.Upsert("p001", attributes={"price": 10**400}), "price must be a finite number"),
        (ms.Upsert("p001", attributes={"price": math.inf}), "price must be a finite number"),
    ],
)
def test_what_cannot_be_told_is_refused(base, told, said):
    with pytest.raises(ValueError, match=said):
        base.upsert([told])


@pytest.mark.parametrize("version", [True, 1.7, "1"])
def test_a_version_that_is_no_integer_is_refused(base, version):
    with pytest.raises(TypeError, match="version must be an int"):
        base.remove(["p001"], version=version)


def test_the_tree_of_a_changed_match_set_ranks_as_before(base, changed, tmp_path):
    tree = changed.part("tree")
    assert tree.kind == "xr_linear"
    for query in QUERIES:
        found, wanted = tree.match(query, 50), base.part("tree").match(query, 60)
        pairs = zip(wanted.ids, wanted.scores.tolist(), strict=True)
        left = [pair for pair in pairs if pair[0] not in ("p000", "p031")][:50]
        assert list(zip(found.ids, found.scores.tolist(), strict=True)) == left
    tree.save(tmp_path / "tree")
    assert dump(ms.load(tmp_path / "tree")) == dump(tree)
    assert tree.explain("red rose", tree.match("red rose").ids[0]).is_returned
    assert "not in the tree" in tree.explain("red rose", "n1").verdict
    undone = base.add(make_goods(NEW)).remove(list(NEW))
    assert dump(undone.part("tree")) == dump(base.part("tree"))
    assert undone.part("tree").match("red rose", min_score=0.05).ids


def test_all_products_can_go_and_come_again(base):
    gone = base.remove(list(base.products.ids))
    assert not gone.training.is_warm(Strings.of(["p001"])).any()
    assert set(gone.add(make_goods(NEW)).match("zyxo").ids) == {"n1", "n3"}


def test_a_fusion_shows_nothing_that_was_removed_from_a_part(base, tmp_path):
    goods = list_goods()
    words = BM25.from_catalog(make_goods(goods))
    for fused in (
        ms.Fusion([base.remove(["p000"]), words]),
        ms.Fusion([words, base.remove(["p000"])], "append"),
        ms.Fusion([ms.Fusion([base.remove(["p000"])]), words], names=["all", "words"]),
    ):
        fused.save(tmp_path / "fused", overwrite=True)
        for matcher in (fused, ms.load(tmp_path / "fused")):
            assert "p000" not in matcher.products.ids
            for where in (None, "price < 30", ["p000", "p001", "p033"]):
                found = matcher.match("red rose small", 160, where=where)
                assert "p000" not in found.ids
                assert "p001" in found.ids
                assert list(found.titles) == [goods[each][0] for each in found.ids]


def test_a_filter_that_reads_other_values_is_refused(base):
    cheap, acme = base.filter("price < 5"), base.filter("brand = 'acme'")
    dear = base.update(make_goods({"p001": ("", 100.0, list_goods()["p001"][2])}))
    with pytest.raises(ValueError, match="160 products; got one made before price changed"):
        dear.match("red rose", where=cheap)
    with pytest.raises(ValueError, match="made before price changed"):
        dear.match("red rose", where=acme & cheap)
    assert dear.match("red rose", where=acme).ids == base.match("red rose", where=acme).ids
    assert dear.match("red rose", where=pickle.loads(pickle.dumps(acme))).ids
    with pytest.raises(ValueError, match="159 products; got one of 160"):
        base.remove(["p001"]).match("red rose", where=acme)


def test_products_come_after_parts_were_left_out(base, changed):
    more = {"n9": ("zyxo table", 3.0, None)}
    for parts in (["lexical"], ["towers"], ["lexical", "tree"]):
        later = changed.only(parts).add(make_goods(more))
        at_once = base.only(parts).add(make_goods(NEW | more)).remove(["p000", "p031"])
        assert dump(later) == dump(at_once)


def test_products_told_one_by_one_keep_what_is_not_told():
    launched = np.array([20_000, NO_DAY], dtype=np.int32)
    columns = {
        "launched": Column("date", launched),
        "is_sold": Column("boolean", np.array([1, -1], dtype=np.int8)),
    }
    current = Products(Strings.of(["a", "b"]), Strings.of(["rose", "mug"]), columns)
    told = [
        Upsert("b", attributes={"is_sold": False}),
        Upsert("c", "lamp", {"launched": "2026-12-31", "is_sold": None}),
        Upsert("a", "pot"),
    ]
    rows = upserting(told, ["z"], None)(current).products
    assert list(zip(rows.ids, rows.titles, strict=True)) == [
        ("b", "mug"),
        ("c", "lamp"),
        ("a", "pot"),
    ]
    assert rows.attributes["is_sold"].to_list() == [False, None, True]
    assert rows.attributes["launched"].to_list()[:2] == [None, date(2026, 12, 31)]
    assert rows.attributes["launched"].values[2] == 20_000
    with pytest.raises(ValueError, match="launched must be a date such as"):
        upserting([Upsert("a", attributes={"launched": "soon"})], [], None)(current)
    with pytest.raises(ValueError, match="is_sold must be a boolean"):
        upserting([Upsert("a", attributes={"is_sold": 1})], [], None)(current)


def test_explanations_know_added_products(changed):
    found = changed.explain("red rose zyxo", "n1")
    assert found.is_returned
    assert found.rank == list(changed.match("red rose zyxo").ids).index("n1") + 1
    assert changed.explain("zyxo", "n1").is_returned
    assert not changed.explain("mug", "n2", k=10).is_returned
    for query in QUERIES:
        for product in ("n1", "n2", "n3", "p159", "p001"):
            changed.explain(query, product)


def test_kinds_that_cannot_take_products_refuse():
    base = trained_shop()
    assert not any(hasattr(base.part("tree"), step) for step in ("add", "upsert", "remove"))
    with pytest.raises(ValueError, match="must have titles, and a lexical index or towers"):
        base.part("neighbors").add(make_goods(NEW))


def test_a_match_set_trained_without_a_catalog_refuses_products():
    log, _ = make_shop(60)
    plain = ms.train(log, None, TrainConfig(tune=False))
    with pytest.raises(ValueError, match="must have titles"):
        plain.remove(["p001"])


IDS = st.sampled_from(["p000", "p001", "p005", "p077", "p159", "n1", "n2", "n3"])
TITLES = ["red rose zyxo", "white vase kitchen", "mug", "", *(v[0] for v in NEW.values())]
ROWS = st.dictionaries(
    IDS,
    st.tuples(
        st.sampled_from(TITLES),
        st.sampled_from([None, 1.0, 30.0]),
        st.sampled_from([None, *BRANDS, "omega"]),
    ),
    max_size=3,
)


VERSIONS = st.none() | st.integers(0, 5)


LACKING = st.sampled_from([(), ("price",), ("price", "brand")])


def leave_out(rows, lacking):
    """A catalog without some columns."""
    goods = make_goods(rows)
    kept = {name: one for name, one in goods.attributes.items() if name not in lacking}
    return dataclasses.replace(goods, attributes=kept)


def to_upsert(product, row):
    """What a row tells, without what it does not."""
    title, price, brand = row
    told = {"price": price, "brand": brand}
    return Upsert(product, title or None, {k: v for k, v in told.items() if v is not None})


class Steps(RuleBasedStateMachine):
    """Any steps give, byte for byte, what the same end gives in one."""

    @initialize()
    def begin(self):
        # Without a home: what other tests share is not saved.
        self.matcher, self.goods, self.folder = trained_shop().with_beam(10), list_goods(), None
        self.versions = {}

    def is_late(self, product, version):
        if version is not None and version <= self.versions.get(product, -1):
            return True
        self.versions[product] = version if version is not None else self.versions.get(product, -1)
        return False

    @rule(rows=ROWS, version=VERSIONS, lacking=LACKING)
    def add(self, rows, version, lacking):
        self.matcher = self.matcher.add(leave_out(rows, lacking), version=version)
        for product, row in rows.items():
            if not self.is_late(product, version):
                self.put(product, row, lacking)

    @rule(rows=ROWS, version=VERSIONS, lacking=LACKING)
    def update(self, rows, version, lacking):
        self.matcher = self.matcher.update(leave_out(rows, lacking), version=version)
        for product, row in rows.items():
            if product in self.goods and not self.is_late(product, version):
                self.put(product, row, lacking)

    def put(self, product, row, lacking):
        """A column that is not there changes nothing; a cell that is null is cleared."""
        before = self.goods.get(product, ("", None, None))
        names = zip(("title", "price", "brand"), row, before, strict=True)
        self.goods[product] = tuple(
            old if name in lacking or (name == "title" and not new) else new
            for name, new, old in names
        )

    @rule(rows=ROWS, ids=st.lists(IDS, max_size=2), version=VERSIONS)
    def upsert(self, rows, ids, version):
        told = {
            product: row
            for product, row in rows.items()
            if product not in ids and (row[0] or product in self.goods)
        }
        self.matcher = self.matcher.upsert(
            [to_upsert(product, row) for product, row in told.items()], remove=ids, version=version
        )
        for product, row in told.items():
            if not self.is_late(product, version):
                self.overlay(product, row)
        self.drop(ids, version)

    @rule(ids=st.lists(IDS, max_size=3), version=VERSIONS)
    def remove(self, ids, version):
        self.matcher = self.matcher.remove(ids, version=version)
        self.drop(ids, version)

    def overlay(self, product, row):
        before = self.goods.get(product, ("", None, None))
        told = zip(row, before, strict=True)
        self.goods[product] = tuple(old if new in ("", None) else new for new, old in told)

    def drop(self, ids, version):
        for product in dict.fromkeys(ids):
            if not self.is_late(product, version):
                self.goods.pop(product, None)

    @rule()
    def copy(self):
        self.matcher = pickle.loads(pickle.dumps(self.matcher))

    @rule()
    def save_and_reopen(self):
        if self.folder is None:
            self.folder = tempfile.mkdtemp()
        self.matcher.save(f"{self.folder}/model", overwrite=True)
        self.matcher = ms.load(f"{self.folder}/model")

    def teardown(self):
        if not hasattr(self, "matcher"):
            return
        base, before = trained_shop(), list_goods()
        new = {p: row for p, row in self.goods.items() if before.get(p) != row}
        once = base.remove([p for p in before if self.goods.get(p) != before[p]])
        once = once.add(make_goods(new))
        assert dump(self.matcher) == dump(once)
        for part in PARTS:
            assert dump(self.matcher.part(part)) == dump(once.part(part))
        if self.folder is not None:
            shutil.rmtree(self.folder)


TestSteps = Steps.TestCase
TestSteps.settings = settings(max_examples=15, stateful_step_count=8, deadline=None)

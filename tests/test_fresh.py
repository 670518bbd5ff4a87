"""Products come, change and go, and a match set answers as if it had happened in one step."""

import dataclasses
import math
import pickle
import shutil
import tempfile
from datetime import date

import numpy as np
import pytest
from contract import CHECKS, Subject, name_of
from fresh_shop import BRANDS, QUERIES, dump, list_goods, make_goods, trained_shop
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

import matchset as ms
from matchset.config import PARTS, TrainConfig
from matchset.data.arrow import NO_DAY
from matchset.data.catalog import Column
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
    assert "n2" in grown.match("white vase kitchen", 3).ids
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
    column = {name: i for i, name in enumerate(FEATURES)}
    titles = list(changed.products.titles)
    for query in QUERIES:
        found = model.describe(changed.vectorizer.native, Strings.of([query]))
        has_word = {i for i, title in enumerate(titles) if set(title.split()) & set(query.split())}
        if set(query.split()) <= {"zyxo"}:
            assert set(found.labels.tolist()) == has_word
        assert has_word <= set(found.labels.tolist())
        features = found.features
        is_warm = (features[:, column["popularity"]] > 0).astype(int)
        linear = np.einsum("ij,ij->i", features, model.reranker.weights[is_warm])
        order = np.lexsort([found.labels, -linear])
        labels, _ = model.search_text(changed.vectorizer.native, query, 10**6)
        assert set(labels) == set(found.labels)
        score_of = dict(zip(found.labels.tolist(), linear.tolist(), strict=True))
        assert np.all(np.diff([score_of[label] for label in labels.tolist()]) <= 1e-4)
        assert math.isclose(score_of[int(labels[0])], float(linear[order[0]]), abs_tol=1e-4)


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
    (tmp_path / "goods.csv").write_text("product_id,title,brand,color\nn9,red rose,42,red\n")
    grown = base.add(tmp_path / "goods.csv")
    assert list(grown.match("red rose", where="brand = '42'").ids) == ["n9"]
    assert "color" not in grown.products.attributes
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
    for step in ("add", "update"):
        with pytest.raises(ValueError, match="in a match set alone; got a xr_linear matcher"):
            getattr(base.part("tree"), step)(make_goods(NEW))
    with pytest.raises(ValueError, match="in a match set alone"):
        base.part("tree").remove(["p001"])
    with pytest.raises(ValueError, match="must have titles, and a lexical index or towers"):
        base.part("neighbors").add(make_goods(NEW))


def test_a_match_set_trained_without_a_catalog_refuses_products():
    from match_sets import make_shop

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


class Steps(RuleBasedStateMachine):
    """Any steps give, byte for byte, what the same end gives in one."""

    @initialize()
    def begin(self):
        # Without a home: what other tests share is not saved.
        self.matcher, self.goods, self.folder = trained_shop().with_beam(10), list_goods(), None

    @rule(rows=ROWS)
    def add(self, rows):
        self.matcher = self.matcher.add(make_goods(rows))
        self.goods |= rows

    @rule(rows=ROWS)
    def update(self, rows):
        self.matcher = self.matcher.update(make_goods(rows))
        for product, (title, *rest) in rows.items():
            if product in self.goods:
                self.goods[product] = (title or self.goods[product][0], *rest)

    @rule(ids=st.lists(IDS, max_size=3))
    def remove(self, ids):
        self.matcher = self.matcher.remove(ids)
        for product in ids:
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

    @rule()
    def merge(self):
        self.matcher = self.matcher.merge()

    def teardown(self):
        if not hasattr(self, "matcher"):
            return
        base, before = trained_shop(), list_goods()
        new = {p: row for p, row in self.goods.items() if before.get(p) != row}
        once = base.add(make_goods(new)).remove([p for p in before if p not in self.goods])
        assert dump(self.matcher) == dump(once)
        if self.folder is not None:
            shutil.rmtree(self.folder)


TestSteps = Steps.TestCase
TestSteps.settings = settings(max_examples=15, stateful_step_count=8, deadline=None)

"""A fusion is a matcher, whose parts may know different products."""

import pickle

import numpy as np
import pytest
from bookshelf import IDS, QUERIES, make_catalog, make_pairs
from contract import CHECKS, Subject, name_of
from match_sets import make_match_set
from rankings import Recited, make_positives
from stored import damage_array, forge

import matchset as ms
from matchset.baselines import BM25, NearestQueries, Popularity, TitleSimilarity
from matchset.errors import ModelFileError
from matchset.matchers.fusion_rules import FusionRule
from matchset.matrices import Csr
from matchset.model.products import Products
from matchset.storage.file import read_header
from matchset.strings import Strings

METHODS = [
    {"method": "rrf"},
    {"method": "rrf", "weights": [1, 0.3, 2], "constant": 5},
    {"method": "weighted"},
    {"method": "weighted", "weights": [1, 0, 0.5]},
    {"method": "append"},
]


def make_parts():
    catalog = make_catalog()
    return [
        BM25.from_catalog(catalog),
        NearestQueries.from_positives(make_pairs(), catalog=catalog),
        TitleSimilarity.from_catalog(catalog),
    ]


def recite(answers, n_products=10):
    return Recited.of(answers, n_products)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fusion")
    for index, options in enumerate(METHODS):
        ms.Fusion(make_parts(), **options).save(folder / str(index))
    return folder


@pytest.mark.parametrize("check", CHECKS, ids=name_of)
@pytest.mark.parametrize("index", range(len(METHODS)), ids=map(str, METHODS))
@pytest.mark.parametrize("is_loaded", [False, True], ids=["made", "loaded"])
def test_every_method_keeps_the_contract(check, index, is_loaded, saved):
    fusion = ms.load(saved / str(index)) if is_loaded else ms.Fusion(make_parts(), **METHODS[index])
    check(Subject(fusion, QUERIES, fusion.products.ids))


def test_rrf_adds_up_reciprocal_ranks():
    fusion = ms.Fusion([recite({"q": [3, 1]}), recite({"q": [2, 3]})], names=["a", "b"])
    match = fusion.match("q")
    assert match.ids == ("p3", "p2", "p1")
    wanted = [1 / 61 + 1 / 62, 1 / 61, 1 / 62]
    np.testing.assert_allclose(match.scores, wanted, rtol=1e-6)
    assert match.ranks == ({"a": 1, "b": 2}, {"b": 1}, {"a": 2})
    weighted = ms.Fusion(fusion.matchers, weights=[1, 2], constant=1, names=["a", "b"]).match("q")
    assert weighted.ids == ("p3", "p2", "p1")
    np.testing.assert_allclose(weighted.scores, [1 / 2 + 2 / 3, 2 / 2, 1 / 3], rtol=1e-6)


def test_equal_scores_go_to_the_smaller_label():
    fusion = ms.Fusion([recite({"q": [5, 1]}), recite({"q": [1, 5]})])
    assert fusion.match("q").ids == ("p1", "p5")
    assert fusion.names == ("recited", "recited_2")


def test_weighted_normalizes_scores_per_query():
    part = scored({"q": {"p1": 4.0, "p2": 3.0, "p3": 2.0}, "r": {"p3": -1.0, "p1": -1.0}})
    fusion = ms.Fusion([part], "weighted")
    match = fusion.match("q")
    assert match.ids == ("p1", "p2", "p3")
    np.testing.assert_allclose(match.scores, [1.0, 0.5, 0.0], atol=1.1e-3)
    assert len(fusion.match("r")) == 2


def scored(answers):
    """A matcher with given scores."""

    class Scored(Recited):
        def _search(self, queries, k, where):
            (query,) = queries
            row = answers.get(query, {})
            labels = self.products.index_of(list(row))[:k]
            scores = np.array(list(row.values()), dtype=np.float32)[:k]
            return Csr(np.array([0, len(labels)]), labels, scores, len(self.products))

    return Scored.of({}, 5)


def test_what_ties_in_the_only_ranking_keeps_its_order():
    part = recite({"q": [4, 2, 3]})
    for method in ("rrf", "weighted", "append"):
        assert ms.Fusion([part], method).match("q").ids == ("p4", "p2", "p3")
    tied = scored({"q": {"p4": 1.0, "p2": 1.0, "p3": 1.0}})
    other = recite({"q": [7]})
    fusion = ms.Fusion([other, tied], "weighted", weights=[0, 1])
    assert fusion.match("q").ids == ("p4", "p2", "p3")


def test_append_keeps_the_first_order_and_adds_what_is_new_in_turn():
    parts = [recite({"q": [0, 1, 2]}), recite({"q": [1, 5, 6]}), recite({"q": [7, 5, 2]})]
    assert ms.Fusion(parts, "append").match("q").ids == ("p0", "p1", "p2", "p7", "p5", "p6")
    match = ms.Fusion(parts, "append").match("q")
    assert ms.Fusion(parts, "append").match("q", k=3) == match[:3]
    assert (np.diff(match.scores) < 0).all()


def test_parts_may_know_different_products():
    first = Popularity.from_positives(make_positives({"q": {2: 5, 1: 3}}, 4))
    catalog = make_catalog()
    second = BM25.from_catalog(catalog)
    fusion = ms.Fusion([first, second])
    assert list(fusion.products.ids) == ["p1", "p2", "p0", "p3", "p4", "p5", "p6"]
    match = fusion.match("clay pot")
    assert match.ranks[0] == {"popularity": 1, "bm25": 2}
    titles = dict(zip(catalog.ids, catalog.titles, strict=True))
    assert match.titles == tuple(titles[product] for product in match.ids)
    cheap = fusion.match("clay pot", where="price < 6 and colour is null")
    assert cheap.ids == ("p2",)
    assert fusion.match("red pot", where="colour = 'red'").ids[0] == "p4"
    assert fusion.match("clay pot", where=["p1"]).ids == ("p1",)


def test_attributes_are_those_of_the_first_part_that_tells_them():
    one = make_products(["a", "b"], ["", "B"], [3.0, np.nan], ["x", "z"])
    two = make_products(["b", "c"], ["no", "C"], [7.0, 8.0], ["no", "y"])
    fusion = ms.Fusion([Recited(one, {}), Recited(two, {})])
    products = fusion.products
    assert list(products.ids) == ["a", "b", "c"]
    assert list(products.titles) == ["", "B", "C"]
    assert products.attributes["price"].values.tolist() == [3.0, 7.0, 8.0]
    brand = products.attributes["brand"]
    assert list(brand.categories) == sorted(brand.categories)
    assert [brand.categories[code] for code in brand.values] == ["x", "z", "y"]


def make_products(ids, titles, prices, brands):
    from matchset.data.catalog import Column

    distinct = sorted(set(brands))
    codes = np.array([distinct.index(brand) for brand in brands], dtype=np.int32)
    return Products(
        Strings.of(ids),
        Strings.of(titles),
        {
            "price": Column("number", np.array(prices)),
            "brand": Column("text", codes, Strings.of(distinct)),
        },
    )


def test_ranks_are_shown_and_exported():
    match = ms.Fusion([recite({"q": [3, 1]}), recite({"q": [2]})], names=["lexical", "tree"])
    one, many = match.match("q"), match.match(["q", "none", "q"])
    assert one.to_dicts()[2]["ranks"] == {"lexical": 2}
    assert many.to_dicts()[3]["ranks"] == {"tree": 1}
    assert list(many[1:]) == [match.match("none"), one]
    assert many[1:][1].ranks == many[-1].ranks == one.ranks == one[:].ranks
    assert one[1:].ranks == one.ranks[1:] == one.at_least(0).ranks[1:]
    assert pickle.loads(pickle.dumps(many)) == many
    assert pickle.loads(pickle.dumps(one)).ranks == one.ranks
    frame = many.to_pandas()
    assert frame["rank_lexical"].tolist()[1] == 1
    assert frame["rank_tree"].isna().tolist() == [False, True, True] * 2
    table = many.to_arrow()
    assert table["rank_tree"].to_pylist() == [1, None, None] * 2
    assert "rank_tree" in one.to_arrow().column_names
    shown = "\n".join(" ".join(line.split()) for line in repr(one).splitlines())
    assert "1 0.01639 p2 1" in shown
    assert "<th>lexical</th><th>tree</th>" in one._repr_html_()
    assert recite({"q": [1]}).match("q").ranks is None


def test_a_match_is_fused_with_what_another_engine_found():
    ours = BM25.from_catalog(make_catalog()).match("clay pot")
    theirs = ms.Match.of("clay pot", ["x9", "p4", "x7"], [3, 2, 1])
    match = ms.fuse_matches({"tree": ours, "theirs": theirs}, k=3)
    assert match.ids == ("p4", "x9", "p2")
    assert match.ranks == ({"tree": 1, "theirs": 2}, {"theirs": 1}, {"tree": 2})
    assert match.titles == ("Red Clay Garden Pot", "", "Clay Plant Pot 5 in.")
    rule = FusionRule(method="append")
    found = ms.fuse_matches({"theirs": theirs, "tree": ours}, 4, rule)
    assert found.ids == ("x9", "p4", "x7", "p2")
    nothing = ms.Match.of("clay pot", [], [])
    assert ms.fuse_matches({"a": nothing, "b": nothing}).ids == ()
    assert ms.fuse_matches({"a": ours}, rule=rule).ids == ours.ids


@pytest.mark.parametrize("method", ["rrf", "weighted", "append"])
def test_w4_a_product_twice_in_a_ranking_keeps_its_first_position(method):
    rule = FusionRule(method=method)
    ids, scores = ["x", "y", "x", "z"], [4, 3, 2, 1]
    found = ms.Match.of("q", ids, scores, titles=["X", "Y", "x again", "Z"])
    assert (found.ids, found.titles) == (("x", "y", "z"), ("X", "Y", "Z"))
    assert found.scores.tolist() == [4, 3, 1]
    assert ms.fuse_matches({"a": found}, rule=rule).ids == ("x", "y", "z")
    # The same from a matcher that returns a label twice.
    products = Products(Strings.of(["x", "y", "z"]))
    labels = np.array([0, 1, 0, 2], dtype=np.int32)
    raw = ms.Match("q", labels, np.array(scores, dtype=np.float32), products)
    fused = ms.fuse_matches({"a": raw, "b": ms.Match.of("q", [], [])}, rule=rule)
    assert fused.ids == ("x", "y", "z")
    assert fused.ranks == ({"a": 1}, {"a": 2}, {"a": 4})


def test_matches_of_different_queries_are_not_fused():
    matches = {name: ms.Match.of(name, ["p1"], [1]) for name in ("clay pot", "vase")}
    with pytest.raises(ValueError, match="of the same query; got 'clay pot', 'vase'"):
        ms.fuse_matches(matches)


def test_fused_ids_are_those_of_the_fusion():
    parts = make_parts()
    for options in METHODS:
        fusion = ms.Fusion(parts, **options)
        for query in [*QUERIES, ""]:
            match = ms.fuse_matches(
                {name: part.match(query) for name, part in zip(fusion.names, parts, strict=True)},
                rule=fusion.rule,
            )
            wanted = fusion.match(query)
            assert set(match.ids) == set(wanted.ids)
            if options["method"] != "weighted":  # whose ranks are worth less where more are asked
                np.testing.assert_allclose(match.scores, wanted.scores, rtol=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "sum"}, "method must be one of .*; got 'sum'"),
        ({"weights": [1]}, "weights must be 2, one per matcher; got"),
        ({"weights": [1, -1]}, "weights must be zero or positive, and finite"),
        ({"weights": [1, float("nan")]}, "weights must be zero or positive, and finite"),
        ({"weights": [0, 0]}, "at least one weight must be positive"),
        ({"method": "append", "weights": [1, 1]}, "weights are for rrf and weighted; got method"),
        ({"constant": 0}, "constant must be positive and finite; got 0"),
        ({"depth": 0}, "depth must be at least 1; got 0"),
        ({"names": ["a"]}, "names must be 2, one per matcher; got"),
        ({"names": ["a", "a"]}, "names must be distinct and not empty; got"),
    ],
)
def test_an_option_that_breaks_a_rule_is_named(options, message):
    with pytest.raises(ValueError, match=message):
        ms.Fusion([recite({}), recite({})], **options)


def test_only_matchers_can_be_fused():
    with pytest.raises(ValueError, match="there must be at least one matcher; got none"):
        ms.Fusion([])
    with pytest.raises(TypeError, match="matchers must be of the class Matcher; got object"):
        ms.Fusion([object()])
    with pytest.raises(ValueError, match="there must be at least one match; got none"):
        ms.fuse_matches({})


def test_a_part_of_weight_0_is_not_asked():
    class Silent(Recited):
        def match(self, *_, **__):
            raise AssertionError

    parts = [recite({"q": [1, 2]}), Silent.of({}, 10)]
    assert ms.Fusion(parts, weights=[1, 0]).match("q").ids == ("p1", "p2")


def test_a_fusion_of_fusions_is_saved_whole_and_verified(tmp_path):
    parts = make_parts()
    inner = ms.Fusion(parts[:2], "append", names=["a", "b"])
    whole = ms.Fusion([inner, parts[2]], "weighted", weights=[2, 1], names=["both", "titles"])
    whole.save(tmp_path / "f")
    opened = ms.load(tmp_path / "f")
    assert repr(opened) == repr(whole)
    assert opened.match(QUERIES) == whole.match(QUERIES)
    ms.verify(tmp_path / "f")
    entries = read_header(tmp_path / "f").entries
    inside = (name for name in entries if name.startswith("matchers.0.matchers.1."))
    name = next(name for name in inside if entries[name].n_bytes)
    damage_array(tmp_path / "f", name)
    with pytest.raises(ModelFileError, match=f"checksum of {name} differs"):
        ms.verify(tmp_path / "f")


def test_a_part_keeps_its_changes_of_products(tmp_path):
    grown = make_match_set(tune=False).upsert([ms.Upsert("n1", "red zyxo rose")], remove=["p001"])
    ms.Fusion([grown]).save(tmp_path / "f")
    opened = ms.load(tmp_path / "f").matchers[0]
    assert opened.freshness == grown.freshness
    assert opened.match("zyxo rose", 5) == grown.match("zyxo rose", 5)


@pytest.mark.parametrize("damage", [{"names": 3}, {"depth": None}, {"rule": {"method": "x"}}])
def test_a_damaged_fusion_is_named(tmp_path, damage):
    ms.Fusion(make_parts()).save(tmp_path / "f")
    forge(tmp_path / "f", lambda header, _: header["fields"].update(damage))
    with pytest.raises(ModelFileError, match="the model is damaged"):
        ms.load(tmp_path / "f")


def test_ids_are_the_matchers():
    assert list(ms.Fusion(make_parts()).products.ids) == IDS

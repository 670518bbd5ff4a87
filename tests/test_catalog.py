"""A catalog keeps ids, titles and typed attributes in the order of its file."""

import datetime as dt
import json
import math
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from matchset.data.arrow import NO_DAY
from matchset.data.catalog import Column
from matchset.data.catalog_reader import read_catalog
from matchset.errors import DataError
from matchset.model.products import Products, make_products
from matchset.storage.codec import decode, encode
from matchset.strings import Strings

PRODUCTS = {
    "product_id": ["b", "00a", "c"],
    "title": ["Red shoe", 'Blue "hat"', "Größe, ½"],
    "price": [9.5, None, 3.0],
    "stock": [3, 0, None],
    "is_new": [True, None, False],
    "since": [dt.date(2026, 1, 2), None, dt.date(1969, 12, 31)],
    "colour": ["red", None, "blue"],
}


def values_of(column: Column):
    """An attribute as plain Python values."""
    if column.kind == "text":
        return [None if code < 0 else column.categories[code] for code in column.values]
    null = {"number": math.isnan, "boolean": lambda v: v < 0, "date": lambda v: v == NO_DAY}
    return [None if null[column.kind](value) else value.item() for value in column.values]


def check_products(catalog):
    assert list(catalog.ids) == PRODUCTS["product_id"]
    assert list(catalog.titles) == PRODUCTS["title"]
    assert catalog.descriptions is None
    found = {name: (column.kind, values_of(column)) for name, column in catalog.attributes.items()}
    assert found == {
        "price": ("number", [9.5, None, 3.0]),
        "stock": ("number", [3.0, 0.0, None]),
        "is_new": ("boolean", [1, None, 0]),
        "since": ("date", [20455, None, -1]),
        "colour": ("text", ["red", None, "blue"]),
    }
    assert list(catalog.attributes["colour"].categories) == ["blue", "red"]


def test_frames_and_files_give_the_same_catalog(tmp_path):
    table = pa.table(PRODUCTS)
    pq.write_table(table, tmp_path / "c.parquet")
    pl.DataFrame(PRODUCTS).write_csv(tmp_path / "c.csv")
    lines = [json.dumps(row, default=str) for row in table.to_pylist()]
    (tmp_path / "c.jsonl").write_text("\n".join(lines))
    for source in (table, pl.DataFrame(PRODUCTS), table.to_pandas(), *tmp_path.iterdir()):
        check_products(read_catalog(source))


def test_a_saved_catalog_reads_back(tmp_path):
    catalog = read_catalog(pa.table(PRODUCTS | {"description": ["x", None, "z"]}))
    catalog.save(tmp_path / "c.parquet")
    back = read_catalog(tmp_path / "c.parquet")
    assert list(back.descriptions) == ["x", "", "z"]
    check_products(
        read_catalog(tmp_path / "c.parquet", description=False, attributes=list(PRODUCTS)[2:])
    )


def test_texts_become_numbers_only_if_every_one_is(tmp_path):
    path = tmp_path / "c.csv"
    path.write_text(
        "sku,name,zip,size,flag,day,gtin,empty\n"
        "1,a,00123,1,true,2026-01-02,12345678901234567890,\n"
        "2,b,99,M,False,2026-13-45,1,\n"
    )
    kinds = {name: column.kind for name, column in read_catalog(path).attributes.items()}
    assert kinds.pop("flag") == "boolean"
    assert kinds == dict.fromkeys(["zip", "size", "day", "gtin", "empty"], "text")


def test_nested_columns_are_kept_as_json_text():
    table = pa.table({"sku": ["1"], "title": ["a"], "tags": [["x", "y"]], "dim": [{"w": 2}]})
    attributes = read_catalog(table).attributes
    assert values_of(attributes["tags"]) == ['["x","y"]']
    assert values_of(attributes["dim"]) == ['{"w":2}']


def test_the_order_is_that_of_the_files(tmp_path):
    n = 50_000
    for part in (1, 0):
        ids = [f"{part}-{i}" for i in range(n)]
        pq.write_table(
            pa.table({"sku": ids, "title": ids}), tmp_path / f"{part}.parquet", row_group_size=1000
        )
    catalog = read_catalog(tmp_path)
    assert list(catalog.ids) == [f"{part}-{i}" for part in (0, 1) for i in range(n)]
    assert catalog.titles == catalog.ids


def test_files_with_other_columns_are_joined_by_name(tmp_path):
    (tmp_path / "a.csv").write_text("title,sku,price\nshoe,1,5\n")
    (tmp_path / "b.csv").write_text("sku,title,colour,price\n2,hat,red,cheap\n")
    catalog = read_catalog(tmp_path)
    assert list(catalog.titles) == ["shoe", "hat"]
    assert values_of(catalog.attributes["price"]) == ["5", "cheap"]  # where files disagree: text
    assert values_of(catalog.attributes["colour"]) == [None, "red"]


@pytest.fixture
def twice(tmp_path):
    path = tmp_path / "c.csv"
    path.write_text("sku,title,n\n1,shoe,1\n2,hat,2\n1,shoe,3\n2,cap,4\n3,belt,5\n")
    return path


def test_a_product_with_two_titles_names_both_rows(twice):
    with pytest.raises(ValueError, match="duplicates must be error, first or last; got 'any'"):
        read_catalog(twice, duplicates="any")
    with pytest.raises(DataError) as error:
        read_catalog(twice)
    assert f"got for '2': 'hat' in row 2 of {twice} and 'cap' in row 4 of {twice}" in str(
        error.value
    )


@pytest.mark.parametrize(
    ("duplicates", "titles", "numbers"),
    [("first", ["shoe", "hat", "belt"], [1, 2, 5]), ("last", ["shoe", "cap", "belt"], [3, 4, 5])],
)
def test_the_user_may_ask_for_the_first_or_the_last(twice, duplicates, titles, numbers, caplog):
    catalog = read_catalog(twice, duplicates=duplicates)
    assert list(catalog.ids) == ["1", "2", "3"]
    assert list(catalog.titles) == titles
    assert values_of(catalog.attributes["n"]) == numbers
    assert catalog.report.duplicates == 2
    assert "2 duplicates dropped" in caplog.text


def test_rows_without_id_or_title_are_counted(caplog):
    catalog = read_catalog(pd.DataFrame({"sku": ["1", None, "3"], "title": ["a", "b", None]}))
    assert list(catalog.ids) == ["1", "3"]
    assert list(catalog.titles) == ["a", ""]
    assert (catalog.report.without_product, catalog.report.without_title) == (1, 1)
    assert "1 without a product id dropped" in caplog.text


def test_an_id_of_blanks_is_none(tmp_path):
    (tmp_path / "c.csv").write_text('sku,title\n  ,a\n 2 ,b\n"",c\n')
    for source in (tmp_path / "c.csv", pa.table({"sku": ["  ", " 2 ", ""], "title": list("abc")})):
        catalog = read_catalog(source)
        assert list(catalog.ids) == [" 2 "]
        assert catalog.report.without_product == 2


def test_missing_columns_list_what_there_is(tmp_path):
    table = pa.table({"sku": ["1"], "label": ["a"]})
    with pytest.raises(
        DataError, match=r"title= must name a column, as none is called title, .*'sku', 'label'"
    ):
        read_catalog(table)
    with pytest.raises(
        DataError, match=r"attributes= must be columns; got 'price', .*'sku', 'label'"
    ):
        read_catalog(table, title="label", attributes=["price"])
    assert read_catalog(table, title="label", attributes=[]).attributes == {}


def test_a_catalog_says_what_it_holds():
    assert repr(read_catalog(pa.table({"sku": ["1"], "title": ["a"], "n": [1]}))) == (
        "Catalog(1 products; n (number))"
    )
    assert np.array_equal(
        read_catalog(pa.table(PRODUCTS)).attributes["price"].take(np.array([2])).values, [3.0]
    )


def test_texts_are_cleaned_of_markup(tmp_path):
    file = tmp_path / "products.csv"
    rows = ["1,S&amp;M <b>a</b>,B&amp;D,<b>red</b>,<p>Oak&nbsp;door</p>"]
    rows += ["2,b,B&D,x < y & z,", "3,c,,red,", "4,d,Acme,&nbsp;,"]
    file.write_text("\n".join(["sku,title,brand,color,description", *rows]))
    catalog = read_catalog(file)
    attributes = catalog.attributes
    assert (catalog.titles[0], catalog.descriptions[0]) == ("S&M a", "Oak door")
    assert attributes["brand"].to_list() == ["B&D", "B&D", None, "Acme"]
    assert list(attributes["brand"].categories) == ["Acme", "B&D"]  # one of each, sorted
    assert attributes["color"].to_list() == ["red", "x < y & z", "red", None]


def test_further_columns_are_searched_beside_the_title(tmp_path):
    file = tmp_path / "products.csv"
    file.write_text("sku,title,Brand,price,description\n1,door,A&amp;B,3,oak\n2,lamp,,4,\n")
    catalog = read_catalog(file, text=["brand", "description"])
    assert list(catalog.more_text) == ["A&B oak", ""]
    assert list(catalog.attributes) == ["Brand", "price"]
    products = make_products(Strings.of(["2", "gone", "1"]), catalog)
    opened = decode(Products, *encode(products))
    for each in (products, opened, pickle.loads(pickle.dumps(opened))):
        assert list(each.more_text) == ["", "", "A&B oak"]
    plain = make_products(catalog.ids, read_catalog(file))
    assert plain.more_text is None
    with pytest.raises(DataError, match="text= must name a column; got 'color'"):
        read_catalog(file, text=["color"])

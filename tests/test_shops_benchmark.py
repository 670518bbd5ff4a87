"""benchmarks/shops.py keeps each row, goes on after a stop, and prints what several files hold."""

import importlib
import json
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
SIZE = ["--kind", "shop", "--products", "200", "--queries", "400", "--sample", "60"]


@pytest.fixture
def shops(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    yield importlib.import_module("shops")
    for name in ("shops", "shop_methods", "shop_tables"):
        sys.modules.pop(name, None)


@pytest.fixture
def run(shops, monkeypatch, capsys):
    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["shops.py", *map(str, arguments)])
        shops.main()
        return capsys.readouterr().out

    return call


def test_rows_are_kept_and_a_second_call_goes_on_with_the_missing_ones(run, tmp_path):
    file = tmp_path / "shops.json"
    run(*SIZE, "--methods", "BM25", "--json", file)
    first = json.loads(file.read_text())[0]["rows"]
    text = run(*SIZE, "--methods", "BM25", "XR-Linear", "PECOS", "--json", file)
    (shop,) = json.loads(file.read_text())
    assert shop["rows"][:1] == first  # not measured again
    assert [row["name"] for row in shop["rows"]] == ["BM25", "XR-Linear", "PECOS"]
    assert "| PECOS | left out: no --pecos |" in text
    assert 0 < shop["rows"][1]["recall"]["all"]["100"][0] <= 1
    assert set(shop["rows"][1]["recall"]) > {"seen query", "warm product"}
    assert (shop["facts"]["products"], len(shop["rows"][1]["recalls"])) == (200, 60)


def test_tables_tell_the_papers_order_and_how_recall_falls(run, tmp_path):
    few, more = (make_file(tmp_path / f"{n}.json", n, recall) for n, recall in [(1, 0.9), (2, 0.4)])
    text = run("--tables", few, more)
    assert "| XR-Linear over BM25 | +90.0 (+90.0 to +90.0): confirmed | +90.0" in text
    assert "| shop, R@10/50/100 | 1 | 2 | p50, us |" in text
    assert "| XR-Linear | 90.0 / 90.0 / 90.0 | 40.0 / 40.0 / 40.0 | 7 / 7 |" in text
    assert "DSSM over BM25" not in text  # was not measured


def make_file(file, n_products, recall):
    """What was kept of a shop in which BM25 finds nothing."""
    facts = dict.fromkeys(importlib.import_module("shop_tables").ShopFacts.__slots__, 1)
    rows = [make_row("BM25", 0.0), make_row("XR-Linear", recall)]
    shop = {"kind": "shop", "products": n_products, "seconds": 1, "facts": facts, "rows": rows}
    file.write_text(json.dumps([shop]))
    return file


def make_row(name, recall):
    scores = {str(k): [recall, recall, recall] for k in (10, 50, 100)}
    row = {"name": name, "training_seconds": 1.0, "p50_us": 7.0, "p99_us": 9.0}
    return row | {"recall": {"all": scores}, "recalls": [[recall] * 3] * 20}


def test_a_method_that_is_not_known_is_refused(run, capsys):
    with pytest.raises(SystemExit):
        run(*SIZE, "--methods", "magic")
    assert "--methods must be all, or among match set" in capsys.readouterr().err

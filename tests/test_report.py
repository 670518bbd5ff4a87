"""The report shows what was found, with the same numbers everywhere and any titles."""

import csv
import getpass
import json
import re
import socket
from copy import deepcopy
from html.parser import HTMLParser
from pathlib import Path

import pytest
from experiments import BUDGET, CONFIG, HOSTILE, make_small

from matchset.cli.experiments import format_command
from matchset.data.split import SplitOptions
from matchset.lab.experiments.benchmark import take_test
from matchset.lab.experiments.comparison import run_comparison
from matchset.lab.experiments.contenders import FAST, OURS
from matchset.lab.experiments.store import Store
from matchset.lab.experiments.sweeps import SWEEP, find_graph, run_sweep
from matchset.lab.report import plots
from matchset.lab.report.figures import is_variant
from matchset.lab.report.formatting import (
    Html,
    foreign,
    format_bytes,
    format_latency,
    format_percent,
    format_points,
    format_seconds,
    join,
    tag,
)
from matchset.lab.report.page import require_plots, write_report
from matchset.lab.report.recall_tables import cost_table, recall_table
from matchset.lab.report.sections import the_papers_order
from matchset.lab.shop import simulate_shop
from matchset.matchers.registry import KINDS, find_kind
from matchset.matchers.xr_linear import XRLinearMatcher

ALLOWED = set(  # elements of the page, and those of its plots
    re.findall(
        r"\w+",
        """html head meta title style body main header section article h1 h2 h3 h4 p b i small
        table thead tbody tr th td ul ol li div span bdi dl dt dd figure figcaption pre br details
        summary svg g path defs use text rect clippath line polyline tspan""",
    )
)


class Page(HTMLParser):
    """What is on a page: elements, numbers, attributes, text."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.values, self.links, self.text = set(), [], [], ""
        self.rows, self._row = {}, None
        self.feed(text)

    def handle_starttag(self, name, attributes):
        found = dict(attributes)
        self.elements.add(name)
        self.links += [v for k, v in attributes if k in ("src", "href", "xlink:href", "action")]
        assert not any(key.startswith("on") for key in found)
        if name == "tr":
            self._row = found.get("data-row")
        if "data-value" in found:
            value = float(found["data-value"])
            self.values.append(value)
            self.rows.setdefault(self._row, []).append(value)

    def handle_data(self, data):
        self.text += data


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """A report over products with hostile titles, with a comparison and a sweep."""
    out = tmp_path_factory.mktemp("report")
    benchmark = make_small(titles=HOSTILE)
    comparison = run_comparison(
        benchmark, out, BUDGET, names=FAST, price_per_hour=1.0, command="matchset compare <x> & y"
    )
    matcher = XRLinearMatcher.load(out / "models" / OURS)
    graph, reason = find_graph(benchmark.qrels, out)
    sweep = run_sweep(
        matcher, benchmark.qrels, out, BUDGET, origin="a small shop", graph=graph, no_graph=reason
    )
    return write_report(out, comparison=comparison, sweep=sweep)


@pytest.fixture(scope="module")
def page(report):
    return Page(report.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def results(report):
    return json.loads(report.with_name("results.json").read_text())


def test_every_part_is_there_in_order(report):
    text = report.read_text(encoding="utf-8")
    names = ["adds", "data", "table", "loses", "ordering", "plots", "sweeps", "examples", "repeat"]
    assert re.findall(r'<section id="([a-z]+)"', text) == names
    for plot in ("segments", "latency", "throughput", "beams", "thresholds"):
        assert f'<figure id="plot-{plot}">' in text
    assert text.count('<svg role="img"') == 5


def test_tables_and_regions_have_names(report):
    text = report.read_text(encoding="utf-8")
    assert not re.search(r"<th[^>]*></th>", text)
    names = re.findall(r'role="region" aria-label="([^"]*)"', text)
    assert len(names) > 6
    assert len(set(names)) == len(names)


def test_titles_and_queries_stay_text(report, page):
    text = report.read_text(encoding="utf-8")
    assert page.elements <= ALLOWED, page.elements - ALLOWED
    assert "script" not in page.elements
    assert "<script>alert(1)</script>" in page.text  # shown as it is written
    assert "onerror=alert(2)" in page.text
    assert "\u202e" not in text  # nothing turns the direction of what follows
    assert "matchset compare <x> & y" in page.text
    assert "😀 تخفيضات" in page.text


def test_nothing_is_loaded_from_elsewhere(report, page):
    assert all(link.startswith("#") for link in page.links)
    text = report.read_text(encoding="utf-8")
    assert "default-src &#x27;none&#x27;" in text or "default-src 'none'" in text
    addresses = set(re.findall(r"https?://[^\s\"'<)]+", text))
    assert addresses <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
    assert "url(http" not in text


def test_nothing_on_the_page_names_this_machine(report):
    for file in (report, report.with_name("results.json"), report.with_name("results.csv")):
        text = file.read_text(encoding="utf-8")
        assert str(report.parent) not in text
        assert socket.gethostname() not in text
        assert f"/home/{getpass.getuser()}" not in text


def test_a_command_is_shown_without_paths_however_they_are_written(monkeypatch):
    given = ["sweep", "./own/model/", "a.csv", "/data//b.csv", "-o=out/", "--split", "auto"]
    monkeypatch.setattr("sys.argv", ["matchset", *given])
    shown = format_command(
        {"OUT": Path("out"), "MODEL": Path("own/model")}, ["a.csv", "/data/b.csv"]
    )
    assert shown == "matchset sweep MODEL LOG LOG1 -o=OUT --split auto"


def test_the_page_shows_the_numbers_of_the_results(page, results):
    known = set()

    def collect(value):
        if isinstance(value, dict):
            for part in value.values():
                collect(part)
        elif isinstance(value, list):
            for part in value:
                collect(part)
        elif isinstance(value, int | float):
            known.add(float(value))

    collect(results)
    assert len(page.values) > 200
    assert set(page.values) <= known
    for row in results["comparison"]["rows"]:
        if row["absent"] is None:
            shown = page.rows[row["name"]]
            recalls = [
                s["value"]
                for s in row["scores"]
                if s["segment"] == "all" and s["metric"] == "recall"
            ]
            assert shown[:3] == recalls
            assert row["train_seconds"] in shown
            assert row["latency"]["total_p99"] in shown


def test_the_table_holds_the_numbers_of_the_results(report, results):
    with report.with_name("results.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    found = {(r["table"], r["name"], r["measure"], r["k"], r["segment"]): r["value"] for r in rows}
    assert len(found) == len(rows)
    for row in results["comparison"]["rows"]:
        if row["absent"] is None:
            for score in row["scores"]:
                key = (
                    "comparison",
                    row["name"],
                    score["metric"],
                    str(score["k"]),
                    score["segment"],
                )
                wanted = "" if score["value"] is None else repr(score["value"])
                assert found[key] == wanted
                if score["metric"] == "recall":
                    more = (row["name"], f"{score['metric']}_ceiling", *key[3:])
                    wanted = "" if score["ceiling"] is None else repr(score["ceiling"])
                    assert found.get(("comparison", *more), "") == wanted
            key = ("comparison", row["name"], "disk_bytes", "", "")
            assert float(found[key]) == row["disk_bytes"]
    for row in results["sweep"]["beams"]:
        key = ("beams", f"beam {row['beam']}", "recall", "20", "all")
        assert float(found[key]) == row["recall"]["20"]["value"]


def test_the_best_recall_is_bold(report, results):
    text = report.read_text(encoding="utf-8")
    rows = [r for r in results["comparison"]["rows"] if r["absent"] is None]
    best = max(
        s["value"] for r in rows for s in r["scores"]
        if (s["segment"], s["metric"], s["k"]) == ("all", "recall", 20)
    )  # fmt: skip
    assert re.search(rf'data-value="{re.escape(repr(best))}"[^>]*><b>{100 * best:.1f}</b>', text)


def test_values_that_look_equal_are_equally_bold(results):
    found = deepcopy(results["comparison"])
    ours, other, floor = (
        next(row for row in found["rows"] if row["name"] == name)
        for name in (OURS, "bm25", "popularity")
    )
    for row, share, size in ((ours, 0.99994, 1000), (other, 0.99991, 1001), (floor, 0.99994, 999)):
        row["disk_bytes"] = size
        for score in row["scores"]:
            score["value"] = share
    bold = re.compile(r'<tr[^>]*data-row="([a-z0-9_]+)">(?:(?!</tr>).)*?<b>100.0</b>')
    assert set(bold.findall(recall_table(found))) == {OURS, "bm25"}
    small = re.compile(r'<tr[^>]*data-row="([a-z0-9_]+)">(?:(?!</tr>).)*?<b>0.00100\u00a0MB</b>')
    assert set(small.findall(cost_table(found))) == {OURS, "bm25"}


def test_without_dssm_nothing_is_said_of_it(page, results):
    assert all(row["absent"] for row in results["comparison"]["rows"] if "dssm" in row["name"])
    assert "Our DSSM is trained" not in page.text
    assert "the numbers are beams." in page.text
    assert "expansion_search of the graph" not in page.text
    found = deepcopy(results["comparison"])
    found["rows"] = [row | {"absent": None} for row in found["rows"]]
    assert "Our DSSM is trained" in the_papers_order(found)


def test_plots_follow_the_page(report):
    text = report.read_text(encoding="utf-8")
    assert "var(--c1)" in text
    assert "var(--kind-xr_linear)" in text
    assert f"--kind-bm25: color-mix(in oklab, {find_kind('bm25').color}," in text
    for color in plots.list_variables():
        assert color not in text
    ids = re.findall(r'\bid="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    used = set(re.findall(r'(?:href="#|url\(#)([^")]+)', text))
    assert used <= set(ids)


def test_findings_in_memory_and_from_disk_give_the_same_page(report):
    before = report.read_bytes()
    write_report(report.parent)
    assert report.read_bytes() == before
    assert not list(report.parent.glob(".*.html*"))


def test_findings_just_made_are_not_read_back(results, tmp_path, monkeypatch):
    def fail(*_):
        raise AssertionError("read from disk")

    monkeypatch.setattr(Store, "load_findings", fail)
    write_report(tmp_path, comparison=results["comparison"], sweep=results["sweep"])
    assert json.loads((tmp_path / "results.json").read_text()) == results


def test_the_papers_figures_are_those_of_its_table(results):
    table = recall_table(results["comparison"])
    shown = re.findall(r'<td class="n paper">([^<]+)</td>', table)
    assert shown == ["54.86", "57.70", "58.88", "60.30", "21.72"]  # DSSM was not run


def test_a_variant_has_the_color_of_its_kind_and_kinds_differ():
    assert len({plots.color_of(kind) for kind in KINDS}) == len(KINDS)
    assert len({plots.marker_of(kind) for kind in KINDS}) == len(KINDS)
    variant = {"name": "xr_linear_trigrams", "kind": "xr_linear"}
    assert is_variant(variant)
    assert not is_variant(variant | {"name": "xr_linear"})


def test_a_sweep_of_another_test_is_left_out(report, tmp_path):
    out = tmp_path / "mixed"
    benchmark = make_small(plan=SplitOptions(sample=50))
    run_comparison(benchmark, out, BUDGET, names=["popularity"])
    swept = Store(report.parent).load_findings(SWEEP)
    Store(out).save_findings(SWEEP, swept)
    text = write_report(out).read_text(encoding="utf-8")
    assert "is of other test data" in text
    assert json.loads((out / "results.json").read_text())["sweep"] is None


def test_a_sweep_alone_is_a_report_too(report, tmp_path):
    Store(tmp_path).save_findings(SWEEP, Store(report.parent).load_findings(SWEEP))
    page = Page(write_report(tmp_path).read_text(encoding="utf-8"))
    assert "Pruning, at beam 10" in page.text
    assert "What each matcher finds" not in page.text
    assert "What pruning and the beam cost" in page.text
    assert re.search(r"Measured on [\d,]+ test queries of a small shop, \d{4}-", page.text)
    with pytest.raises(FileNotFoundError, match="must hold a comparison or a sweep; got neither"):
        write_report(tmp_path / "nothing")


def test_a_graph_is_taken_only_from_a_comparison_with_the_same_test(report):
    log = simulate_shop(products=300, queries=900, seed=5).log
    graph, reason = find_graph(take_test(log, CONFIG, SplitOptions(split="none")), report.parent)
    assert graph is None
    assert "matchset compare" in reason


def test_without_matplotlib_it_is_an_error_before_any_work(monkeypatch):
    def refuse(name):
        raise ImportError(name)

    monkeypatch.setattr(plots, "import_module", refuse)
    with pytest.raises(ImportError, match=r"pip install 'matplotlib>=[0-9.]+'"):
        require_plots()


def test_parts_that_are_not_html_are_escaped():
    assert tag("p", "a < b", Html("<b>c</b>"), None, title='"x"') == (
        '<p title="&quot;x&quot;">a &lt; b<b>c</b></p>'
    )
    assert join(["<", Html("<br>")]) == "&lt;<br>"
    assert foreign("a\u202eb\x00c") == "<bdi>abc</bdi>"
    assert tag("meta", charset="utf-8") == '<meta charset="utf-8">'


def test_numbers_are_readable():
    assert format_percent(0.1234) == "12.3\u00a0%"
    assert format_points(-0.0123) == "−1.2"
    assert format_latency(12.3e-6) == "12.3\u00a0µs"
    assert format_latency(0.00123) == "1.23\u00a0ms"
    assert format_latency(0.0) == "–"
    assert format_seconds(3.14159) == "3.14\u00a0s"
    assert format_seconds(600) == "10.0\u00a0min"
    assert format_bytes(1.5e6) == "1.50\u00a0MB"
    assert format_bytes(2.5e9) == "2.50\u00a0GB"

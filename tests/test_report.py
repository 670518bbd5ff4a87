"""The report tells what was found, in the same numbers everywhere, whatever titles hold."""

import csv
import getpass
import json
import re
import socket
from copy import deepcopy
from html.parser import HTMLParser
from pathlib import Path

import pytest
from experiments import CONFIG, EFFORT, HOSTILE, make_small

from matchset.cli.experiments import format_command
from matchset.data.split import SplitOptions
from matchset.lab.experiments.benchmark import take_test
from matchset.lab.experiments.comparison import run_comparison
from matchset.lab.experiments.contenders import FAST, OURS
from matchset.lab.experiments.store import Store
from matchset.lab.experiments.sweeps import SWEEP, find_graph, run_sweep
from matchset.lab.report import plots
from matchset.lab.report.formatting import (
    Html,
    foreign,
    join,
    megabytes,
    moment,
    percent,
    points,
    seconds,
    tag,
)
from matchset.lab.report.page import require_plots, write_report
from matchset.lab.report.recall_tables import cost_table, recall_table
from matchset.lab.report.sections import the_ordering
from matchset.lab.shop import simulate_shop
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
def told(tmp_path_factory):
    """A report over products with hostile titles, with a comparison and a sweep."""
    out = tmp_path_factory.mktemp("report")
    problem = make_small(titles=HOSTILE)
    run_comparison(
        problem, out, EFFORT, names=FAST, price_per_hour=1.0, command="matchset compare <x> & y"
    )
    matcher = XRLinearMatcher.load(out / "models" / OURS)
    graph, reason = find_graph(problem.questions, out)
    run_sweep(
        matcher, problem.questions, out, EFFORT, origin="a small shop", graph=graph, no_graph=reason
    )
    return write_report(out)


@pytest.fixture(scope="module")
def page(told):
    return Page(told.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def results(told):
    return json.loads(told.with_name("results.json").read_text())


def test_every_part_is_there_in_order(told):
    text = told.read_text(encoding="utf-8")
    names = ["adds", "data", "table", "loses", "ordering", "plots", "sweeps", "examples", "repeat"]
    assert re.findall(r'<section id="([a-z]+)"', text) == names
    for plot in ("segments", "latency", "throughput", "beams", "thresholds"):
        assert f'<figure id="plot-{plot}">' in text
    assert text.count('<svg role="img"') == 5


def test_tables_and_regions_have_names(told):
    text = told.read_text(encoding="utf-8")
    assert not re.search(r"<th[^>]*></th>", text)
    names = re.findall(r'role="region" aria-label="([^"]*)"', text)
    assert len(names) > 6
    assert len(set(names)) == len(names)


def test_titles_and_queries_stay_text(told, page):
    text = told.read_text(encoding="utf-8")
    assert page.elements <= ALLOWED, page.elements - ALLOWED
    assert "script" not in page.elements
    assert "<script>alert(1)</script>" in page.text  # shown as it is written
    assert "onerror=alert(2)" in page.text
    assert "\u202e" not in text  # nothing turns the direction of what follows
    assert "matchset compare <x> & y" in page.text
    assert "😀 تخفيضات" in page.text


def test_nothing_is_loaded_from_elsewhere(told, page):
    assert all(link.startswith("#") for link in page.links)
    text = told.read_text(encoding="utf-8")
    assert "default-src &#x27;none&#x27;" in text or "default-src 'none'" in text
    addresses = set(re.findall(r"https?://[^\s\"'<)]+", text))
    assert addresses <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
    assert "url(http" not in text


def test_nothing_on_the_page_names_this_machine(told):
    for file in (told, told.with_name("results.json"), told.with_name("results.csv")):
        text = file.read_text(encoding="utf-8")
        assert str(told.parent) not in text
        assert socket.gethostname() not in text
        assert f"/home/{getpass.getuser()}" not in text


def test_a_command_is_told_without_paths_however_they_are_written(monkeypatch):
    given = ["sweep", "./own/model/", "a.csv", "/data//b.csv", "-o=out/", "--split", "auto"]
    monkeypatch.setattr("sys.argv", ["matchset", *given])
    hidden = {"OUT": Path("out"), "MODEL": Path("own/model")}
    told = format_command(hidden, ["a.csv", "/data/b.csv"])
    assert told == "matchset sweep MODEL LOG LOG1 -o=OUT --split auto"


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


def test_the_table_holds_the_numbers_of_the_results(told, results):
    with told.with_name("results.csv").open(newline="") as file:
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


def test_the_best_recall_is_bold(told, results):
    text = told.read_text(encoding="utf-8")
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
    bold = re.compile(r'<tr[^>]*data-row="([a-z0-9-]+)">(?:(?!</tr>).)*?<b>100.0</b>')
    assert set(bold.findall(recall_table(found))) == {OURS, "bm25"}
    small = re.compile(r'<tr[^>]*data-row="([a-z0-9-]+)">(?:(?!</tr>).)*?<b>0.00100\u00a0MB</b>')
    assert set(small.findall(cost_table(found))) == {OURS, "bm25"}


def test_without_dssm_nothing_is_said_of_it(page, results):
    assert all(row["absent"] for row in results["comparison"]["rows"] if "dssm" in row["name"])
    assert "Our DSSM is trained" not in page.text
    assert "numbers are beams." in page.text
    assert "expansion_search of the graph" not in page.text
    found = deepcopy(results["comparison"])
    found["rows"] = [row | {"absent": None} for row in found["rows"]]
    assert "Our DSSM is trained" in the_ordering(found)


def test_plots_follow_the_page(told):
    text = told.read_text(encoding="utf-8")
    assert "var(--c1)" in text
    for color in plots.VARIABLES:
        assert color not in text
    ids = re.findall(r'\bid="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    used = set(re.findall(r'(?:href="#|url\(#)([^")]+)', text))
    assert used <= set(ids)


def test_the_same_findings_give_the_same_page(told):
    before = told.read_bytes()
    write_report(told.parent)
    assert told.read_bytes() == before
    assert not list(told.parent.glob(".*.html*"))


def test_a_sweep_of_another_test_is_left_out(told, tmp_path):
    out = tmp_path / "mixed"
    problem = make_small(plan=SplitOptions(sample=50))
    run_comparison(problem, out, EFFORT, names=["popularity"])
    swept = Store(told.parent).find_findings(SWEEP)
    Store(out).keep_findings(SWEEP, swept)
    text = write_report(out).read_text(encoding="utf-8")
    assert "of other test data" in text
    assert json.loads((out / "results.json").read_text())["sweep"] is None


def test_a_sweep_alone_is_a_report_too(told, tmp_path):
    Store(tmp_path).keep_findings(SWEEP, Store(told.parent).find_findings(SWEEP))
    page = Page(write_report(tmp_path).read_text(encoding="utf-8"))
    assert "Pruning, at beam 10" in page.text
    assert "What matchset finds" not in page.text
    assert "What pruning and the beam cost" in page.text
    assert re.search(r"Measured on [\d,]+ test queries of a small shop, \d{4}-", page.text)
    with pytest.raises(FileNotFoundError, match="must hold a comparison or a sweep; got neither"):
        write_report(tmp_path / "nothing")


def test_a_graph_is_taken_only_from_a_comparison_that_was_asked_the_same(told):
    log = simulate_shop(products=300, queries=900, seed=5).log
    graph, reason = find_graph(take_test(log, CONFIG, SplitOptions(split="none")), told.parent)
    assert graph is None
    assert "matchset compare" in reason


def test_without_matplotlib_one_is_told_before_any_work(monkeypatch):
    def refuse(name):
        raise ImportError(name)

    monkeypatch.setattr(plots, "import_module", refuse)
    with pytest.raises(ImportError, match=r"pip install 'matchset\[report\]'"):
        require_plots()


def test_parts_that_are_not_html_are_escaped():
    assert tag("p", "a < b", Html("<b>c</b>"), None, title='"x"') == (
        '<p title="&quot;x&quot;">a &lt; b<b>c</b></p>'
    )
    assert join(["<", Html("<br>")]) == "&lt;<br>"
    assert foreign("a\u202eb\x00c") == "<bdi>abc</bdi>"
    assert tag("meta", charset="utf-8") == '<meta charset="utf-8">'


def test_numbers_are_readable():
    assert percent(0.1234) == "12.3\u00a0%"
    assert points(-0.0123) == "−1.2"
    assert moment(12.3e-6) == "12.3\u00a0µs"
    assert moment(0.00123) == "1.23\u00a0ms"
    assert moment(0.0) == "–"
    assert seconds(3.14159) == "3.14\u00a0s"
    assert seconds(600) == "10.0\u00a0min"
    assert megabytes(1.5e6) == "1.50\u00a0MB"
    assert megabytes(2.5e9) == "2.50\u00a0GB"

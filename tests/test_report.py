"""The report shows what was found, with the same numbers everywhere and any titles."""

import csv
import getpass
import json
import re
import socket
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from experiments import BUDGET, CONFIG, HOSTILE, make_small

from matchset.cli.experiments import format_command
from matchset.data.split import SplitOptions
from matchset.evaluate.calibration import ReliabilityBin
from matchset.evaluate.overlap import Share
from matchset.lab.experiments.benchmark import take_test
from matchset.lab.experiments.comparison import run_comparison
from matchset.lab.experiments.contenders import FAST, OURS
from matchset.lab.experiments.findings import RESULTS, Row, read_findings, to_plain
from matchset.lab.experiments.sweeps import find_graph, run_sweep
from matchset.lab.report import plots
from matchset.lab.report.figures import fill_of, is_variant
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
from matchset.lab.report.inside import inside_the_match_set
from matchset.lab.report.page import require_plots, write_report
from matchset.lab.report.paper import order_table, paper_table, the_paper
from matchset.lab.report.recall_tables import cost_table, recall_table
from matchset.lab.report.verdict import describe_verdict, list_verdict
from matchset.lab.report.weaknesses import side_by_side
from matchset.lab.shop import simulate_shop
from matchset.matchers.bm25 import BM25
from matchset.matchers.match_set import MatchSet
from matchset.matchers.recorded_run import record_run
from matchset.matchers.registry import KINDS, find_kind

ALLOWED = set(  # elements of the page, and those of its plots
    re.findall(
        r"\w+",
        """html head meta title style body main header nav a section article h1 h2 h3 h4 p b i small
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
    """A report over products with hostile titles, with an own engine, a comparison and a sweep."""
    out = tmp_path_factory.mktemp("report")
    benchmark = make_small(titles=HOSTILE).named("Our <shop>", "May & June")
    engine = BM25.from_catalog(benchmark.catalog)
    comparison = run_comparison(
        benchmark,
        out,
        BUDGET,
        names=FAST,
        runs={"mine": record_run(engine.match, list(benchmark.qrels.queries)[5:], 20)},
        price_per_hour=1.0,
        command="matchset compare <x> & y",
    )
    write_report(out, comparison=comparison)
    graph, reason = find_graph(benchmark.qrels, out)
    sweep = run_sweep(
        MatchSet.load(out / "models" / OURS),
        benchmark.qrels,
        out,
        BUDGET,
        origin="a small shop",
        graph=graph,
        no_graph=reason,
    )
    return write_report(out, sweep=sweep)


@pytest.fixture(scope="module")
def page(report):
    return Page(report.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def results(report):
    return json.loads(report.with_name("results.json").read_text())


@pytest.fixture(scope="module")
def found(report):
    return read_findings(report.parent).comparison


def test_every_part_is_there_in_order_and_in_the_contents(report):
    text = report.read_text(encoding="utf-8")
    names = ["verdict", "adds", "table", "loses", "segments", "inside", "examples", "sweeps",
             "data", "repeat", "paper"]  # fmt: skip
    assert re.findall(r'<section id="([a-z]+)"', text) == names
    assert re.findall(r'<li><a href="#([a-z]+)">', text) == names[1:]
    for plot in ("segments", "latency", "cutoffs", "throughput", "beams", "thresholds"):
        assert f'<figure id="plot-{plot}">' in text
    assert text.count('<svg role="img"') == 7


def test_the_data_has_a_name_and_the_report_a_title(page):
    assert "May & June" in page.text
    assert "Our <shop>: 203 test queries" in page.text


def test_the_verdict_says_what_is_gained_and_what_it_costs(found, page):
    headline, *facts = list_verdict(found)
    assert headline == "Yes: the match set finds more than mine."
    gap = found.difference(OURS, "run_mine", 5)
    assert f"Of 1,000 searches, {1000 * gap.searches.value:.0f} more have a bought" in facts[0]
    assert "5 of 203 test queries are not in its file" in " ".join(facts)
    best = max(r.recall(20) for r in found.present() if r.group != "ablation")
    assert f"{100 * best:.1f}\u00a0%" in " ".join(facts)  # the best row is never hidden
    assert "on disk" in facts[-1]
    assert "per query" in facts[-1]
    assert describe_verdict(found).splitlines()[0] == headline
    for line in facts:
        assert line in page.text


def test_the_verdict_is_no_where_the_own_engine_finds_more(found):
    worse = tuple(
        replace(d, value=-0.1, low=-0.2, high=-0.05, p_holm=0.001, searches=Share(-0.1, -0.2, 0))
        for d in found.differences
    )
    lost = replace(found, differences=worse)
    headline, *facts = list_verdict(lost)
    assert headline == "No: on this data mine finds more, and the match set adds nothing to it."
    assert "100 fewer have a bought product" in facts[0]
    unclear = tuple(replace(d, p_holm=1.0) for d in found.differences)
    headline = list_verdict(replace(found, differences=unclear))[0]
    assert headline.startswith("Not shown: the difference from")
    beside = tuple(
        d if d.first.startswith("fusion") else replace(d, value=-0.1) for d in found.differences
    )
    headline = list_verdict(replace(found, differences=beside))[0]
    assert headline == "Yes, together with mine: both find more than mine alone."


def test_learned_scores_are_held_against_the_test_and_parts_have_their_worth(found):
    learned = {
        "is_learned": True,
        "queries": 300,
        "positives": 400,
        "recall": {"all": [0.5, 0.6, 0.7], "without tree": [0.4, 0.6, 0.71]},
    }
    bins = (ReliabilityBin(0.0, 900, 0.01, 0.02), ReliabilityBin(0.5, 600, 0.55, 0.5))
    facts = replace(found.match_set, learned=learned, reliability=bins)
    shown = inside_the_match_set(replace(found, match_set=facts))
    assert 'id="plot-reliability"' in shown
    assert "0.55: 0.50 of 600" in shown
    assert "A product that nobody bought may still be relevant" in shown
    row = re.search(r"tree</th>(.*?)</tr>", shown)[1]
    assert re.findall(r">([+−][\d.]+)<", row) == ["+10.0", "+0.0", "−1.0"]
    few = replace(facts, learned=learned | {"positives": 99})
    shown = inside_the_match_set(replace(found, match_set=few))
    assert 'id="plot-reliability"' not in shown
    assert "they order, but are no probabilities" in shown


def test_a_product_that_nobody_rated_is_not_called_wrong(found):
    assert "✗" not in side_by_side(found)
    assert "not bought in the test, which does not mean that it is wrong" in side_by_side(found)
    rated = replace(found, data=replace(found.data, is_rated=True, relevant_means="relevant"))
    assert "not judged" in side_by_side(rated)
    assert "Of 1,000 queries" in list_verdict(rated)[1]


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
        if not row["absent"]:
            shown = page.rows[row["name"]]
            recalls = [
                s["value"]
                for s in row["scores"]
                if s["segment"] == "all" and s["metric"] == "recall"
            ]
            assert shown[:3] == recalls
            if row["cost"] is not None and row["group"] in ("ours", "fusion", "baseline"):
                assert row["cost"]["train_seconds"] in shown
                assert row["cost"]["latency"]["total_p99"] in shown


def test_the_table_holds_the_numbers_of_the_results(report, results):
    with report.with_name("results.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    found = {(r["table"], r["name"], r["measure"], r["k"], r["segment"]): r["value"] for r in rows}
    assert len(found) == len(rows)
    for row in results["comparison"]["rows"]:
        if not row["absent"]:
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
                    more = (row["name"], "recall_seen_limit", *key[3:])
                    wanted = "" if score["seen_limit"] is None else repr(score["seen_limit"])
                    assert found.get(("comparison", *more), "") == wanted
            if row["cost"] is not None:
                key = ("comparison", row["name"], "disk_bytes", "", "")
                assert float(found[key]) == row["cost"]["disk_bytes"]
    for row in results["sweep"]["beams"]:
        key = ("beams", f"beam {row['setting']:g}", "recall", "20", "all")
        assert float(found[key]) == row["recall"]["20"]["value"]


def test_the_best_recall_is_bold(report, results):
    text = report.read_text(encoding="utf-8")
    rows = [r for r in results["comparison"]["rows"] if r["group"] not in ("ablation", "paper")]
    best = max(
        s["value"] for r in rows for s in r["scores"]
        if (s["segment"], s["metric"], s["k"]) == ("all", "recall", 20)
    )  # fmt: skip
    assert re.search(rf'data-value="{re.escape(repr(best))}"[^>]*><b>{100 * best:.1f}</b>', text)


def test_values_that_look_equal_are_equally_bold(found):
    sizes = {OURS: (0.99994, 1000), "bm25": (0.99991, 1001), "popularity": (0.99994, 999)}
    rows = []
    for name, (share, size) in sizes.items():
        row = found.row(name)
        scores = tuple(replace(score, value=share) for score in row.scores)
        rows.append(replace(row, scores=scores, cost=replace(row.cost, disk_bytes=size)))
    found = replace(found, rows=tuple(rows))
    bold = re.compile(r'<tr[^>]*data-row="([a-z0-9_]+)">(?:(?!</tr>).)*?<b>100.0</b>')
    assert set(bold.findall(recall_table(found))) == {OURS, "bm25"}
    small = re.compile(r'<tr[^>]*data-row="([a-z0-9_]+)">(?:(?!</tr>).)*?<b>0.00100\u00a0MB</b>')
    assert set(small.findall(cost_table(found))) == {OURS, "bm25"}


def test_without_dssm_nothing_is_said_of_it(page, found):
    assert all(row.absent for row in found.rows if "dssm" in row.name)
    assert "Our DSSM is trained" not in page.text
    assert "the numbers are beams." in page.text
    assert "expansion_search of the graph" not in page.text
    present = replace(found, rows=tuple(replace(row, absent="") for row in found.rows))
    assert "Our DSSM is trained" in the_paper(present)


def test_plots_follow_the_page(report):
    text = report.read_text(encoding="utf-8")
    assert "var(--c1)" in text
    assert "var(--kind-match_set)" in text
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


def test_findings_are_written_once_and_read_as_what_they_are(report, results, tmp_path):
    read = read_findings(report.parent)
    assert {"matchset": 2, **to_plain(read)} == results
    write_report(tmp_path, comparison=read.comparison, sweep=read.sweep)
    assert json.loads((tmp_path / "results.json").read_text()) == results
    for damaged in ("{", "[]", '{"matchset": 1}', '{"matchset": 2, "comparison": {}, "sweep": 3}'):
        (tmp_path / RESULTS).write_text(damaged)
        assert read_findings(tmp_path).comparison is None


def test_the_papers_figures_are_those_of_its_table(found):
    table = paper_table(found)
    shown = re.findall(r'<td class="n paper">([^<]+)</td>', table)
    assert shown == ["54.86", "57.70", "58.88", "60.30", "21.72"]  # DSSM was not run


def test_the_papers_order_is_told_at_each_k_since_it_may_change_with_k(found):
    pair, ks = ("xr_linear_trigrams", "bm25"), found.setting.ks
    signs = dict(zip(ks, (1, 0, -1), strict=True))
    changed = tuple(
        replace(d, value=sign / 10, low=sign / 10 - 0.01, high=sign / 10 + 0.01, p_holm=0.001)
        for d in found.differences
        if (d.first, d.second) == pair
        for sign in [signs[d.k]]
    )
    table = order_table(replace(found, differences=changed))
    line = next(line for line in table.split("<tr>") if "trigrams (1.4\u00a0V) over BM25" in line)
    assert re.findall(r'<td class="verdict[^>]*>([^<]+)<', line) == [
        "confirmed",
        "not significant",
        "reversed",
    ]
    assert "not measured" in table  # the other pairs
    for k in ks:
        assert f"Recall@{k}, points" in table


def test_a_variant_has_the_color_of_its_kind_and_kinds_differ():
    assert len({plots.color_of(kind) for kind in KINDS}) == len(KINDS)
    assert len({plots.marker_of(kind) for kind in KINDS}) == len(KINDS)
    variant = Row("bm25_stemmed", "bm25", "BM25, stemmed", "baseline")
    assert is_variant(variant)
    assert not is_variant(replace(variant, name="bm25"))
    other, own = replace(variant, name="bm25_other"), replace(variant, name="bm25")
    drawn = [own, variant, other]
    assert len({fill_of(row, drawn) for row in drawn}) == 3


def test_a_sweep_of_another_test_is_left_out(report, tmp_path):
    out = tmp_path / "mixed"
    benchmark = make_small(plan=SplitOptions(sample=50))
    comparison = run_comparison(benchmark, out, BUDGET, names=["popularity"])
    write_report(out, sweep=read_findings(report.parent).sweep)
    text = write_report(out, comparison=comparison).read_text(encoding="utf-8")
    assert "is of other test data" in text
    assert json.loads((out / "results.json").read_text())["sweep"] is None


def test_a_sweep_alone_is_a_report_too(report, tmp_path):
    alone = write_report(tmp_path, sweep=read_findings(report.parent).sweep)
    page = Page(alone.read_text(encoding="utf-8"))
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

"""The report shows what was found, with the same numbers everywhere and any titles."""

import csv
import getpass
import json
import re
import socket
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from experiments import BUDGET, FAST, HOSTILE, make_small

from matchset.data.split import SplitOptions
from matchset.evaluate.calibration import ReliabilityBin
from matchset.evaluate.overlap import Share
from matchset.lab.compare_command import format_command
from matchset.lab.experiments.comparison import run_comparison
from matchset.lab.experiments.contenders import OURS
from matchset.lab.experiments.findings import FORMAT, RESULTS, Findings, Row, read_findings
from matchset.lab.experiments.store import RESULT
from matchset.lab.experiments.sweeps import run_sweep
from matchset.lab.report import plots
from matchset.lab.report.comparison_tables import cost_table, recall_table
from matchset.lab.report.figures import fill_of, is_variant
from matchset.lab.report.formats import (
    format_bytes,
    format_latency,
    format_percent,
    format_points,
    format_seconds,
)
from matchset.lab.report.page import make_page, require_plots, write_report
from matchset.lab.report.verdict import describe_verdict, find_verdict
from matchset.matchers.bm25 import BM25
from matchset.matchers.match_set import MatchSet
from matchset.matchers.recorded_run import record_run
from matchset.matchers.registry import KINDS, find_kind
from matchset.storage.codec import encode
from matchset.storage.file import open_file

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
def benchmark():
    return make_small(titles=HOSTILE).named("Our <shop>")


@pytest.fixture(scope="module")
def report(benchmark, tmp_path_factory):
    """A report over products with hostile titles, with an own engine, a comparison and a sweep."""
    out = tmp_path_factory.mktemp("report")
    engine = BM25.from_catalog(benchmark.catalog)
    comparison = run_comparison(
        benchmark,
        out,
        BUDGET,
        names=FAST,
        runs={"mine": record_run(engine.match, list(benchmark.qrels.queries)[5:], 20)},
        command="matchset compare <x> & y",
    )
    write_report(out, comparison=comparison)
    sweep = run_sweep(
        MatchSet.load(out / "models" / OURS),
        benchmark.qrels,
        out,
        BUDGET,
        origin="a small shop",
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


def show(found, **changes):
    """Return the page of a comparison some fields of which are changed."""
    return make_page(Findings(replace(found, **changes)))


def change_all(found, **changes):
    """Return the comparison with each difference changed."""
    changed = tuple(replace(difference, **changes) for difference in found.differences)
    return replace(found, differences=changed)


def test_every_part_is_there_in_order_and_in_the_contents(report):
    text = report.read_text(encoding="utf-8")
    names = ["verdict", "adds", "table", "loses", "segments", "inside", "examples", "sweeps",
             "data", "paper", "repeat"]  # fmt: skip
    assert re.findall(r'<section id="([a-z]+)"', text) == names
    assert re.findall(r'<li><a href="#([a-z]+)">', text) == names[1:]
    for plot in ("segments", "latency", "cutoffs", "throughput", "beams", "thresholds"):
        assert f'<figure id="plot-{plot}">' in text
    assert text.count('<svg role="img"') == 7


def test_the_data_has_a_name(page):
    assert "Our <shop>: 203 test queries" in page.text


def test_the_verdict_says_what_is_gained_and_what_it_costs(found, page):
    verdict = find_verdict(found)
    facts = " ".join(verdict.facts)
    assert verdict.headline == "Yes: the match set finds more than mine."
    assert "5 of 203 test queries are not in its file" in facts
    best = max(r.recall(20) for r in found.present() if r.group != "ablation")
    assert f"{100 * best:.1f}\u00a0%" in facts  # the best row is never hidden
    assert "on disk" in verdict.facts[-1]
    assert "per query" in verdict.facts[-1]
    assert describe_verdict(found).splitlines()[0] == verdict.headline
    for line in verdict.facts:
        assert line in page.text


@pytest.mark.parametrize("is_rated", [False, True])
def test_each_sentence_of_the_verdict_is_recomputed_from_the_stored_rows(
    benchmark, report, found, is_rated
):
    recalls = {
        name: open_file(report.parent / "rows" / name, RESULT).arrays["recalls"]
        for name in (OURS, "run_mine", "fusion_rrf_run_mine")
    }
    assert found.data.is_rated is False
    judged = replace(found, data=replace(found.data, is_rated=is_rated))
    facts = find_verdict(judged).facts
    weights = np.ones(len(benchmark.qrels)) if is_rated else benchmark.qrels.traffic
    assert is_rated or len(set(weights)) > 1
    hits = {name: (table[:, 0] > 0).astype(float) for name, table in recalls.items()}
    gain = np.average(hits[OURS] - hits["run_mine"], weights=weights)
    counted = "queries" if is_rated else r"searches \(each query by its traffic\)"
    sentence = rf"Of 1,000 {counted}, (\S+) more have a bought product among the first 5"
    shown = re.match(sentence, facts[0])[1]
    assert float(shown) == pytest.approx(1000 * gain, abs=0.5)
    ours, mine = (float(np.mean(recalls[name][:, -1])) for name in (OURS, "run_mine"))
    sentence = (
        f"Recall@20, as a mean over queries: {format_percent(ours)} against "
        f"{format_percent(mine)}, {format_points(ours - mine)} points"
    )
    assert any(fact.startswith(sentence) for fact in facts)
    fusion = float(np.mean(recalls["fusion_rrf_run_mine"][:, -1]))
    assert any(
        fact.startswith("Both together") and format_percent(fusion) in fact for fact in facts
    )


UP, DOWN, UNSURE = Share(0.1, 0.05, 0.2), Share(-0.1, -0.2, -0.05), Share(0.1, -0.05, 0.2)


@pytest.mark.parametrize(
    ("recall", "hits", "p", "headline"),
    [
        (UP, UP, 0.001, "Yes: the match set finds more than mine."),
        (DOWN, DOWN, 0.001, "No: on this data mine finds more"),
        (UP, DOWN, 0.001, "Not shown"),
        (DOWN, UP, 0.001, "Not shown"),
        (UP, UNSURE, 0.001, "Not shown"),
        (UNSURE, UP, 0.001, "Not shown"),
        (UP, UP, 1.0, "Not shown"),
    ],
)
def test_the_headline_agrees_with_what_is_below_it(found, recall, hits, p, headline):
    bounds = {"value": recall.value, "low": recall.low, "high": recall.high, "p_holm": p}
    verdict = find_verdict(change_all(found, **bounds, searches=hits))
    assert verdict.headline.startswith(headline)
    assert ("fewer have" in verdict.facts[0]) == (hits.value < 0)
    is_wide = "interval wider than the effect" in verdict.facts[0]
    assert is_wide == (hits.high - hits.low > abs(hits.value))


def test_a_fusion_that_finds_more_is_what_the_verdict_counts(found):
    lost = tuple(
        replace(d, value=UP.value, low=UP.low, high=UP.high, p_holm=0.001, searches=UP)
        if d.first.startswith("fusion")
        else replace(d, value=DOWN.value, low=DOWN.low, high=DOWN.high, searches=DOWN)
        for d in found.differences
    )
    headline, (first, *_) = find_verdict(replace(found, differences=lost))
    assert headline == "Yes, together with mine: both find more than mine alone."
    assert "100 more have a bought product among the first 5 of Match set + mine" in first


def test_new_products_are_judged_apart_and_a_loss_on_them_is_red(found, page):
    facts = " ".join(find_verdict(found).facts)
    assert "On new products (not in training): Recall@20" in facts
    assert "On products of training: Recall@20" in facts

    def worsen(row):
        scores = tuple(
            replace(score, value=0.1, low=0.05, high=0.15)
            if (row.name, score.segment) == (OURS, "cold product")
            else score
            for score in row.scores
        )
        return replace(row, scores=scores)

    shown = show(found, rows=tuple(map(worsen, found.rows)))
    assert '<li class="loss">It loses on new products (not in training): Recall@20 10.0' in shown

    def forget(row):
        return replace(row, scores=tuple(s for s in row.scores if s.segment != "cold product"))

    blind = find_verdict(replace(found, rows=tuple(map(forget, found.rows))))
    assert blind.facts[0].startswith("This log cannot judge new products")


def test_learned_scores_are_held_against_the_test_and_parts_have_their_worth(found):
    learned = {
        "is_learned": True,
        "queries": 300,
        "positives": 400,
        "recall": {"all": [0.5, 0.6, 0.7], "without tree": [0.4, 0.6, 0.71]},
    }
    bins = (ReliabilityBin(0.0, 900, 0.01, 0.02), ReliabilityBin(0.5, 600, 0.55, 0.5))
    facts = replace(found.match_set, learned=learned, reliability=bins)
    shown = show(found, match_set=facts)
    assert 'id="plot-reliability"' in shown
    assert "0.55: 0.50 of 600" in shown
    assert "A product that nobody\nbought may still be relevant" in shown
    row = re.search(r">tree</th>(.*?)</tr>", shown, re.DOTALL)[1]
    assert re.findall(r">([+−][\d.]+)<", row) == ["+10.0", "+0.0", "−1.0"]
    shown = show(found, match_set=replace(facts, learned=learned | {"positives": 99}))
    assert 'id="plot-reliability"' not in shown
    assert "they order, but are no probabilities" in shown


def test_a_product_that_nobody_rated_is_not_called_wrong(found, page):
    assert "✗" not in page.text
    assert "not bought in the test, which does not mean that it is wrong" in page.text
    rated = replace(found.data, is_rated=True, relevant_means="relevant")
    assert "not judged" in show(found, data=rated)


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
        assert float(found[key]) == row["recall"][-1]["value"]


def test_what_looks_best_is_bold_alike(found, report):
    ours, other, floor = (found.row(name) for name in (OURS, "bm25", "popularity"))
    sizes = ((ours, 0.99994, 1000), (other, 0.99991, 1001), (floor, 0.99994, 999))
    rows = []
    for row, share, size in sizes:
        scores = tuple(replace(score, value=share) for score in row.scores)
        rows.append(replace(row, scores=scores, cost=replace(row.cost, disk_bytes=size)))
    found = replace(found, rows=tuple(rows))
    for table, text in ((recall_table(found), "100.0"), (cost_table(found), "0.00100\u00a0MB")):
        lines = [line for lines in table.groups.values() for line in lines]
        cells = [(line.name, cell.text) for line in lines for cell in line.cells if cell.is_best]
        assert {name for name, shown in cells if shown == text} == {OURS, "bm25"}
    assert "><b>" in report.read_text(encoding="utf-8")


def test_without_dssm_nothing_is_said_of_it(page, found):
    assert all(row.absent for row in found.rows if "dssm" in row.name)
    assert "Our DSSM is trained" not in page.text
    assert "the numbers are beams." in page.text
    present = tuple(
        replace(row, absent="", features=1) if row.name == "dssm" else row for row in found.rows
    )
    assert "Our DSSM is trained" in show(found, rows=present)


def test_rows_that_were_not_run_are_named_once_at_the_end(page, found):
    absent = [row for row in found.rows if row.absent]
    assert {"dssm", "sentence_encoder"} <= {row.name for row in absent}
    for row in absent:
        assert row.name not in page.rows
    end = page.text[page.text.index("Not run: ") :]
    assert all(row.title in end for row in absent)
    assert "needs a folder of sentence-transformers: give --encoder" in end
    assert "How to reproduce it" not in end


def test_the_papers_tables_are_there_only_if_its_rows_were_run(report, page, found):
    text = report.read_text(encoding="utf-8")
    shown = re.findall(r'<td class="n paper">([^<]+)</td>', text)
    assert shown == ["54.86", "57.70", "58.88", "60.30", "21.72"]  # DSSM was not run
    own = tuple(row for row in found.rows if row.group != "paper")
    without = Page(show(found, rows=own)).text
    assert "KDD 2021" in page.text
    assert "KDD 2021" not in without
    assert "The paper" not in without


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
    assert {"matchset": FORMAT, **encode(read)[0]} == results
    write_report(tmp_path, comparison=read.comparison, sweep=read.sweep)
    assert json.loads((tmp_path / "results.json").read_text()) == results
    for damaged in ("{", "[]", '{"matchset": 1}', '{"matchset": 3, "comparison": {}, "sweep": 3}'):
        (tmp_path / RESULTS).write_text(damaged)
        assert read_findings(tmp_path).comparison is None


def test_the_papers_order_is_told_at_each_k_since_it_may_change_with_k(found):
    pair, ks = ("xr_linear_trigrams", "bm25"), found.setting.ks
    signs = dict(zip(ks, (1, 0, -1), strict=True))
    changed = tuple(
        replace(d, value=sign / 10, low=sign / 10 - 0.01, high=sign / 10 + 0.01, p_holm=0.001)
        for d in found.differences
        if (d.first, d.second) == pair
        for sign in [signs[d.k]]
    )
    text = show(found, differences=changed)
    line = next(line for line in text.split("<tr>") if "trigrams (1.4\u00a0V) over BM25" in line)
    shown = re.findall(r'<td class="verdict[^>]*>([^<]+)<', line)
    assert shown == ["confirmed", "not significant", "reversed"]
    assert "not measured" in text  # the other pairs
    for k in ks:
        assert f"Recall@{k}, points" in text


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


def test_without_matplotlib_it_is_an_error_before_any_work(monkeypatch):
    def refuse(name):
        raise ImportError(name)

    monkeypatch.setattr(plots, "import_module", refuse)
    with pytest.raises(ImportError, match=r"needs matplotlib and Jinja2; .*pip install"):
        require_plots()


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

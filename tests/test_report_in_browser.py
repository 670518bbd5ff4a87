"""The report in a real browser, wide and narrow, light and dark."""

import pytest
from browser import DESKTOP, PHONE, visit
from experiments import BUDGET, FAST, HOSTILE, make_small

from matchset.lab.experiments.comparison import run_comparison
from matchset.lab.experiments.contenders import OURS
from matchset.lab.experiments.sweeps import run_sweep
from matchset.lab.report.page import write_report
from matchset.matchers.match_set import MatchSet

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    out = tmp_path_factory.mktemp("report")
    benchmark = make_small(titles=HOSTILE)
    comparison = run_comparison(benchmark, out, BUDGET, names=FAST)
    sweep = run_sweep(MatchSet.load(out / "models" / OURS), benchmark.qrels, out, BUDGET)
    return write_report(out, comparison=comparison, sweep=sweep).as_uri()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [DESKTOP, PHONE])
def test_all_of_it_is_seen(browser, report, width, scheme):
    with visit(browser, report, width=width, scheme=scheme) as seen:
        assert seen.errors == []
        assert seen.requests == [report]
        assert seen.overflow() == 0
        assert seen.page.locator("table").count() >= 6
        for plot in seen.page.locator("figure svg").all():
            box = plot.bounding_box()
            assert box["width"] > 250
            assert box["height"] > 150
        assert seen.page.locator("figure svg").count() == 7
        assert seen.page.locator("article.example").count() > 0
        ground, ink = (
            seen.page.evaluate(f"getComputedStyle(document.body).{what}")
            for what in ("backgroundColor", "color")
        )
        assert (brightness(ground) > brightness(ink)) is (scheme == "light")


def test_what_was_bought_is_marked_by_more_than_a_color(browser, report):
    with visit(browser, report) as seen:
        marks = seen.page.evaluate(
            """() => [".yes", ":not(.yes):not(.none)"].map(kind => getComputedStyle(
                document.querySelector(`.answers li${kind}`), "::before").content)"""
        )
        assert marks == ['"✓"', '""']  # what nobody bought is not wrong
        assert seen.page.locator(".answers li.yes .hidden").first.inner_text() == "bought:"


@pytest.mark.parametrize(("width", "height"), [(DESKTOP, 900), (PHONE, 844)])
def test_the_first_screen_has_the_verdict(browser, report, width, height):
    with visit(browser, report, width=width, height=height) as seen:
        box = seen.page.locator("#verdict .headline").bounding_box()
        assert box["y"] + box["height"] < height / 2
        if width == DESKTOP:
            last = seen.page.locator("#verdict li").last.bounding_box()
            assert last["y"] + last["height"] < height


def test_text_of_plots_is_readable_on_a_phone(browser, report):
    with visit(browser, report, width=PHONE) as seen:
        sizes = seen.page.evaluate(
            """() => [...document.querySelectorAll("figure svg")].flatMap(svg => {
                const scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
                return [...svg.querySelectorAll("text")]
                    .map(text => scale * parseFloat(getComputedStyle(text).fontSize));
            })"""
        )
        assert len(sizes) > 50
        assert min(sizes) >= 7.5


def brightness(color):
    red, green, blue = (int(part) for part in color[4:-1].split(",")[:3])
    return red + green + blue

"""The page of a server: no title takes it over, and everybody can use it."""

import re
from urllib.parse import quote

import pytest
from browser import DESKTOP, PHONE, visit
from pages import COLUMNS, QUERY, TITLES, api, ask, rows

expect = pytest.importorskip("playwright.sync_api").expect
pytestmark = pytest.mark.browser

HOSTILE = "hostile lamp"


def test_markup_in_titles_and_queries_is_shown_as_text(seen):
    ask(seen.page, HOSTILE)
    for column in COLUMNS:
        shown = seen.page.locator(f"#column-{column} .title").all_text_contents()
        assert set(TITLES) & set(shown), column
    for title in TITLES[:2]:
        seen.page.locator("#column-bm25 .product").filter(has_text=title).click()
        expect(seen.page.locator("#reasons-title")).to_have_text(title)
        seen.page.keyboard.press("Escape")
    for query in (*TITLES, "\u202eevil", "a" * 512, "\0", "%00&k=1#x", "👩‍👩‍👧"):
        seen.page.get_by_label("Query", exact=True).fill(query)
        seen.page.wait_for_timeout(250)
    assert seen.page.locator("main script, main img, dialog script, dialog img").count() == 0
    assert seen.page.title() != "taken"
    seen.page.get_by_label("Query", exact=True).fill("a" * 600)
    expect(seen.page.locator("#q-error")).to_contain_text("at most 512 characters; got 600")


def test_a_hostile_address_is_harmless(browser, page_address):
    hostile = (
        "?q=%3Cscript%3Ealert(1)%3C/script%3E&k=-1&beam=x&columns=,nobody&tab=%22&product=%3Cimg%3E"
    )
    with visit(browser, page_address + "/" + hostile) as seen:
        query = seen.page.get_by_label("Query", exact=True)
        expect(query).to_have_value("<script>alert(1)</script>")
        expect(seen.page.get_by_role("dialog")).to_contain_text("got '<img>'")
        seen.page.keyboard.press("Escape")
        expect(seen.page.locator(".column")).to_have_count(len(COLUMNS))
        expect(seen.page.get_by_label("Products (k)")).to_have_value("50")


@pytest.mark.parametrize("width", [PHONE, DESKTOP, 820])
def test_nothing_is_wider_than_the_screen(browser, page_address, width):
    with visit(browser, f"{page_address}/?tab=bm25", width=width) as seen:
        assert seen.overflow() == 0
        ask(seen.page, HOSTILE)
        seen.page.get_by_label("Filter").fill("x" * 200)
        expect(seen.page.locator("#where-error")).to_be_visible()
        assert seen.overflow() == 0
        seen.page.locator(".product:visible").filter(has_text="xxxx").first.click()
        expect(seen.page.get_by_role("dialog")).to_be_visible()
        assert seen.overflow() == 0
        panel = seen.page.locator("#reasons")
        assert panel.evaluate("each => each.scrollWidth - each.clientWidth") == 0


def test_a_phone_shows_one_column_at_a_time(browser, page_address):
    with visit(browser, f"{page_address}/?q={QUERY}", width=PHONE) as seen:
        tabs = seen.page.get_by_role("tab")
        expect(tabs).to_have_text(["Match set", "XR-Linear", "BM25"])
        expect(seen.page.locator(".column:visible")).to_have_count(1)
        tabs.nth(1).click()
        expect(seen.page.locator(".column:visible")).to_have_attribute("id", "column-xr_linear")
        expect(seen.page.get_by_role("tabpanel")).to_have_accessible_name("XR-Linear")
        seen.page.keyboard.press("ArrowRight")
        expect(tabs.nth(2)).to_be_focused()
        seen.page.reload()
        expect(tabs.nth(2)).to_have_attribute("aria-selected", "true")
        seen.page.set_viewport_size({"width": DESKTOP, "height": 900})
        expect(seen.page.locator(".column:visible")).to_have_count(len(COLUMNS))
        assert seen.errors == []


def test_a_phone_unfolds_the_options_that_are_rarely_used(browser, page_address):
    with visit(browser, f"{page_address}/?q={QUERY}", width=PHONE) as seen:
        expect(seen.page.get_by_label("Min score")).to_be_visible()
        expect(seen.page.get_by_label("Beam")).to_be_hidden()
        more = seen.page.get_by_role("button", name="More options")
        more.click()
        expect(more).to_have_attribute("aria-expanded", "true")
        expect(seen.page.get_by_label("Beam")).to_be_visible()
        seen.page.get_by_role("checkbox", name="Two towers").check()
        expect(seen.page.get_by_role("tab")).to_have_count(len(COLUMNS) + 1)
        assert seen.overflow() == 0


def test_the_keyboard_is_enough(seen):
    page = seen.page
    expect(page.get_by_label("Query", exact=True)).to_be_focused()
    page.keyboard.type(QUERY)
    page.wait_for_load_state("networkidle")  # results of "sof" would take the focus with them
    expect(rows(page, "match_set").first).to_be_visible()
    page.keyboard.press("ArrowDown")
    expect(rows(page, "match_set").first).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(rows(page, "match_set").nth(1)).to_be_focused()
    page.keyboard.press("ArrowRight")
    held = page.locator(":focus")
    expect(held).to_have_class(re.compile("product"))
    assert held.evaluate("each => each.closest('.column').dataset.name") == "xr_linear"
    product = held.get_attribute("data-id")
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_contain_text(product)
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()
    expect(page.locator(":focus")).to_have_attribute("data-id", product)
    page.keyboard.press("/")
    expect(page.get_by_label("Query", exact=True)).to_be_focused()
    expect(page.get_by_label("Query", exact=True)).to_have_value(QUERY)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [PHONE, DESKTOP])
def test_axe_finds_no_barrier(browser, page_address, width, scheme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()

    def barriers():
        found = axe.run(seen.page).response["violations"]
        return [(each["id"], [node["target"] for node in each["nodes"]]) for each in found]

    with visit(browser, page_address, width=width, scheme=scheme) as seen:
        seen.page.emulate_media(reduced_motion="reduce")
        expect(seen.page.locator("#examples button").first).to_be_visible()
        assert barriers() == []
        example = api(seen.page, "v1/model")["examples"][0]
        tree_best = api(seen.page, f"v1/match?q={example}&k=1&matcher=tree")["products"][0]["id"]
        ask(seen.page, example)
        assert barriers() == []
        seen.page.get_by_label("Filter").fill("price >")
        expect(seen.page.locator("#where-error")).to_be_visible()
        assert barriers() == []
        seen.page.get_by_label("Filter").fill("")
        expect(seen.page.locator("#where-error")).to_be_hidden()
        seen.page.locator(".product:visible").nth(1).click()
        expect(seen.page.locator(".part").first).to_be_visible()
        assert barriers() == []
        seen.page.goto(f"{page_address}/?q={quote(example)}&product={tree_best}&column=tree")
        expect(seen.page.locator(".step").first).to_be_visible()
        assert barriers() == []

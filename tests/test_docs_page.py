"""The description of the API at /docs, in a real browser."""

import pytest
from browser import DESKTOP, PHONE, visit
from pages import QUERY
from serving import serving

expect = pytest.importorskip("playwright.sync_api").expect
pytestmark = pytest.mark.browser


def test_a_request_is_tried_from_its_description(browser, page_address):
    with visit(browser, f"{page_address}/docs") as seen:
        curl = seen.page.locator("#match .curl")
        expect(curl).to_contain_text(f"curl --get {page_address}/v1/match")
        seen.page.locator("#match summary").click()
        seen.page.locator("#match-q").fill(QUERY)
        seen.page.locator("#match-k").fill("2")
        seen.page.locator("#match-matcher").fill("towers")
        seen.page.locator("#match").get_by_role("button", name="Send").click()
        expect(seen.page.locator("#match .answer")).to_contain_text('"matcher": "towers"')
        expect(seen.page.locator("#match .answer-head")).to_contain_text("200 OK")
        seen.page.locator("#match_batch summary").click()
        seen.page.locator("#match_batch-body").fill('{"queries": ["a"], "k": 0}')
        seen.page.locator("#match_batch").get_by_role("button", name="Send").click()
        expect(seen.page.locator("#match_batch .answer-head")).to_contain_text("400")
        expect(seen.page.locator("#match_batch .answer")).to_contain_text("k_out_of_range")
        seen.page.locator("#metrics summary").click()
        seen.page.locator("#metrics").get_by_role("button", name="Send").click()
        expect(seen.page.locator("#metrics .answer")).to_contain_text("# HELP matchset_requests")
        assert all(url.startswith(page_address) for url in seen.requests)
        assert [text for text in seen.errors if "Failed to load resource" not in text] == []


def test_a_key_is_asked_for_when_it_is_needed(browser, page_shop, tmp_path):
    file = tmp_path / "keys"
    file.write_text("a-key-of-many-letters\n")
    file.chmod(0o600)
    options = ("--api-key-file", file)
    with (
        serving(page_shop, *options, workers=1) as server,
        visit(browser, f"{server.address}/docs") as seen,
    ):
        send = seen.page.locator("#model").get_by_role("button", name="Send")
        seen.page.locator("#model summary").click()
        send.click()
        expect(seen.page.locator("#model .answer-head")).to_contain_text("401")
        seen.page.get_by_label("API key").fill("a-key-of-many-letters")
        send.click()
        expect(seen.page.locator("#model .answer")).to_contain_text('"match_set"')


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [PHONE, DESKTOP])
def test_axe_finds_no_barrier_in_the_docs(browser, page_address, width, scheme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    with visit(browser, f"{page_address}/docs", width=width, scheme=scheme) as seen:
        for each in seen.page.locator("summary").all():
            each.click()
        assert seen.overflow() == 0
        found = axe.run(seen.page).response["violations"]
        assert [(each["id"], [node["target"] for node in each["nodes"]]) for each in found] == []
        assert seen.errors == []

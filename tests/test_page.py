"""The page of a server, in a real browser: what it shows, and what it survives."""

import re
import shutil
import signal
from contextlib import ExitStack
from urllib.parse import quote

import pytest
from browser import visit
from pages import COLUMNS, PARTS, QUERY, api, ask, rows, serving_page
from serving import eventually, find_port, serving

import matchset as ms
from matchset.data.positives import relevance
from matchset.model.match_set_model import Bounds

expect = pytest.importorskip("playwright.sync_api").expect
pytestmark = pytest.mark.browser


def test_every_column_answers_while_one_types(seen):
    seen.page.get_by_label("Query", exact=True).press_sequentially(QUERY, delay=30)
    for column in COLUMNS:
        answer = api(seen.page, f"v1/match?q={QUERY}&k=50&matcher={column}")
        expect(rows(seen.page, column)).to_have_count(len(answer["products"]))
        first = answer["products"][0]
        for part in (first["id"], first["title"], "1"):
            expect(rows(seen.page, column).first).to_contain_text(part)
        head = seen.page.locator(f"#column-{column} .column-head")
        expect(head).to_contain_text(re.compile(r"\d [µm]s server, [\d.]+ ms round trip"))


def test_a_product_says_its_rank_in_the_other_columns(seen):
    ask(seen.page)
    answers = {name: api(seen.page, f"v1/match?q={QUERY}&k=50&matcher={name}") for name in COLUMNS}
    found = {name: [each["id"] for each in answers[name]["products"]] for name in COLUMNS}
    product = next(each for each in found["xr_linear"] if each in found["bm25"])
    row = seen.page.locator(f"#column-xr_linear .product[data-id='{product}']")
    expect(row).to_contain_text(f"BM25 {found['bm25'].index(product) + 1}")
    alone = next(each for each in found["xr_linear"] if each not in found["bm25"])
    row = seen.page.locator(f"#column-xr_linear .product[data-id='{alone}']")
    expect(row).to_contain_text("BM25 –")
    expect(row).to_contain_text("not in BM25")


def test_what_was_bought_is_marked_by_more_than_a_colour(seen):
    example = api(seen.page, "v1/model")["examples"][0]
    bought = set(api(seen.page, f"v1/purchases?q={example}")["products"])
    ask(seen.page, example)
    ids = {row.get_attribute("data-id") for row in rows(seen.page, "xr_linear").all()}
    marked = seen.page.locator("#column-xr_linear .is-bought")
    assert ids & bought
    expect(marked).to_have_count(len(ids & bought))
    expect(marked.first).to_contain_text("✓, bought")
    head = seen.page.locator("#column-xr_linear .column-head")
    expect(head).to_contain_text(f"{len(ids & bought)} of {len(bought)} bought")


def test_example_queries_are_there_to_start_with(seen):
    examples = api(seen.page, "v1/model")["examples"]
    expect(seen.page.locator("#examples button")).to_have_text(examples)
    seen.page.get_by_role("button", name=examples[0], exact=True).click()
    expect(seen.page.get_by_label("Query", exact=True)).to_have_value(examples[0])
    expect(rows(seen.page, "xr_linear").first).to_be_visible()
    seen.page.go_back()
    expect(seen.page.get_by_role("button", name=examples[0], exact=True)).to_be_visible()


def test_what_is_typed_before_the_model_is_known_stays(browser, page_address):
    with visit(browser, "about:blank") as seen:
        held = []
        seen.page.route("**/v1/model", lambda route: held.append(route))
        seen.page.goto(f"{page_address}/?columns=xr_linear,bm25")
        seen.page.get_by_label("Query", exact=True).fill(QUERY)
        seen.page.get_by_label("Products (k)").fill("4")
        held[0].continue_()
        expect(rows(seen.page, "xr_linear")).to_have_count(4)
        expect(seen.page.locator(".column")).to_have_count(2)
        expect(seen.page.get_by_label("Query", exact=True)).to_have_value(QUERY)


def test_a_late_answer_does_not_overwrite_a_newer_one(seen):
    held = []
    seen.page.route("**/v1/match?q=lamp&**", lambda route: held.append(route))
    with seen.page.expect_request(re.compile("q=lamp&.*matcher=xr_linear")):
        seen.page.get_by_label("Query", exact=True).fill("lamp")
    ask(seen.page, "mug")
    first = rows(seen.page, "xr_linear").first.text_content()
    for route in held:
        route.continue_()
    seen.page.wait_for_timeout(300)
    expect(rows(seen.page, "xr_linear").first).to_have_text(first)
    expect(seen.page).to_have_title("mug – matchset")


def test_a_filter_narrows_and_a_bad_one_is_explained_at_its_field(seen):
    ask(seen.page)
    before = rows(seen.page, "bm25").first.get_attribute("data-id")
    field = seen.page.get_by_label("Filter")
    field.fill("price >")
    error = seen.page.locator("#where-error")
    expect(error).to_contain_text("expected a value")
    expect(field).to_have_attribute("aria-invalid", "true")
    expect(rows(seen.page, "bm25").first).to_have_attribute("data-id", before)
    expect(seen.page.get_by_role("status")).to_contain_text("last valid results")
    field.fill("price < 1")
    expect(error).to_be_hidden()
    expect(rows(seen.page, "bm25")).to_have_count(0)
    expect(seen.page.locator("#column-bm25")).to_contain_text("No products.")


def test_k_and_beam_are_asked_for_and_their_rules_are_told(seen):
    ask(seen.page)
    seen.page.get_by_label("Products (k)").fill("3")
    expect(rows(seen.page, "xr_linear")).to_have_count(3)
    with seen.page.expect_request(
        re.compile(r"matcher=xr_linear.*beam=2|beam=2.*matcher=xr_linear")
    ):
        seen.page.get_by_label("Beam").fill("2")
    assert "k=3" in seen.page.url
    assert "beam=2" in seen.page.url
    seen.page.get_by_label("Products (k)").fill("0")
    expect(seen.page.locator("#k-error")).to_have_text("k must be a whole number of at least 1")
    seen.page.get_by_label("Products (k)").fill("99999")
    expect(seen.page.locator("#k-error")).to_have_text("k must be at most 1000; got 99999")


def test_columns_can_be_left_out(seen):
    ask(seen.page)
    seen.page.get_by_role("checkbox", name="BM25").uncheck()
    expect(seen.page.locator(".column")).to_have_count(len(COLUMNS) - 1)
    assert "columns=match_set%2Cxr_linear" in seen.page.url


def test_the_parts_of_a_match_set_are_columns_on_demand(seen):
    ask(seen.page)
    expect(seen.page.locator(".column")).to_have_count(len(COLUMNS))
    expect(seen.page.locator(".column").first).to_have_attribute("id", "column-match_set")
    for name, label in zip(
        PARTS, ("Tree", "Two towers", "Lexical index", "Query neighbors"), strict=True
    ):
        box = seen.page.get_by_role("checkbox", name=label)
        expect(box).not_to_be_checked()
        box.check()
        best = api(seen.page, f"v1/match?q={QUERY}&k=1&matcher={name}")["products"][0]["id"]
        expect(rows(seen.page, name).first).to_have_attribute("data-id", best)
    for label in ("XR-Linear", "BM25"):
        seen.page.get_by_role("checkbox", name=label).uncheck()
    expect(seen.page.locator(".column")).to_have_count(1 + len(PARTS))
    seen.page.reload()
    expect(seen.page.locator(".column")).to_have_count(1 + len(PARTS))


def test_a_least_score_cuts_the_match_set_and_a_share_every_column(seen):
    ask(seen.page)
    answer = api(seen.page, f"v1/match?q={QUERY}&k=50")["products"]
    n_others = rows(seen.page, "bm25").count()
    seen.page.get_by_label("Min score").fill(str(answer[3]["score"]))
    expect(rows(seen.page, "match_set")).to_have_count(4)
    expect(rows(seen.page, "bm25")).to_have_count(n_others)
    assert "min_score=" in seen.page.url
    seen.page.get_by_label("Min score").fill("")
    seen.page.get_by_label("Min share").fill("1")
    for column in COLUMNS:
        best = api(seen.page, f"v1/match?q={QUERY}&k=50&matcher={column}&min_relative=1")
        expect(rows(seen.page, column)).to_have_count(len(best["products"]))
    seen.page.get_by_label("Min share").fill("7")
    expect(seen.page.locator("#min_relative-error")).to_have_text("min share must be from 0 to 1")


def test_the_beam_is_the_models_own_unless_one_is_given(seen):
    ask(seen.page)
    asked = [url for url in seen.requests if "/v1/match?" in url]
    assert asked
    assert not [url for url in asked if "beam=" in url]
    seen.page.get_by_label("Beam").fill("0")
    sentence = "beam must be a whole number of at least 1"
    expect(seen.page.locator("#beam-error")).to_have_text(sentence)


def test_attributes_that_one_filters_by_are_shown(seen):
    ask(seen.page)
    expect(seen.page.locator(".attribute")).to_have_count(0)
    seen.page.get_by_label("Filter").fill("price < 900 and `stock` > 0 and brand != 'rating'")
    where = "price<900 and stock>0"
    best = api(seen.page, f"v1/match?q={QUERY}&k=1&where={where}&attributes=price,stock")
    price = best["products"][0]["attributes"]["price"]
    expect(rows(seen.page, "match_set").first).to_contain_text(f"price {price:,}")
    row = rows(seen.page, "match_set").first.locator(".attribute")
    expect(row).to_have_count(3)
    assert "rating" not in "".join(row.all_text_contents())


def test_products_are_relevant_where_nothing_was_bought(page_shop, browser, tmp_path):
    log = ms.read_log(str(page_shop / "log.parquet"))
    pairs = relevance(log)
    query = max(pairs.queries, key=lambda each: len(each.split()))
    found = ms.load(page_shop / "model").match(query, 2).ids
    rated = tmp_path / "rated.csv"
    rows_ = [(query, found[1]), (query, "not-in-the-catalog")]
    rated.write_text("query,product_id\n" + "".join(f"{q},{p}\n" for q, p in rows_))
    with (
        serving(page_shop, "--log", rated, workers=1) as server,
        visit(browser, f"{server.address}/?q={quote(query)}") as seen,
    ):
        head = seen.page.locator("#column-match_set .column-head")
        expect(head).to_contain_text("1 of 2 relevant")
        expect(seen.page.locator(".is-bought")).to_contain_text("✓, relevant")
        expect(seen.page.get_by_role("status")).to_contain_text(
            "Found 1 of 2 products relevant to this query in the log."
        )
        missing = seen.page.locator("#missing-count")
        expect(missing).to_have_text("1 product relevant but not found:")
        assert "bought" not in seen.page.locator("body").inner_text()


def test_reasons_show_the_way_through_the_tree(seen):
    ask(seen.page)
    rows(seen.page, "xr_linear").nth(1).click()
    panel = seen.page.get_by_role("dialog")
    expect(panel).to_contain_text("Found at rank 2")
    steps = panel.locator(".step")
    reasons = seen.page.evaluate(
        """body => fetch("v1/explain", {method: "POST", body: JSON.stringify(body),
           headers: {"Content-Type": "application/json"}}).then(answer => answer.json())""",
        {
            "query": QUERY,
            "product": rows(seen.page, "xr_linear").nth(1).get_attribute("data-id"),
            "k": 50,
            "matcher": "xr_linear",
        },
    )
    expect(steps).to_have_count(len(reasons["steps"]))
    for place, step in enumerate(reasons["steps"]):
        expect(steps.nth(place)).to_contain_text(step["name"])
        if step["words"]:
            expect(steps.nth(place)).to_contain_text(step["words"][0]["word"])
    widths = panel.locator(".fill").evaluate_all("all => all.map(each => each.clientWidth)")
    assert max(widths) > 50


def test_reasons_tell_in_words_what_each_part_adds(seen):
    ask(seen.page, "sofa bed")
    in_tree = api(seen.page, "v1/match?q=sofa bed&k=1&matcher=tree")["products"][0]["id"]
    found = [row.get_attribute("data-id") for row in rows(seen.page, "match_set").all()]
    rows(seen.page, "match_set").nth(found.index(in_tree)).click()
    panel = seen.page.get_by_role("dialog")
    expect(panel).to_contain_text(f"Found at rank {found.index(in_tree) + 1}")
    expect(panel).to_contain_text(re.compile("What counted most: .*“(sofa|bed|sofa bed)”"))
    names = panel.locator(".part-name").all_text_contents()
    assert names[:4] == ["Tree", "Two towers", "Lexical index", "Query neighbors"]
    expect(panel.locator(".part").nth(2)).to_contain_text("proposed it: rank")
    path = panel.locator("details")
    expect(path.locator(".step").first).to_be_hidden()
    path.locator("summary").click()
    expect(path.locator(".step").first).to_be_visible()


def close_reasons(page):
    """Close the panel, which goes back in the history, and wait until that is done."""
    page.keyboard.press("Escape")
    expect(page).not_to_have_url(re.compile("product="))


def test_reasons_say_why_a_product_is_not_found(seen):
    ask(seen.page)
    found = {
        one["id"]
        for matcher in COLUMNS
        for one in api(seen.page, f"v1/match?q={QUERY}&k=50&matcher={matcher}")["products"]
    }
    others = api(seen.page, "v1/match?q=mug&k=100")["products"]
    other = next(one for one in others if one["id"] not in found)
    field = seen.page.get_by_label("Product id")
    field.fill(other["id"])
    seen.page.keyboard.press("Enter")
    panel = seen.page.get_by_role("dialog")
    expect(panel).to_contain_text("Not in the results: ")
    expect(panel).to_contain_text(other["title"])
    expect(panel).to_contain_text("did not propose it: ")
    close_reasons(seen.page)
    expect(field).to_be_focused()
    field.fill("no such product")
    seen.page.get_by_role("button", name="Why is it not found?").click()
    expect(panel).to_contain_text("product must be one of the model's; got 'no such product'")
    close_reasons(seen.page)
    seen.page.get_by_label("Filter").fill("price < 0")
    expect(rows(seen.page, "xr_linear")).to_have_count(0)
    field.fill(other["id"])
    seen.page.keyboard.press("Enter")
    expect(panel).to_contain_text("Not in the results: the filter excludes it")
    close_reasons(seen.page)
    start = seen.page.url.partition("?")[0]
    seen.page.goto(f"{start}?q={QUERY}&beam=1&product={other['id']}&column=xr_linear")
    expect(panel).to_contain_text(re.compile(r"Not in the results: lost at level \d of"))
    expect(panel.locator(".step-lost").first).to_contain_text("lost")


def test_a_shared_address_opens_the_same_view(seen, browser):
    ask(seen.page)
    seen.page.get_by_label("Filter").fill("price < 2000")
    seen.page.get_by_label("Products (k)").fill("7")
    seen.page.get_by_role("checkbox", name="BM25").uncheck()
    expect(rows(seen.page, "xr_linear")).to_have_count(7)
    rows(seen.page, "xr_linear").nth(2).click()
    expect(seen.page.locator(".step").first).to_be_visible()
    with visit(browser, seen.page.url) as other:
        expect(other.page.locator(".step").first).to_be_visible()
        for place in ("#columns", "#reasons-title", ".ranks", ".steps"):
            texts = [
                re.sub(r"[\d.]+ [µm]s", "", visited.page.locator(place).inner_text())
                for visited in (seen, other)
            ]
            assert texts[0] == texts[1]
        for field in ("Filter", "Products (k)", "Query"):
            value = seen.page.get_by_label(field, exact=True).input_value()
            expect(other.page.get_by_label(field, exact=True)).to_have_value(value)
        other.page.get_by_role("button", name="Close", exact=True).click()
        expect(other.page.get_by_role("dialog")).to_be_hidden()
        expect(other.page).not_to_have_url(re.compile("product="))  # the address follows the event
        assert other.errors == []


def test_going_back_closes_the_reasons_and_forward_opens_them(seen):
    ask(seen.page)
    rows(seen.page, "xr_linear").first.click()
    panel = seen.page.get_by_role("dialog")
    expect(panel).to_contain_text("Found at rank 1")
    seen.page.go_back()
    expect(panel).to_be_hidden()
    expect(seen.page.get_by_label("Query", exact=True)).to_have_value(QUERY)
    seen.page.go_forward()
    expect(panel).to_contain_text("Found at rank 1")


def test_the_page_survives_a_restart_of_the_server(page_shop, browser):
    port = find_port()
    with ExitStack() as stack:
        with serving_page(page_shop, port=port) as server:
            page = stack.enter_context(visit(browser, server.address)).page
            ask(page)
        page.get_by_label("Query", exact=True).fill("mug")
        notice = page.get_by_role("alert").filter(has_text="The server does not answer.")
        expect(notice).to_be_visible()
        with serving_page(page_shop, port=port):
            expect(notice).to_be_hidden(timeout=30_000)
            best = api(page, "v1/match?q=mug&k=1&matcher=xr_linear")["products"][0]["id"]
            expect(rows(page, "xr_linear").first).to_have_attribute("data-id", best)


def test_a_new_model_is_noticed(page_shop, browser, tmp_path):
    shop = shutil.copytree(page_shop, tmp_path / "shop")
    with serving_page(shop) as server, visit(browser, server.address) as seen:
        model = seen.page.locator("#model")
        before = server.call("/v1/model").json["model_version"]
        expect(model).to_have_text(f"600 products · model {before}")
        other = ms.load(shop / "model").with_bounds(Bounds(lists=5))
        other.save(shop / "model", overwrite=True)
        server.process.send_signal(signal.SIGUSR1)
        now = eventually(lambda: {server.call("/v1/model").json["model_version"]} - {before})
        ask(seen.page)
        expect(model).to_have_text(f"600 products · model {now.pop()}")
        assert seen.errors == []


def test_the_key_is_asked_for_and_kept_for_the_tab_alone(page_shop, browser, tmp_path):
    file = tmp_path / "keys"
    file.write_text("a-key-of-many-letters\n")
    file.chmod(0o600)
    with (
        serving_page(page_shop, "--api-key-file", file) as server,
        visit(browser, f"{server.address}/?q={QUERY}") as seen,
    ):
        page = seen.page
        expect(page.get_by_role("dialog")).to_contain_text("This server needs a key")
        page.get_by_label("Key", exact=True).fill("wrong")
        page.keyboard.press("Enter")
        expect(page.locator("#key-error")).to_have_text("The server did not accept this key.")
        page.get_by_label("Key", exact=True).fill("schlüssel")  # no header can hold it
        page.keyboard.press("Enter")
        expect(page.locator("#key-error")).to_contain_text("printable ASCII characters")
        page.get_by_label("Key", exact=True).fill("a-key-of-many-letters")
        page.get_by_role("button", name="Use this key").click()
        expect(rows(page, "xr_linear").first).to_be_visible()
        page.reload()
        expect(rows(page, "xr_linear").first).to_be_visible()
        assert page.evaluate("localStorage.length") == 0
        assert "a-key" not in page.url
        page.get_by_role("button", name="Forget the key").click()
        expect(page.get_by_role("dialog")).to_contain_text("This server needs a key")

"""The page of a server, in a real browser."""

import re
import socket
from contextlib import ExitStack
from urllib.parse import urlsplit

import pandas as pd
import pytest
from browser import DESKTOP, PHONE, visit
from serving import serving

import matchset as ms

expect = pytest.importorskip("playwright.sync_api").expect
pytestmark = pytest.mark.browser

COLUMNS = ("tree", "bm25", "title_similarity")
QUERY, HOSTILE = "sofa", "hostile lamp"
TITLES = [
    "<script>document.title='taken'</script> Hostile Lamp",
    '"><img src=x onerror="document.title=\'taken\'"> Hostile Lamp',
    "مصباح مكتب \u202e Hostile Lamp",
    "🛋️ Hostile Lamp 💡 👩‍👩‍👧",
    f"Hostile Lamp {'x' * 300}",
    "{{constructor.constructor('alert(1)')()}} &lt;b&gt; Hostile Lamp",
]


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """Saved matchers and a test log, of a shop with titles that nobody should have."""
    folder = tmp_path_factory.mktemp("shop")
    goods_file, log_file = ms.simulate_shop(products=600).save(folder)
    goods = pd.read_parquet(goods_file)
    goods.loc[: len(TITLES) - 1, "title"] = TITLES
    catalog = ms.read_catalog(goods)
    train, test = ms.split_by_time(ms.read_log(str(log_file)), test_days=60)
    # A tree with levels to be lost on.
    config = ms.TrainConfig(learn=ms.LearnConfig(branching=4, max_leaf=20))
    ms.train(train, catalog, config).save(folder / "model")
    ms.BM25.learn(catalog).save(folder / "bm25")
    ms.TitleSimilarity.learn(catalog).save(folder / "titles")
    test.save(folder / "log.parquet")
    return folder


def serving_page(shop, *options, port=0):
    beside = ("--beside", shop / "bm25", "--beside", shop / "titles")
    return serving(shop, *beside, "--log", shop / "log.parquet", *options, workers=1, port=port)


@pytest.fixture(scope="module")
def address(shop):
    with serving_page(shop) as server:
        yield server.address


@pytest.fixture
def seen(browser, address):
    """The page, ready to be used; whatever it does, it asks nobody else and has no error."""
    with visit(browser, address) as seen:
        seen.page.set_default_timeout(8_000)
        yield seen
        assert {urlsplit(url).netloc for url in seen.requests} == {urlsplit(address).netloc}
        # A refusal that the page shows is in the console too: that is the browser's own doing.
        assert [text for text in seen.errors if "Failed to load resource" not in text] == []


def ask(page, query=QUERY):
    page.get_by_label("Query").fill(query)
    expect(page).to_have_title(f"{query} – matchset")
    expect(page.get_by_role("status")).not_to_be_empty()


def rows(page, column):
    return page.locator(f"#column-{column} .product")


def api(page, path):
    return page.evaluate("path => fetch(path).then(answer => answer.json())", path)


def test_every_column_answers_while_one_types(seen):
    seen.page.get_by_label("Query").press_sequentially(QUERY, delay=30)
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
    product = next(each for each in found["tree"] if each in found["bm25"])
    row = seen.page.locator(f"#column-tree .product[data-id='{product}']")
    expect(row).to_contain_text(f"BM25 {found['bm25'].index(product) + 1}")
    alone = next(each for each in found["tree"] if each not in found["bm25"])
    row = seen.page.locator(f"#column-tree .product[data-id='{alone}']")
    expect(row).to_contain_text("BM25 –")
    expect(row).to_contain_text("not in BM25")


def test_what_was_bought_is_marked_by_more_than_a_colour(seen):
    example = api(seen.page, "v1/model")["examples"][0]
    bought = set(api(seen.page, f"v1/bought?q={example}")["products"])
    ask(seen.page, example)
    ids = {row.get_attribute("data-id") for row in rows(seen.page, "tree").all()}
    marked = seen.page.locator("#column-tree .is-bought")
    assert ids & bought
    expect(marked).to_have_count(len(ids & bought))
    expect(marked.first).to_contain_text("✓, bought")
    head = seen.page.locator("#column-tree .column-head")
    expect(head).to_contain_text(f"{len(ids & bought)} of {len(bought)} bought")


def test_example_queries_are_there_to_start_with(seen):
    examples = api(seen.page, "v1/model")["examples"]
    expect(seen.page.locator("#examples button")).to_have_text(examples)
    seen.page.get_by_role("button", name=examples[0], exact=True).click()
    expect(seen.page.get_by_label("Query")).to_have_value(examples[0])
    expect(rows(seen.page, "tree").first).to_be_visible()
    seen.page.go_back()
    expect(seen.page.get_by_role("button", name=examples[0], exact=True)).to_be_visible()


def test_what_is_typed_before_the_model_is_known_stays(browser, address):
    with visit(browser, "about:blank") as seen:
        held = []
        seen.page.route("**/v1/model", lambda route: held.append(route))
        seen.page.goto(f"{address}/?columns=tree,bm25")
        seen.page.get_by_label("Query").fill(QUERY)
        seen.page.get_by_label("Products (k)").fill("4")
        held[0].continue_()
        expect(rows(seen.page, "tree")).to_have_count(4)
        expect(seen.page.locator(".column")).to_have_count(2)
        expect(seen.page.get_by_label("Query")).to_have_value(QUERY)


def test_a_late_answer_does_not_overwrite_a_newer_one(seen):
    held = []
    seen.page.route("**/v1/match?q=lamp&**", lambda route: held.append(route))
    seen.page.get_by_label("Query").fill("lamp")
    seen.page.wait_for_timeout(300)
    assert held
    ask(seen.page, "mug")
    first = rows(seen.page, "tree").first.text_content()
    for route in held:
        route.continue_()
    seen.page.wait_for_timeout(300)
    expect(rows(seen.page, "tree").first).to_have_text(first)
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
    expect(seen.page.get_by_role("status")).to_contain_text("last answer")
    field.fill("price < 1")
    expect(error).to_be_hidden()
    expect(rows(seen.page, "bm25")).to_have_count(0)
    expect(seen.page.locator("#column-bm25")).to_contain_text("No product.")


def test_k_and_beam_are_asked_for_and_their_rules_are_told(seen):
    ask(seen.page)
    seen.page.get_by_label("Products (k)").fill("3")
    expect(rows(seen.page, "tree")).to_have_count(3)
    with seen.page.expect_request(re.compile(r"matcher=tree.*beam=2|beam=2.*matcher=tree")):
        seen.page.get_by_label("Beam").fill("2")
    assert "k=3" in seen.page.url
    assert "beam=2" in seen.page.url
    seen.page.get_by_label("Products (k)").fill("0")
    expect(seen.page.locator("#k-error")).to_have_text("k must be a whole number of at least 1")
    seen.page.get_by_label("Products (k)").fill("99999")
    expect(seen.page.locator("#k-error")).to_have_text("k must be from 1 to 1000; got 99999")


def test_columns_can_be_left_out(seen):
    ask(seen.page)
    seen.page.get_by_role("checkbox", name="BM25").uncheck()
    expect(seen.page.locator(".column")).to_have_count(2)
    assert "columns=tree%2Ctitle_similarity" in seen.page.url


def test_reasons_show_the_way_through_the_tree(seen):
    ask(seen.page)
    rows(seen.page, "tree").nth(1).click()
    panel = seen.page.get_by_role("dialog")
    expect(panel).to_contain_text("Found at rank 2")
    steps = panel.locator(".step")
    reasons = seen.page.evaluate(
        """body => fetch("v1/explain", {method: "POST", body: JSON.stringify(body),
           headers: {"Content-Type": "application/json"}}).then(answer => answer.json())""",
        {
            "query": QUERY,
            "product": rows(seen.page, "tree").nth(1).get_attribute("data-id"),
            "k": 50,
        },
    )
    expect(steps).to_have_count(len(reasons["steps"]))
    for place, step in enumerate(reasons["steps"]):
        expect(steps.nth(place)).to_contain_text(step["name"])
        if step["for"]:
            expect(steps.nth(place)).to_contain_text(step["for"][0]["ngram"])
    widths = panel.locator(".fill").evaluate_all("all => all.map(each => each.clientWidth)")
    assert max(widths) > 50


def test_reasons_say_where_a_product_was_lost(seen):
    seen.page.get_by_label("Beam").fill("1")
    ask(seen.page)
    other = api(seen.page, "v1/match?q=mug&k=1")["products"][0]
    field = seen.page.get_by_label("Product id")
    field.fill(other["id"])
    seen.page.keyboard.press("Enter")
    panel = seen.page.get_by_role("dialog")
    expect(panel).to_contain_text("Not in the answer: lost at step")
    expect(panel).to_contain_text(other["title"])
    expect(panel.locator(".step-lost").first).to_contain_text("lost")
    seen.page.keyboard.press("Escape")
    expect(field).to_be_focused()
    field.fill("no such product")
    seen.page.get_by_role("button", name="Why is it not found?").click()
    expect(panel).to_contain_text("product must be one of the model's; got 'no such product'")
    seen.page.keyboard.press("Escape")
    seen.page.get_by_label("Filter").fill("price < 0")
    expect(rows(seen.page, "tree")).to_have_count(0)
    field.fill(other["id"])
    seen.page.keyboard.press("Enter")
    expect(panel).to_contain_text("Not in the answer: the filter leaves it out")


def test_a_shared_address_opens_the_same_view(seen, browser):
    ask(seen.page)
    seen.page.get_by_label("Filter").fill("price < 2000")
    seen.page.get_by_label("Products (k)").fill("7")
    seen.page.get_by_role("checkbox", name="BM25").uncheck()
    expect(rows(seen.page, "tree")).to_have_count(7)
    rows(seen.page, "tree").nth(2).click()
    expect(seen.page.locator(".step").first).to_be_visible()
    with visit(browser, seen.page.url) as other:
        expect(other.page.locator(".step").first).to_be_visible()
        for place in ("#columns", "#reasons-title", ".places", ".steps"):
            texts = [
                re.sub(r"[\d.]+ [µm]s", "", visited.page.locator(place).inner_text())
                for visited in (seen, other)
            ]
            assert texts[0] == texts[1]
        for field in ("Filter", "Products (k)", "Query"):
            value = seen.page.get_by_label(field).input_value()
            expect(other.page.get_by_label(field)).to_have_value(value)
        other.page.get_by_role("button", name="Close", exact=True).click()
        expect(other.page.get_by_role("dialog")).to_be_hidden()
        assert "product=" not in other.page.url
        assert other.errors == []


def test_going_back_closes_the_reasons_and_forward_opens_them(seen):
    ask(seen.page)
    rows(seen.page, "tree").first.click()
    panel = seen.page.get_by_role("dialog")
    expect(panel).to_contain_text("Found at rank 1")
    seen.page.go_back()
    expect(panel).to_be_hidden()
    expect(seen.page.get_by_label("Query")).to_have_value(QUERY)
    seen.page.go_forward()
    expect(panel).to_contain_text("Found at rank 1")


def test_the_page_survives_a_restart_of_the_server(shop, browser):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with ExitStack() as stack:
        with serving_page(shop, port=port) as server:
            page = stack.enter_context(visit(browser, server.address)).page
            ask(page)
        page.get_by_label("Query").fill("mug")
        notice = page.get_by_role("alert").filter(has_text="The server does not answer.")
        expect(notice).to_be_visible()
        with serving_page(shop, port=port):
            expect(notice).to_be_hidden(timeout=30_000)
            best = api(page, "v1/match?q=mug&k=1")["products"][0]["id"]
            expect(rows(page, "tree").first).to_have_attribute("data-id", best)


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
        seen.page.get_by_label("Query").fill(query)
        seen.page.wait_for_timeout(250)
    assert seen.page.locator("main script, main img, dialog script, dialog img").count() == 0
    assert seen.page.title() != "taken"
    seen.page.get_by_label("Query").fill("a" * 600)
    expect(seen.page.locator("#q-error")).to_contain_text("at most 512 characters; got 600")


def test_a_hostile_address_is_harmless(browser, address):
    hostile = (
        "?q=%3Cscript%3Ealert(1)%3C/script%3E&k=-1&beam=x&columns=,nobody&tab=%22&product=%3Cimg%3E"
    )
    with visit(browser, address + "/" + hostile) as seen:
        expect(seen.page.get_by_label("Query")).to_have_value("<script>alert(1)</script>")
        expect(seen.page.get_by_role("dialog")).to_contain_text("got '<img>'")
        seen.page.keyboard.press("Escape")
        expect(seen.page.locator(".column")).to_have_count(len(COLUMNS))
        expect(seen.page.get_by_label("Products (k)")).to_have_value("50")


def test_the_key_is_asked_for_and_kept_for_the_tab_alone(shop, browser, tmp_path):
    file = tmp_path / "keys"
    file.write_text("a-key-of-many-letters\n")
    file.chmod(0o600)
    with (
        serving_page(shop, "--api-key-file", file) as server,
        visit(browser, f"{server.address}/?q={QUERY}") as seen,
    ):
        page = seen.page
        expect(page.get_by_role("dialog")).to_contain_text("This server asks for a key")
        page.get_by_label("Key", exact=True).fill("wrong")
        page.keyboard.press("Enter")
        expect(page.locator("#key-error")).to_have_text("The server did not accept this key.")
        page.get_by_label("Key", exact=True).fill("a-key-of-many-letters")
        page.get_by_role("button", name="Use this key").click()
        expect(rows(page, "tree").first).to_be_visible()
        page.reload()
        expect(rows(page, "tree").first).to_be_visible()
        assert page.evaluate("localStorage.length") == 0
        assert "a-key" not in page.url
        page.get_by_role("button", name="Forget the key").click()
        expect(page.get_by_role("dialog")).to_contain_text("This server asks for a key")


@pytest.mark.parametrize("width", [PHONE, DESKTOP, 820])
def test_nothing_is_wider_than_the_screen(browser, address, width):
    with visit(browser, f"{address}/?tab=bm25", width=width) as seen:
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


def test_a_phone_shows_one_column_at_a_time(browser, address):
    with visit(browser, f"{address}/?q={QUERY}", width=PHONE) as seen:
        tabs = seen.page.get_by_role("tab")
        expect(tabs).to_have_text(["XR-Linear", "BM25", "Title similarity"])
        expect(seen.page.locator(".column:visible")).to_have_count(1)
        tabs.nth(1).click()
        expect(seen.page.locator(".column:visible")).to_have_attribute("id", "column-bm25")
        expect(seen.page.get_by_role("tabpanel")).to_have_accessible_name("BM25")
        seen.page.keyboard.press("ArrowRight")
        expect(tabs.nth(2)).to_be_focused()
        seen.page.reload()
        expect(tabs.nth(2)).to_have_attribute("aria-selected", "true")
        seen.page.set_viewport_size({"width": DESKTOP, "height": 900})
        expect(seen.page.locator(".column:visible")).to_have_count(3)
        assert seen.errors == []


def test_the_keyboard_is_enough(seen):
    page = seen.page
    expect(page.get_by_label("Query")).to_be_focused()
    page.keyboard.type(QUERY)
    expect(rows(page, "tree").first).to_be_visible()
    page.keyboard.press("ArrowDown")
    expect(rows(page, "tree").first).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(rows(page, "tree").nth(1)).to_be_focused()
    page.keyboard.press("ArrowRight")
    held = page.locator(":focus")
    expect(held).to_have_class(re.compile("product"))
    assert held.evaluate("each => each.closest('.column').dataset.name") == "bm25"
    product = held.get_attribute("data-id")
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_contain_text(product)
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()
    expect(page.locator(":focus")).to_have_attribute("data-id", product)
    page.keyboard.press("/")
    expect(page.get_by_label("Query")).to_be_focused()
    expect(page.get_by_label("Query")).to_have_value(QUERY)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [PHONE, DESKTOP])
def test_axe_finds_no_barrier(browser, address, width, scheme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()

    def barriers():
        found = axe.run(seen.page).response["violations"]
        return [(each["id"], [node["target"] for node in each["nodes"]]) for each in found]

    with visit(browser, address, width=width, scheme=scheme) as seen:
        seen.page.emulate_media(reduced_motion="reduce")
        expect(seen.page.locator("#examples button").first).to_be_visible()
        assert barriers() == []
        example = api(seen.page, "v1/model")["examples"][0]
        ask(seen.page, example)
        assert barriers() == []
        seen.page.get_by_label("Filter").fill("price >")
        expect(seen.page.locator("#where-error")).to_be_visible()
        assert barriers() == []
        seen.page.get_by_label("Filter").fill("")
        expect(seen.page.locator("#where-error")).to_be_hidden()
        seen.page.locator(".product:visible").nth(1).click()
        expect(seen.page.locator(".step").first).to_be_visible()
        assert barriers() == []

"""The page of a server: a shop with titles that nobody should have, and a visit to its page."""

from dataclasses import replace
from urllib.parse import urlsplit

import pytest
from browser import visit
from serving import serving

import matchset as ms
from matchset.baselines import BM25
from matchset.config import LearnConfig
from matchset.strings import Strings

COLUMNS = ("match_set", "xr_linear", "bm25")
PARTS = ("tree", "towers", "lexical", "neighbors")
QUERY = "sofa"
TITLES = [
    "<script>document.title='taken'</script> Hostile Lamp",
    '"><img src=x onerror="document.title=\'taken\'"> Hostile Lamp',
    "مصباح مكتب \u202e Hostile Lamp",
    "🛋️ Hostile Lamp 💡 👩‍👩‍👧",
    f"Hostile Lamp {'x' * 300}",
    "{{constructor.constructor('alert(1)')()}} &lt;b&gt; Hostile Lamp",
]


@pytest.fixture(scope="session")
def page_shop(tmp_path_factory):
    """Saved matchers and a test log, of a shop with titles that nobody should have."""
    folder = tmp_path_factory.mktemp("shop")
    goods_file, log_file = ms.lab.simulate_shop(products=600).save(folder)
    catalog = ms.read_catalog(str(goods_file))
    # Readers clean titles of markup; a folder from a stranger may hold some all the same.
    catalog = replace(catalog, titles=Strings.of([*TITLES, *catalog.titles[len(TITLES) :]]))
    train, test = ms.split_by_time(ms.read_log(str(log_file)), test_days=60)
    # A tree with levels to be lost on.
    learn = LearnConfig(branching=4, max_leaf_size=20)
    ms.train(train, catalog, ms.TrainConfig(learn=learn)).save(folder / "model")
    ms.train(train, catalog, ms.TrainConfig(parts=("tree",), learn=learn)).save(folder / "tree")
    BM25.from_catalog(catalog).save(folder / "bm25")
    test.save(folder / "log.parquet")
    return folder


def serving_page(shop, *options, port=0):
    """A server with two matchers beside the model, and a log."""
    beside = ("--also", shop / "tree", "--also", shop / "bm25")
    return serving(shop, *beside, "--log", shop / "log.parquet", *options, workers=1, port=port)


@pytest.fixture(scope="session")
def page_address(page_shop):
    with serving_page(page_shop) as server:
        yield server.address


@pytest.fixture
def seen(browser, page_address):
    """The page, ready to be used; it sends requests to no other server and has no error."""
    with visit(browser, page_address) as seen:
        seen.page.set_default_timeout(8_000)
        yield seen
        assert {urlsplit(url).netloc for url in seen.requests} == {urlsplit(page_address).netloc}
        # A refusal that the page shows is in the console too: that is the browser's own doing.
        assert [text for text in seen.errors if "Failed to load resource" not in text] == []


def ask(page, query=QUERY):
    """Type a query, and wait for the answer."""
    from playwright.sync_api import expect

    page.get_by_label("Query", exact=True).fill(query)
    expect(page).to_have_title(f"{query} – matchset")
    expect(page.get_by_role("status")).not_to_be_empty()


def rows(page, column):
    """The products of a column."""
    return page.locator(f"#column-{column} .product")


def api(page, path):
    """What the server itself answers."""
    return page.evaluate("path => fetch(path).then(answer => answer.json())", path)

"""The documentation site, as `make docs` builds it, in a browser."""

import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from browser import DESKTOP, PHONE, visit

pytestmark = pytest.mark.browser
SITE = Path(__file__).parent.parent / "build" / "site"
PAGES = ["index", "which-one", "operating", "benchmarks", "reference/matchers"]


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


@pytest.fixture(scope="module")
def address():
    if not SITE.is_dir():
        pytest.skip("needs the site: make docs")
    handler = partial(QuietHandler, directory=SITE)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [DESKTOP, PHONE])
@pytest.mark.parametrize("name", PAGES)
def test_a_page_fits_its_window_and_asks_nobody_else(browser, address, name, width, scheme):
    with visit(browser, f"{address}/{name}.html", width=width, scheme=scheme) as seen:
        assert seen.overflow() <= 0
        assert seen.errors == []
        assert all(request.startswith(address) for request in seen.requests)
        shown = seen.page.evaluate("document.body.getAttribute('data-md-color-scheme')")
        assert shown == {"light": "default", "dark": "slate"}[scheme]


def test_the_search_finds_a_function_of_the_reference(browser, address):
    with visit(browser, f"{address}/index.html") as seen:
        seen.page.keyboard.press("/")
        seen.page.keyboard.type("split_by_time", delay=10)
        first = seen.page.locator(".md-search-result__link").first
        first.wait_for(state="attached")
        assert "reference/data.html" in first.get_attribute("href")
        assert all(request.startswith(address) for request in seen.requests)

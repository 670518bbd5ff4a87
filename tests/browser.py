"""A real browser for the tests of pages: Chromium, driven by Playwright, without any network."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
DESKTOP, PHONE = 1280, 390


@dataclass
class Visit:
    """A page that is open, and what happened on it."""

    page: Any  # playwright.sync_api.Page
    errors: list[str] = field(default_factory=list)  # of scripts, and of the console
    requests: list[str] = field(default_factory=list)  # every address that was asked for

    def overflow(self) -> int:
        """Pixels by which the page is wider than its window."""
        return self.page.evaluate(
            "document.scrollingElement.scrollWidth - document.documentElement.clientWidth"
        )


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Chromium as the system has it; a test that asks for it is skipped where there is none."""
    playwright = pytest.importorskip("playwright.sync_api")
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        pytest.skip(f"needs a browser, one of {', '.join(NAMES)}")
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield opened
        opened.close()


@contextmanager
def visit(
    browser: Any, address: str, *, width: int = DESKTOP, height: int = 900, scheme: str = "light"
) -> Iterator[Visit]:
    """Open a page in a window of its own and listen to it until it has settled."""
    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme=scheme, locale="en-US"
    )
    try:
        seen = Visit(context.new_page())
        seen.page.on("pageerror", lambda error: seen.errors.append(str(error)))
        seen.page.on(
            "console",
            lambda said: seen.errors.append(said.text) if said.type == "error" else None,
        )
        seen.page.on("request", lambda request: seen.requests.append(request.url))
        seen.page.goto(address, wait_until="load")
        yield seen
    finally:
        context.close()

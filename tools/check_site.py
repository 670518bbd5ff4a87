"""Check the built site: do links lead somewhere, is every public name there, is all of it ours?"""

import ast
import re
import sys
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

PACKAGE = Path("src/matchset/__init__.py")
LOADED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "video": "src"}
LOADED_CSS = re.compile(r"url\(\s*['\"]?([^'\")]+)|@import\s+['\"]([^'\"]+)")


@dataclass
class Page(HTMLParser):
    """What a page can be linked by, links to, and loads."""

    anchors: set[str] = field(default_factory=lambda: {""})
    links: list[str] = field(default_factory=list)
    loads: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take note of what the tag names, links to or loads."""
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        is_loaded = tag == "link" and given.get("rel") not in ("canonical", "next", "prev")
        name = "href" if is_loaded else LOADED.get(tag, "")
        if given.get(name):
            self.loads.append(given[name])


def read_page(file: Path) -> Page:
    """Parse an HTML file."""
    page = Page()
    page.feed(file.read_text())
    return page


def public_names(package: Path) -> list[str]:
    """List the names that a package imports under their own names, without importing it."""
    nodes = ast.walk(ast.parse(package.read_text()))
    imports = [
        node for node in nodes if isinstance(node, ast.ImportFrom) and node.module != "matchset"
    ]
    names = [alias.name for node in imports for alias in node.names if alias.asname]
    if not names:
        raise ValueError(f"{package}: must import public names")
    return names


def find_faults(site: Path, names: list[str]) -> list[str]:
    """Everything that is wrong with a site, one sentence each."""
    pages = {file.resolve(): read_page(file) for file in sorted(site.rglob("*.html"))}
    faults = []
    for file, page in pages.items():
        here = file.relative_to(site.resolve())
        for link in page.links + page.loads:
            parts = urlsplit(link)
            if parts.scheme in ("http", "https") or parts.netloc:
                faults += [f"{here}: loads {link}"] if link in page.loads else []
            elif parts.scheme not in ("", "data", "mailto"):
                faults.append(f"{here}: has a link of an unknown kind, {link}")
            elif parts.scheme == "" and not _is_there(site, file, link, pages):
                faults.append(f"{here}: has a broken link, {link}")
    for sheet in sorted(site.rglob("*.css")):
        found = ["".join(pair) for pair in LOADED_CSS.findall(sheet.read_text())]
        outside = [url for url in found if urlsplit(url).netloc]
        faults += [f"{sheet.relative_to(site)}: loads {url}" for url in outside]
    known = set().union(*(page.anchors for page in pages.values()))
    faults += [
        f"{name} is public, and not in the reference"
        for name in names
        if f"matchset.{name}" not in known
    ]
    return faults


def _is_there(site: Path, file: Path, link: str, pages: dict[Path, Page]) -> bool:
    parts = urlsplit(link)
    path = unquote(parts.path)
    base = site if path.startswith("/") else file.parent
    target = (base / path.lstrip("/")).resolve() if path else file
    target = target / "index.html" if target.is_dir() else target
    if target in pages:
        return unquote(parts.fragment) in pages[target].anchors
    return target.is_file()


def main() -> int:
    """Print the faults of a site; the exit code says whether there are any."""
    site = Path(sys.argv[1])
    faults = find_faults(site, public_names(PACKAGE))
    for fault in faults:
        print(fault, file=sys.stderr)
    if not faults:
        n_pages = len(list(site.rglob("*.html")))
        print(f"{n_pages} pages: no broken link, every public name, nothing from elsewhere")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())

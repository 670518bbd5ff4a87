"""Served demo: how does a person see the demo's answers in a browser?"""

from __future__ import annotations

import json
import shlex
import shutil
import sys
from dataclasses import asdict, dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path

from matchset.cli.console import say
from matchset.cli.serve import say_address, start
from matchset.data.catalog import Catalog
from matchset.data.log import Log
from matchset.data.read import read_log
from matchset.matchers.bm25 import BM25
from matchset.matchers.title_similarity import TitleSimilarity
from matchset.matchers.tree_matcher import TreeMatcher
from matchset.serve.settings import Limits, ServeConfig
from matchset.serve.snapshots import Sources

FOLDER = Path("matchset-demo")
_SERVED = "served"  # in the demo's folder
_MODEL, _BM25, _TITLES, _TEST = "model", "bm25", "title-similarity", "test.parquet"
_MARK = "demo.json"  # written last: what lies beside it is whole


@dataclass(frozen=True, slots=True)
class DemoShop:
    """What makes one demo another."""

    products: int = 20_000
    seed: int = 0

    def mark(self) -> str:
        """What the folder of such a demo is marked with."""
        return json.dumps({**asdict(self), "matchset": version("matchset")})


_SHOP = DemoShop()


def is_kept(out: Path, shop: DemoShop) -> bool:
    """Whether the demo's folder holds what the page shows of this shop, whole."""
    folder = out / _SERVED
    mark = folder / _MARK
    has_all = all((folder / name).exists() for name in (_MODEL, _BM25, _TITLES, _TEST))
    return has_all and mark.is_file() and mark.read_text() == shop.mark()


def keep_demo(out: Path, shop: DemoShop, matcher: TreeMatcher, catalog: Catalog, test: Log) -> None:
    """Save what the page shows: the model, two others to compare with, and what was bought."""
    folder = out / _SERVED
    folder.mkdir(parents=True, exist_ok=True)
    (folder / _MARK).unlink(missing_ok=True)
    matcher.save(folder / _MODEL, overwrite=True)
    BM25.learn(catalog).save(folder / _BM25, overwrite=True)
    TitleSimilarity.learn(catalog).save(folder / _TITLES, overwrite=True)
    test.save(folder / _TEST)
    (folder / _MARK).write_text(shop.mark())


def tell_how_to_serve(out: Path, shop: DemoShop) -> None:
    """Say what shows the page of this demo."""
    options = {name: value for name, value in asdict(shop).items() if value != getattr(_SHOP, name)}
    options |= {} if out == FOLDER else {"out": shlex.quote(str(out))}
    command = " ".join([_own_name(), "demo --serve", *(f"--{n} {v}" for n, v in options.items())])
    say(f"to see the answers in a browser: {command}")


def _own_name() -> str:
    """The program as a person can type it: `make demo` puts it on no path."""
    called = Path(sys.argv[0])
    found = shutil.which("matchset")
    if called.name != "matchset" or (found is not None and called.samefile(found)):
        return "matchset"
    return shlex.quote(sys.argv[0])


def serve_demo(out: Path, port: int) -> None:
    """Serve what `keep_demo` saved, until told to stop."""
    folder = out / _SERVED
    start(
        Sources(folder / _MODEL, (folder / _BM25, folder / _TITLES)),
        ServeConfig(port=port),
        Limits(),
        read_log=partial(read_log, str(folder / _TEST)),
        on_ready=_invite,
    )


def _invite(address: str) -> None:
    say("\nOpen this address in a browser; Ctrl-C stops the server.")
    say_address(address)

"""Demo: what does it do for a shop, from log to browser, without any data at hand?"""

from __future__ import annotations

import json
import shlex
import shutil
import sys
import time
from dataclasses import asdict, dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import numpy as np
from cyclopts import Parameter

from matchset.cli.console import output, print_facts, print_heading, print_text, training_bar
from matchset.cli.logs import show_features, show_log, show_split
from matchset.config import DEFAULT_MIN_QUERY_COUNT, TrainConfig
from matchset.data.catalog import Catalog
from matchset.data.catalog_reader import read_catalog
from matchset.data.log import Log
from matchset.data.log_reader import read_log
from matchset.data.split import SplitOptions, split_by_time
from matchset.evaluate.evaluation import evaluate
from matchset.lab.compare_command import QUICK_SAMPLE, showing_progress
from matchset.lab.experiments.benchmark import make_benchmark
from matchset.lab.experiments.comparison import run_comparison
from matchset.lab.experiments.runner import QUICK
from matchset.lab.report.page import require_plots, write_report
from matchset.lab.report.verdict import describe_verdict
from matchset.lab.shop import describe_shop, simulate_shop
from matchset.matchers.bm25 import BM25
from matchset.matchers.match_set import MatchSet
from matchset.matchers.title_similarity import TitleSimilarity
from matchset.matchers.train import train
from matchset.matchers.xr_linear import XRLinearMatcher
from matchset.serve.options import Limits, ServeConfig
from matchset.serve.reload.snapshots import Sources
from matchset.serve.serve_command import print_address, start

FOLDER = Path("matchset-demo")
DEFAULT_PORT = ServeConfig().port
EXAMPLES = 3  # queries to show
_SERVED = "served"  # in the demo's folder
_MODEL, _BM25, _TITLES, _TEST = "model", "bm25", "title-similarity", "test.parquet"
_MARKER = "demo.json"  # written last: if it is there, everything beside it is complete


@dataclass(frozen=True, slots=True)
class DemoShop:
    """The parameters of a demo; equal ones give the same demo."""

    products: int = 20_000
    seed: int = 0

    def marker(self) -> str:
        """The content of the marker file of such a demo."""
        return json.dumps({**asdict(self), "matchset": version("matchset")})


SHOP = DemoShop()


def demo(
    *,
    products: int = SHOP.products,
    seed: int = SHOP.seed,
    out: Annotated[Path, Parameter(alias="-o")] = FOLDER,
    serve: bool = False,
    port: int = DEFAULT_PORT,
) -> None:
    """Simulate a shop, train on all but its last month, test on that month, and compare.

    Parameters
    ----------
    products
        Number of products of the shop.
    seed
        Random seed of the shop.
    out
        Folder for the shop, the model and the report; results of an earlier demo are reused.
    serve
        Show the answers on a web page, from an earlier demo if there is one.
    port
        Port of that page; 0 takes a free one.

    """
    shop = DemoShop(products, seed)
    if not (serve and is_saved(out, shop)):
        _run(shop, out)
    if serve:
        serve_demo(out, port)
    else:
        print_how_to_serve(out, shop)


def _run(shop: DemoShop, out: Path) -> None:
    _check_folder(out)
    log, catalog = _open_shop(shop.products, shop.seed, out / "shop")
    show_log(log, min_query_count=DEFAULT_MIN_QUERY_COUNT)
    split = split_by_time(log, test_days=30)
    print_heading("Split: training and test")
    show_split(split)
    show_features(split.train)
    matcher = _train(split.train, catalog)
    _test(matcher, split.test)
    _show_matches(matcher, split.test)
    save_demo(out, shop, matcher, catalog, split.test)
    origin = f"a simulated shop of {shop.products:,} products (seed {shop.seed})"
    _compare(log, catalog, out, origin=origin)


def _check_folder(out: Path) -> None:
    """Refuse a folder with anything but a demo in it."""
    if out.exists() and not out.is_dir():
        raise NotADirectoryError(f"{out}: must be a folder; got a file; choose --out")
    if out.exists() and any(out.iterdir()) and not (out / "shop" / "log.parquet").exists():
        raise FileExistsError(f"{out}: must be new, empty or of an earlier demo; choose --out")


def _open_shop(products: int, seed: int, folder: Path) -> tuple[Log, Catalog]:
    """Write a shop to files, and read them as a user would."""
    print_heading(f"A simulated shop of {products:,} products")
    started = time.perf_counter()
    shop = simulate_shop(products=products, seed=seed)
    goods_file, log_file = shop.save(folder)
    spent = time.perf_counter() - started
    about = asdict(describe_shop(shop))
    print_facts({name.replace("_", " "): value for name, value in about.items()})
    print_facts({"simulated in": f"{spent:.1f} s"})
    return read_log(str(log_file)), read_catalog(str(goods_file))


def _train(log: Log, catalog: Catalog) -> MatchSet | XRLinearMatcher:
    print_heading("Training")
    with training_bar() as bar:
        matcher = train(log, catalog, progress=bar)
    print_text(str(matcher.summary))
    return matcher


def _test(matcher: MatchSet | XRLinearMatcher, test: Log) -> None:
    print_heading("What customers bought in the last month: how much of it is found?")
    output.print(evaluate(matcher, test))


def _show_matches(matcher: MatchSet | XRLinearMatcher, test: Log) -> None:
    """Answers to frequent queries of the last month that were not in training."""
    print_heading("Answers to queries that were not seen in training")
    is_seen = matcher.training.is_seen(test.queries)
    counts = np.where(test.shown() & ~is_seen, test.query_counts(), 0)
    top = np.argsort(-counts, kind="stable")[:EXAMPLES]
    for query in test.queries.take(top[counts[top] > 0]):
        output.print(matcher.match(query, k=3))


def _compare(log: Log, catalog: Catalog, out: Path, *, origin: str) -> None:
    """Run the quick comparison, and print what matters of it."""
    print_heading("Comparison with other matchers")
    try:
        require_plots()
    except ImportError as error:
        print_text(f"no comparison: {error}")
        return
    options = SplitOptions(sample=QUICK_SAMPLE)
    benchmark = make_benchmark(log, catalog, TrainConfig(), options, origin=origin)
    with showing_progress() as progress:
        found = run_comparison(benchmark, out, QUICK, command="matchset demo", progress=progress)
    report = write_report(out, comparison=found)
    print_heading("What matters")
    print_text(describe_verdict(found))
    print_text(f"These figures are of {QUICK_SAMPLE:,} test queries at most, those above of all.")
    print_text(f"report: {report}")


def save_demo(
    out: Path, shop: DemoShop, matcher: MatchSet | XRLinearMatcher, catalog: Catalog, test: Log
) -> None:
    """Save what the page shows: the model, two others to compare with, and the test log."""
    folder = out / _SERVED
    folder.mkdir(parents=True, exist_ok=True)
    (folder / _MARKER).unlink(missing_ok=True)
    matcher.save(folder / _MODEL, overwrite=True)
    BM25.from_catalog(catalog).save(folder / _BM25, overwrite=True)
    TitleSimilarity.from_catalog(catalog).save(folder / _TITLES, overwrite=True)
    test.save(folder / _TEST)
    (folder / _MARKER).write_text(shop.marker())


def is_saved(out: Path, shop: DemoShop) -> bool:
    """Whether the demo's folder holds all that the page needs for this shop."""
    folder = out / _SERVED
    marker = folder / _MARKER
    has_all = all((folder / name).exists() for name in (_MODEL, _BM25, _TITLES, _TEST))
    return has_all and marker.is_file() and marker.read_text() == shop.marker()


def serve_demo(out: Path, port: int) -> None:
    """Serve what `save_demo` saved, until the server is stopped."""
    folder = out / _SERVED
    start(
        Sources(folder / _MODEL, (folder / _BM25, folder / _TITLES)),
        ServeConfig(port=port),
        Limits(),
        read_log=partial(read_log, str(folder / _TEST)),
        on_ready=_print_invitation,
    )


def print_how_to_serve(out: Path, shop: DemoShop) -> None:
    """Print the command that shows the page of this demo."""
    options = {name: value for name, value in asdict(shop).items() if value != getattr(SHOP, name)}
    options |= {} if out == FOLDER else {"out": shlex.quote(str(out))}
    command = " ".join([_own_name(), "demo --serve", *(f"--{n} {v}" for n, v in options.items())])
    print_text(f"to see the answers in a browser: {command}")


def _print_invitation(address: str) -> None:
    print_text("\nOpen this address in a browser; Ctrl-C stops the server.")
    print_address(address)


def _own_name() -> str:
    """Return the program as a user can type it: `make demo` does not put it on the path."""
    is_on_path = Path(sys.argv[0]).name == "matchset" and shutil.which("matchset") is not None
    return "matchset" if is_on_path else shlex.quote(sys.argv[0])

"""Served demo: how does a person see the demo's answers in a browser?"""

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

from matchset.cli.console import facts, heading, output, say, training_bar
from matchset.cli.experiments import QUICK_SAMPLE, following
from matchset.cli.logs import show_features, show_log, show_split
from matchset.cli.serve import print_address, start
from matchset.config import DEFAULT_MIN_QUERY_COUNT, TrainConfig
from matchset.data.catalog import Catalog
from matchset.data.catalog_reader import read_catalog
from matchset.data.log import Log
from matchset.data.log_reader import read_log
from matchset.data.split import split_by_time
from matchset.evaluate.evaluation import evaluate
from matchset.lab.experiments.benchmark import Plan, make_problem
from matchset.lab.experiments.comparison import run_comparison
from matchset.lab.experiments.contenders import FAST, OURS
from matchset.lab.experiments.runner import QUICK
from matchset.lab.report.page import require_plots, write_report
from matchset.lab.shop import describe_shop, simulate_shop
from matchset.matchers.bm25 import BM25
from matchset.matchers.title_similarity import TitleSimilarity
from matchset.matchers.train import TrainSummary, train
from matchset.matchers.xr_linear import XRLinearMatcher
from matchset.serve.options import Limits, ServeConfig
from matchset.serve.reload.snapshots import Sources

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


def keep_demo(
    out: Path, shop: DemoShop, matcher: XRLinearMatcher, catalog: Catalog, test: Log
) -> None:
    """Save what the page shows: the model, two others to compare with, and what was bought."""
    folder = out / _SERVED
    folder.mkdir(parents=True, exist_ok=True)
    (folder / _MARK).unlink(missing_ok=True)
    matcher.save(folder / _MODEL, overwrite=True)
    BM25.from_catalog(catalog).save(folder / _BM25, overwrite=True)
    TitleSimilarity.from_catalog(catalog).save(folder / _TITLES, overwrite=True)
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
    print_address(address)


EXAMPLES = 3
ADDED = ("recall_first", "recall_second", "union")
SHOP, DEFAULT_PORT = DemoShop(), ServeConfig().port


def demo(
    *,
    products: int = SHOP.products,
    seed: int = SHOP.seed,
    out: Annotated[Path, Parameter(alias="-o")] = FOLDER,
    serve: bool = False,
    port: int = DEFAULT_PORT,
) -> None:
    """Simulate a shop, train on all but its last month, test on that, and compare with others.

    Parameters
    ----------
    products
        Number of products of the shop.
    seed
        The same seed gives the same shop.
    out
        Folder for the shop, the model and the report; that of an earlier demo is used again.
    serve
        Show the answers on a page; what an earlier demo left is shown as it is.
    port
        Port of that page; 0 takes a free one.

    """
    shop = DemoShop(products, seed)
    if not (serve and is_kept(out, shop)):
        _run(shop, out)
    if serve:
        serve_demo(out, port)
    else:
        tell_how_to_serve(out, shop)


def _run(shop: DemoShop, out: Path) -> None:
    _check_folder(out)
    log, catalog = _open_shop(shop.products, shop.seed, out / "shop")
    show_log(log, min_query_count=DEFAULT_MIN_QUERY_COUNT)
    split = split_by_time(log, test_days=30)
    heading("Split: what trains, what tests")
    show_split(split)
    show_features(split.train)
    matcher = _train(split.train, catalog)
    _test(matcher, split.test)
    _show_matches(matcher, split.test)
    keep_demo(out, shop, matcher, catalog, split.test)
    origin = f"a simulated shop of {shop.products:,} products (seed {shop.seed})"
    _compare(log, catalog, out, origin=origin)


def _check_folder(out: Path) -> None:
    """Refuse to write among what is not a demo's."""
    if out.exists() and not out.is_dir():
        raise NotADirectoryError(f"{out}: must be a folder; got a file; choose --out")
    if out.exists() and any(out.iterdir()) and not (out / "shop" / "log.parquet").exists():
        raise FileExistsError(f"{out}: must be new, empty or of an earlier demo; choose --out")


def _open_shop(products: int, seed: int, folder: Path) -> tuple[Log, Catalog]:
    """Write a shop as a user would have it, and read it as a user would."""
    heading(f"A simulated shop of {products:,} products")
    start = time.perf_counter()
    shop = simulate_shop(products=products, seed=seed)
    goods_file, log_file = shop.save(folder)
    spent = time.perf_counter() - start
    about = asdict(describe_shop(shop))
    facts({name.replace("_", " "): value for name, value in about.items()})
    facts({"simulated in": f"{spent:.1f} s"})
    return read_log(str(log_file)), read_catalog(str(goods_file))


def _train(log: Log, catalog: Catalog) -> XRLinearMatcher:
    heading("Training")
    with training_bar() as bar:
        matcher = train(log, catalog, progress=bar)
    say(str(TrainSummary(**matcher.provenance["summary"])))
    return matcher


def _test(matcher: XRLinearMatcher, test: Log) -> None:
    heading("What customers bought in the last month: how much of it is found?")
    output.print(evaluate(matcher, test))


def _show_matches(matcher: XRLinearMatcher, test: Log) -> None:
    """Answers to frequent queries of the last month that were not trained on."""
    heading("Answers to queries that were never seen in training")
    is_seen = matcher.training.is_seen(test.queries)
    counts = np.where(test.shown() & ~is_seen, test.query_counts(), 0)
    places = np.argsort(-counts, kind="stable")[:EXAMPLES]
    for query in test.queries.take(places[counts[places] > 0]):
        output.print(matcher.match(query, k=3))


def _compare(log: Log, catalog: Catalog, out: Path, *, origin: str) -> None:
    """The quick comparison, and what matters of it."""
    heading("Beside other matchers")
    try:
        require_plots()
    except ImportError as error:
        say(f"no comparison: {error}")
        return
    config = TrainConfig()
    plan = Plan(sample=QUICK_SAMPLE)
    problem = make_problem(log, catalog, config, plan, origin=origin)
    with following() as follow:
        found = run_comparison(
            problem, out, QUICK, names=FAST, command="matchset demo", follow=follow
        )
    report = write_report(out)
    adds, ours = found["adds"], next(row for row in found["rows"] if row["name"] == OURS)
    heading("What matters")
    k, means = adds["k"], {name: f"{100 * adds[name]['value']:.1f} %" for name in ADDED}
    facts(
        {
            f"Recall@{k}": f"{means['recall_first']}, BM25 {means['recall_second']}",
            f"both in turn, the same {k}": means["union"],
            "one query": f"{1e6 * ours['latency']['total_p50']:.0f} us (median, one thread)",
        }
    )
    say(f"report: {report}")

"""Models: how is a model trained and pruned?"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from matchset.cli.console import print_text, training_bar
from matchset.cli.flags import Columns, Settings, make_config
from matchset.cli.interrupts import ending_soon
from matchset.errors import ParameterError
from matchset.matchers.match_set import MatchSet
from matchset.matchers.saved import load
from matchset.matchers.train import check_places
from matchset.matchers.train import train as train_matcher
from matchset.matchers.xr_linear import XRLinearMatcher
from matchset.memory import limit_memory
from matchset.work.pools import EngineName

COLUMNS, SETTINGS = Columns(), Settings()


def train(
    log: list[str],
    /,
    *,
    out: Annotated[Path, Parameter(alias="-o")],
    catalog: Path | None = None,
    config: Path | None = None,
    overwrite: bool = False,
    work: Path | None = None,
    engine: EngineName = "threads",
    columns: Columns = COLUMNS,
    settings: Settings = SETTINGS,
) -> None:
    """Learn from a search log which products answer a query.

    Parameters
    ----------
    log
        Files, globs or folders: Parquet, CSV, TSV or JSON Lines, plain or .gz.
    out
        File for the model, such as shop.matchset.
    catalog
        The products: id, title and attributes; the model also learns from titles.
    config
        TOML file of settings, named like the fields of TrainConfig. Settings of the vectorizer are
        under [vectorizer], settings of the solver and the tree under [learn].
    overwrite
        Replace an existing model.
    work
        Folder for the results of every step, so that the same command resumes after an
        interruption. It holds queries: remove it when the model is trained.
    engine
        Where the steps run, with --work: in threads of this process, in processes of this machine,
        or on a ray cluster whose machines share that folder.
    columns
        Columns of log and catalog.
    settings
        Settings; a flag overrides the file.

    """
    logging.getLogger("matchset.learn.fit_reranker").setLevel(logging.ERROR)  # the summary says it
    chosen = make_config(config, settings)
    check_places(engine, work, out, overwrite=overwrite)  # before a long log is read
    with training_bar() as bar, limit_memory(columns.memory, out.parent):
        read, goods = columns.read(log), columns.read_catalog(catalog)
        with ending_soon(
            bar.stop
        ):  # reading a log is interrupted at once, and removes what it spilled
            matcher = train_matcher(
                read,
                goods,
                chosen,
                out=out,
                overwrite=overwrite,
                work=work,
                engine=engine,
                memory=columns.memory,
                progress=bar,
            )
    print_text(str(matcher.summary))
    print_text(f"saved to {out}")


def prune(
    model: Path,
    /,
    *,
    threshold: float | None = None,
    drop: Annotated[tuple[str, ...], Parameter(consume_multiple=True)] = (),
    out: Annotated[Path, Parameter(alias="-o")],
    overwrite: bool = False,
) -> None:
    """Drop small weights of a model's tree, or whole parts: smaller, faster and slightly worse.

    Parameters
    ----------
    model
        File of a trained model.
    threshold
        Drop weights of at most this magnitude; the paper uses 0.1 to 0.45.
    drop
        Parts of a match set to leave out: tree, towers, lexical, neighbors.
    out
        File for the smaller model.
    overwrite
        Replace an existing model.

    """
    if threshold is None and not drop:
        raise ParameterError("must be given, or --drop; got neither", parameter="threshold")
    whole = load(model)
    pruned: MatchSet | XRLinearMatcher
    if isinstance(whole, MatchSet):
        pruned = whole.prune(threshold, drop=drop)
    elif not isinstance(whole, XRLinearMatcher):
        raise ParameterError(f"is for a trained model; got a {whole.kind}", parameter="threshold")
    elif drop or threshold is None:
        raise ParameterError(f"is for a match set; got a {whole.kind}", parameter="drop")
    else:
        pruned = whole.prune(threshold)
    pruned.save(out, overwrite=overwrite)
    print_text(f"{_show_size(whole)} -> {_show_size(pruned)}; saved to {out}")
    if isinstance(pruned, MatchSet) and drop and not pruned.model.reranker.is_learned:
        print_text(f"default weights of the re-ranker: {pruned.model.reranker.facts['reason']}")


def _show_size(matcher: MatchSet | XRLinearMatcher) -> str:
    """Write the weights of the tree, and the bytes of the model's parts."""
    if isinstance(matcher, XRLinearMatcher):
        return f"{matcher.tree.n_weights:,} weights, {matcher.tree.n_bytes / 1e6:.1f} MB"
    sizes = matcher.model.part_bytes()
    parts = ", ".join(f"{name} {size / 1e6:.1f}" for name, size in sizes.items())
    tree = matcher.model.tree
    weights = "" if tree is None else f"{tree.n_weights:,} weights, "
    return f"{weights}{sum(sizes.values()) / 1e6:.1f} MB ({parts})"

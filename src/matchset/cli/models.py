"""Models: how is a model trained, pruned and inspected?"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from matchset.cli.console import output, print_facts, print_heading, print_text, training_bar
from matchset.cli.options import Columns, Settings, make_config
from matchset.matchers.registry import XR_LINEAR, kind_of, load
from matchset.matchers.train import train as train_matcher
from matchset.matchers.xr_linear import XRLinearMatcher
from matchset.model.explain import strongest
from matchset.model.packed import count_weights
from matchset.storage.folders import check_target
from matchset.storage.sections import verify as verify_model

COLUMNS, SETTINGS = Columns(), Settings()
SHOWN_NODES = 12  # of the first level
NGRAMS_PER_NODE = 6


def train(
    log: list[str],
    /,
    *,
    out: Annotated[Path, Parameter(alias="-o")],
    catalog: Path | None = None,
    config: Path | None = None,
    overwrite: bool = False,
    columns: Columns = COLUMNS,
    settings: Annotated[Settings, Parameter(name="*", group="Settings")] = SETTINGS,  # type: ignore[valid-type]
) -> None:
    """Learn from a search log which products answer a query.

    Parameters
    ----------
    log
        Files, globs or folders: Parquet, CSV, TSV or JSON Lines, plain, .gz or .zst.
    out
        Folder for the model.
    catalog
        The products: id, title and attributes; the model also learns from titles.
    config
        TOML file of settings, named as the flags below; those of the vectorizer are under
        [vectorizer], those of the solver and the tree under [learn].
    overwrite
        Replace an existing model.
    columns
        Columns of log and catalog.
    settings
        Settings; each overrides that of the file.

    """
    chosen = make_config(config, settings)
    check_target(out, overwrite=overwrite)  # before a long log is read
    with training_bar() as bar:
        read, goods = columns.read(log), columns.read_catalog(catalog)
        matcher = train_matcher(read, goods, chosen, out=out, overwrite=overwrite, progress=bar)
    print_text(str(matcher.summary))
    print_text(f"saved to {out}")


def prune(
    model: Path,
    /,
    *,
    threshold: float,
    out: Annotated[Path, Parameter(alias="-o")],
    overwrite: bool = False,
) -> None:
    """Drop the small weights of a model, which makes it smaller, faster and slightly worse.

    Parameters
    ----------
    model
        Folder of a trained model.
    threshold
        Drop weights of at most this magnitude; the paper uses 0.1 to 0.45.
    out
        Folder for the smaller model.
    overwrite
        Replace an existing model.

    """
    whole = XRLinearMatcher.load(model)
    pruned = whole.prune(threshold)
    pruned.save(out, overwrite=overwrite)
    print_text(
        f"{whole.tree.n_weights:,} weights, {whole.tree.n_bytes / 1e6:.1f} MB -> "
        f"{pruned.tree.n_weights:,} weights, {pruned.tree.n_bytes / 1e6:.1f} MB; saved to {out}",
    )


def inspect(model: Path, /, *, verify: bool = False) -> None:
    """Show what a model holds: sizes, layers, vocabulary, products, configuration, origin.

    Parameters
    ----------
    model
        Folder of a trained model or any other saved matcher.
    verify
        First compare every byte with its checksum.

    """
    if verify:
        verify_model(model)
        print_text(f"{model}: every file is as it was written")
    if kind_of(model) != XR_LINEAR:
        _show_matcher(model)
        return
    matcher = XRLinearMatcher.load(model)
    _show_model(model, matcher)
    _show_tree(matcher)
    print_heading("Configuration")
    output.print_json(json.dumps(asdict(matcher.config)))


def name_node(matcher: XRLinearMatcher, node: int) -> str:
    """A node of the first level by its strongest n-grams."""
    features = strongest(matcher.tree, 0, node, NGRAMS_PER_NODE)
    return ", ".join(matcher.vectorizer.name(int(feature)) for feature in features)


def _show_model(model: Path, matcher: XRLinearMatcher) -> None:
    summary = matcher.provenance.get("summary", {})
    print_heading("Model")
    print_facts(
        {
            "trained": matcher.provenance.get("trained", "unknown"),
            "by matchset": matcher.provenance.get("matchset", "unknown"),
            "from": f"{summary.get('pairs', 0):,} pairs of {summary.get('queries', 0):,} queries",
            "on disk": f"{_count_bytes(model) / 1e6:.1f} MB, the whole folder",
            "products": repr(matcher.products),
            "vocabulary": repr(matcher.vectorizer),
            "language": matcher.vectorizer.vocabulary.language or "none",
        }
    )


def _show_tree(matcher: XRLinearMatcher) -> None:
    print_heading("Tree")
    sizes, n_weights = matcher.tree.sizes, matcher.tree.n_weights
    weights = count_weights(matcher.tree)
    layers = {
        f"layer {level}": f"{size:,} nodes, {n:,} weights"
        for level, (size, n) in enumerate(zip(sizes, weights, strict=True), 1)
    }
    size = f"{matcher.tree.n_bytes / 1e6:.1f} MB, {matcher.tree.n_bytes / max(1, n_weights):.2f}"
    print_facts(layers | {"weights": n_weights, "tree and weights": f"{size} bytes per weight"})
    print_heading("Top of the tree: the strongest n-grams of its first nodes")
    nodes = range(min(SHOWN_NODES, sizes[0]))
    print_facts({f"node {node + 1}": name_node(matcher, node) for node in nodes})


def _show_matcher(model: Path) -> None:
    """Print what every saved matcher has."""
    matcher = load(model)
    print_heading("Matcher")
    print_facts(
        {
            "kind": kind_of(model),
            "on disk": f"{_count_bytes(model) / 1e6:.1f} MB",
            "products": repr(matcher.products),
        }
    )
    print_facts({"matcher": repr(matcher)})


def _count_bytes(model: Path) -> int:
    return sum(file.stat().st_size for file in model.rglob("*") if file.is_file())

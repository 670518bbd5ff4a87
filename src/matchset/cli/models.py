"""Prune: make a smaller model of a model."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from matchset.cli.console import facts, heading, output, say
from matchset.matchers.registry import XR_LINEAR, kind_of, load
from matchset.matchers.xr_linear import XRLinearMatcher
from matchset.model.explain import strongest
from matchset.model.packed import count_weights
from matchset.storage.sections import verify as verify_model


def prune(
    model: Path,
    /,
    *,
    threshold: float,
    out: Annotated[Path, Parameter(alias="-o")],
    overwrite: bool = False,
) -> None:
    """Drop the small weights of a model: it becomes smaller and faster, and finds a little less.

    Parameters
    ----------
    model
        Folder of a trained model.
    threshold
        Weights of at most this magnitude are dropped; the paper goes from 0.1 to 0.45.
    out
        Folder for the smaller model.
    overwrite
        Replace a model that is there.

    """
    whole = XRLinearMatcher.load(model)
    pruned = whole.prune(threshold)
    pruned.save(out, overwrite=overwrite)
    say(
        f"{whole.tree.n_weights:,} weights, {whole.tree.n_bytes / 1e6:.1f} MB -> "
        f"{pruned.tree.n_weights:,} weights, {pruned.tree.n_bytes / 1e6:.1f} MB; saved to {out}",
    )


NODES = 12  # of the first level that are shown
NAMED_BY = 6  # n-grams


def name_node(matcher: XRLinearMatcher, node: int) -> str:
    """A node of the first level by its strongest n-grams."""
    features = strongest(matcher.tree, 0, node, NAMED_BY)
    return ", ".join(matcher.vectorizer.name(int(feature)) for feature in features)


def inspect(model: Path, /, *, verify: bool = False) -> None:
    """Say what a model holds: sizes, layers, vocabulary, products, configuration, origin.

    Parameters
    ----------
    model
        Folder of a trained model, or of any saved matcher.
    verify
        Compare every byte with its checksum first.

    """
    if verify:
        verify_model(model)
        say(f"{model}: every file is as it was written")
    if kind_of(model) != XR_LINEAR:
        _tell_other(model)
        return
    matcher = XRLinearMatcher.load(model)
    summary = matcher.provenance.get("summary", {})
    heading("Model")
    on_disk = sum(file.stat().st_size for file in model.iterdir())
    facts(
        {
            "trained": matcher.provenance.get("trained", "unknown"),
            "by matchset": matcher.provenance.get("matchset", "unknown"),
            "from": f"{summary.get('pairs', 0):,} pairs of {summary.get('queries', 0):,} queries",
            "on disk": f"{on_disk / 1e6:.1f} MB, the whole folder",
            "products": repr(matcher.products),
            "vocabulary": repr(matcher.vectorizer),
        }
    )
    heading("Tree")
    sizes, n_weights = matcher.tree.sizes, matcher.tree.n_weights
    weights = count_weights(matcher.tree)
    layers = {
        f"layer {level}": f"{size:,} nodes, {n:,} weights"
        for level, (size, n) in enumerate(zip(sizes, weights, strict=True), 1)
    }
    size = f"{matcher.tree.n_bytes / 1e6:.1f} MB, {matcher.tree.n_bytes / max(1, n_weights):.2f}"
    facts(layers | {"weights": n_weights, "tree and weights": f"{size} bytes per weight"})
    heading("Top of the tree: the strongest n-grams of its first nodes")
    facts({f"node {node + 1}": name_node(matcher, node) for node in range(min(NODES, sizes[0]))})
    heading("Configuration")
    output.print_json(json.dumps(asdict(matcher.config)))


def _tell_other(model: Path) -> None:
    """What every saved matcher has: one that is no tree has no layers."""
    matcher = load(model)
    heading("Matcher")
    on_disk = sum(file.stat().st_size for file in model.rglob("*") if file.is_file())
    facts(
        {
            "kind": kind_of(model),
            "on disk": f"{on_disk / 1e6:.1f} MB",
            "products": repr(matcher.products),
        }
    )
    facts({"matcher": repr(matcher)})

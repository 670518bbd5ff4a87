"""Prune: make a smaller model of a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from matchset.cli.console import say
from matchset.matchers.tree_matcher import TreeMatcher


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
    whole = TreeMatcher.load(model)
    pruned = whole.prune(threshold)
    pruned.save(out, overwrite=overwrite)
    say(
        f"{whole.tree.n_weights:,} weights, {whole.tree.n_bytes / 1e6:.1f} MB -> "
        f"{pruned.tree.n_weights:,} weights, {pruned.tree.n_bytes / 1e6:.1f} MB; saved to {out}",
    )

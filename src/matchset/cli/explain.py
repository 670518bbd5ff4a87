"""Explain: why does a query get a product?"""

from __future__ import annotations

from pathlib import Path

from matchset.cli.console import output
from matchset.matchers.tree_matcher import DEFAULT_BEAM, TreeMatcher


def explain(model: Path, query: str, product: str, /, *, beam: int = DEFAULT_BEAM) -> None:
    """Show the way of a product through the tree, and what spoke for and against it.

    Parameters
    ----------
    model
        Folder of a trained model.
    query
        What a customer typed.
    product
        Product id.
    beam
        Nodes kept per level of the tree.

    """
    output.print(TreeMatcher.load(model).explain(query, product, beam=beam))

"""Simulate: a shop to try everything on."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from matchset.cli.console import facts, say
from matchset.data.shop import describe_shop, simulate_shop


def simulate(
    *,
    out: Annotated[Path, Parameter(alias="-o")],
    products: int = 10_000,
    queries: int | None = None,
    days: int = 395,
    seed: int = 0,
) -> None:
    """Simulate a shop: its catalogue, and the search log of customers who want things.

    Parameters
    ----------
    out
        Folder for products.parquet and log.parquet.
    products
        Number of products.
    queries
        Number of distinct queries to aim at; twice the products if not given.
    days
        Length of the log.
    seed
        The same seed gives the same shop.

    """
    out.mkdir(parents=True, exist_ok=True)  # before the work, lest it be in vain
    shop = simulate_shop(products=products, queries=queries, days=days, seed=seed)
    facts(asdict(describe_shop(shop)))
    for path in shop.save(out):
        say(path)

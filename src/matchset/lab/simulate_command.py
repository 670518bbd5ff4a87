"""Simulate command: how does a simulated shop come into files?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from matchset.cli.console import print_facts, print_text
from matchset.lab.shop import ShopKind, describe_shop, simulate_shop, stream_shop
from matchset.lab.shop.simulate import check_arguments


def simulate(
    *,
    out: Annotated[Path, Parameter(alias="-o")],
    kind: ShopKind = "shop",
    products: int = 10_000,
    queries: int | None = None,
    days: int = 395,
    seed: int = 0,
    stream: bool = False,
) -> None:
    """Simulate a shop: a catalog and a search log of its customers.

    Parameters
    ----------
    out
        Folder for products.parquet and log.parquet.
    kind
        In a shop, titles say what customers buy. In a marketplace thousands of products match a
        query, and what customers did says which of them are bought.
    products
        Number of products.
    queries
        Approximate number of distinct queries (default: twice the number of products, or 2.4 times
        in a marketplace).
    days
        Length of the log in days.
    seed
        Random seed.
    stream
        Write in chunks, to OUT/products and OUT/log, for logs larger than memory; prints no facts.

    """
    check_arguments(kind, products, queries, days, seed)
    out.mkdir(parents=True, exist_ok=True)  # first, so that a bad folder fails before the work
    if stream:
        rows = stream_shop(out, kind=kind, products=products, queries=queries, days=days, seed=seed)
        print_text(f"{rows:,} rows in {out / 'log'}, products in {out / 'products'}")
        return
    shop = simulate_shop(kind=kind, products=products, queries=queries, days=days, seed=seed)
    print_facts(describe_shop(shop).beside_paper())
    for path in shop.save(out):
        print_text(path)

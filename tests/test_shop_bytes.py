"""The simulated shops give the same catalog and log, byte for byte, wherever they run.

Whoever changes a digest states every matcher's results before and after: the tables of README and
of the benchmarks are measured on these shops.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from matchset.lab.shop import simulate_shop
from matchset.lab.shop.simulate import Shop

DIGESTS = {
    ("shop", 0): "17ad8cbb7e777e5d",
    ("shop", 1): "177fb45cb1bb4f74",
    ("marketplace", 0): "9ebb38598fea28de",
    ("marketplace", 1): "e3d0b35e31b47592",
}


def digest_shop(shop: Shop) -> str:
    """Return a hash over everything that the catalog and the log hold."""
    digest = hashlib.sha256()
    catalog, log = shop.catalog, shop.log
    columns = [catalog.attributes[name] for name in sorted(catalog.attributes)]
    texts = [catalog.ids, catalog.titles, log.queries, log.spellings, log.products]
    texts += [column.categories for column in columns if column.categories is not None]
    for strings in texts:
        digest.update("\n".join(strings).encode())
    arrays = [column.values for column in columns]
    for array in (*arrays, log.query, log.product, log.event, log.day, log.count):
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:16]


@pytest.mark.parametrize(("kind", "seed"), DIGESTS)
def test_a_shop_of_2000_products_is_pinned(kind: str, seed: int) -> None:
    shop = simulate_shop(kind=kind, products=2000, seed=seed)
    assert digest_shop(shop) == DIGESTS[kind, seed]


@pytest.mark.parametrize("kind", ["shop", "marketplace"])
def test_a_shop_does_not_depend_on_the_hash_seed_or_threads(kind: str) -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "from test_shop_bytes import digest_shop, simulate_shop\n"
        f"print(digest_shop(simulate_shop(kind={kind!r}, products=2000, seed=0)))"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "7", "OMP_NUM_THREADS": "1"}
    process = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert process.stdout.strip() == DIGESTS[kind, 0]

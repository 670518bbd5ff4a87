"""Lookup: which label has a product id, in microseconds?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from matchset.matrices import Ids
from matchset.model.products import Products
from matchset.strings import Strings


@dataclass(frozen=True, slots=True, eq=False)
class Lookup:
    """Hashes of ids in order: twelve bytes a product, where a dict would take a hundred."""

    products: Products
    hashes: NDArray[np.uint64]  # ascending, (n_products,)
    labels: Ids  # of each hash, (n_products,)

    @classmethod
    def of(cls, products: Products) -> Lookup:
        """Make it, in time that grows with the products."""
        hashes = products.ids.hashes()
        order = np.argsort(hashes, kind="stable")
        return cls(products, hashes[order], order.astype(np.int32))

    def find(self, ids: Sequence[str]) -> Ids:
        """Label of each id, -1 where there is no such product."""
        if not len(self.hashes) or not ids:
            return np.full(len(ids), -1, dtype=np.int32)
        wanted = Strings.of(list(ids)).hashes()
        place = np.minimum(np.searchsorted(self.hashes, wanted), len(self.hashes) - 1)
        labels = self.labels[place]
        found = self.products.ids.decode(labels)  # two ids may have one hash
        is_known = [known == asked for known, asked in zip(found, ids, strict=True)]
        return np.where(is_known, labels, -1).astype(np.int32)

    def titles(self, ids: Sequence[str]) -> list[str]:
        """Title of each id, empty where there is no such product, or it has none."""
        if self.products.titles is None or not len(self.hashes):
            return [""] * len(ids)
        labels = self.find(ids)
        titles = self.products.titles.decode(np.maximum(labels, 0))
        return [title if label >= 0 else "" for label, title in zip(labels, titles, strict=True)]

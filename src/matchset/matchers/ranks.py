"""Ranks: at which place did each matcher of a fusion find a product?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from matchset.data.arrow import ExportColumn
from matchset.matrices import Ids


@dataclass(frozen=True, slots=True, eq=False)
class Ranks:
    """The rank of each product at each matcher."""

    names: tuple[str, ...]  # of the matchers
    table: Ids  # from 1, 0 where a matcher did not find the product, (n, n_matchers)

    def __getitem__(self, rows: Any) -> Ranks:
        return Ranks(self.names, self.table[rows])

    def to_dicts(self) -> tuple[dict[str, int], ...]:
        """Return the ranks of each product, by the name of the matchers that found it."""
        return tuple(
            {name: rank for name, rank in zip(self.names, ranks, strict=True) if rank}
            for ranks in self.table.tolist()
        )

    def to_columns(self) -> list[ExportColumn]:
        """Return a column for each matcher, null where it did not find the product."""
        return [
            ExportColumn(f"rank_{name}", np.ascontiguousarray(column), is_null=column == 0)
            for name, column in zip(self.names, self.table.T, strict=True)
        ]

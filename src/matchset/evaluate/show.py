"""Showing: how do people read a table of numbers?"""

from __future__ import annotations

import math
from dataclasses import replace

from matchset.matchers.show import Shown, to_plain


class Headed(Shown):
    """What people see as a grid whose columns have names, in plain text too."""

    __slots__ = ()

    def __repr__(self) -> str:
        grid = self._grid()
        return to_plain(replace(grid, rows=[grid.headers, *grid.rows], n_rows=grid.n_rows + 1))


def percent(share: float) -> str:
    """A share in percent, a dash where it is not known."""
    return "-" if math.isnan(share) else f"{100 * share:.1f}"


def with_margin(value: float, low: float, high: float) -> str:
    """A share with the larger half of its confidence interval: 31.2 ±1.1."""
    if math.isnan(low) or math.isnan(value):
        return percent(value)
    return f"{percent(value)} ±{percent(max(value - low, high - value))}"

"""Seasons: on which days is a category wanted?"""

from __future__ import annotations

from datetime import date, timedelta

import numpy as np
from numpy.typing import NDArray

LAST_DAY = (date(2026, 10, 31) - date(1970, 1, 1)).days  # the last day of every simulated log

# Day of the year, spread in days, and how many times the usual demand comes on top.
_SEASONS = {
    "": (0, 1, 0.0),
    "newyear": (8, 18, 3.0),
    "winter": (5, 45, 3.0),
    "valentine": (40, 10, 9.0),
    "easter": (95, 14, 7.0),
    "spring": (110, 35, 2.0),
    "summer": (190, 40, 3.0),
    "school": (225, 22, 3.0),
    "autumn": (285, 35, 2.0),
    "halloween": (292, 16, 10.0),
    "december": (342, 18, 10.0),
    "christmas": (345, 20, 3.0),
}
SEASONS = tuple(_SEASONS)


def season_days(days: int) -> NDArray[np.float64]:
    """The share of demand up to each of the last `days` days, by season, (n_seasons, days)."""
    dates = [date(1970, 1, 1) + timedelta(LAST_DAY - days + 1 + n) for n in range(days)]
    day_of_year = np.array([day.timetuple().tm_yday for day in dates])
    is_weekend = np.array([day.weekday() >= 5 for day in dates])
    demand = np.empty((len(_SEASONS), days))
    for row, (peak, spread, strength) in enumerate(_SEASONS.values()):
        distance = np.abs(day_of_year - peak)
        distance = np.minimum(distance, 365 - distance)
        demand[row] = 1.0 + strength * np.exp(-0.5 * (distance / spread) ** 2)
    demand *= np.where(is_weekend, 1.2, 1.0)
    up_to: NDArray[np.float64] = np.cumsum(demand, axis=1)
    return up_to / up_to[:, -1:]

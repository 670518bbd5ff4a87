"""Formats: how are shares, times and sizes written for people?"""

from __future__ import annotations

import math

from matchset.matchers.display import percent

NOTHING = "–"


def format_percent(share: float | None) -> str:
    """Return a share in percent, with one decimal."""
    return NOTHING if share is None or math.isnan(share) else f"{percent(share)}\u00a0%"


def format_points(difference: float) -> str:
    """Return a difference of two shares in percentage points, with its sign."""
    return f"{round(100 * difference, 1) + 0.0:+.1f}".replace("-", "−")  # never -0.0


def format_latency(seconds: float) -> str:
    """Return a short time, with three significant digits."""
    if seconds == 0:
        return NOTHING
    is_short = seconds < 1e-3
    return f"{three_digits((1e6 if is_short else 1e3) * seconds)}\u00a0{'µs' if is_short else 'ms'}"


def format_seconds(value: float) -> str:
    """Return a long time."""
    if value < 120:
        return f"{value:.2f}\u00a0s" if value < 10 else f"{value:.1f}\u00a0s"
    return f"{value / 60:.1f}\u00a0min"


def format_bytes(n_bytes: float) -> str:
    """Return a size on disk or in memory."""
    if n_bytes < 1e9:
        return f"{three_digits(n_bytes / 1e6)}\u00a0MB"
    return f"{n_bytes / 1e9:.2f}\u00a0GB"


def format_count(value: float) -> str:
    """Return a number of queries in a thousand, with its sign if it is negative."""
    shown = f"{value:.1f}" if abs(value) < 10 else f"{value:.0f}"
    return shown.replace("-", "−")


def three_digits(value: float) -> str:
    """Return a number with three significant digits, without an exponent."""
    if value == 0:
        return "0"
    decimals = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:,.{min(decimals, 6)}f}"

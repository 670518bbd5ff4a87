"""Draws: how can a draw depend on the seed and a number alone, never on the chunk it is in?

A key is a 64-bit hash of the seed and some numbers, such as a query and the number of a visit. A
draw hashes the key once more, together with the purpose of the draw. So product 7 has the same
price whether it is made alone, among a million others, or in another thread.
"""

from __future__ import annotations

import zlib

import numpy as np
from numpy.typing import NDArray

Keys = NDArray[np.uint64]
Chances = NDArray[np.float64]

_STEP = 0x9E3779B97F4A7C15  # 2^64 divided by the golden ratio, odd
_MASK = (1 << 64) - 1


def make_keys(seed: int, what: str, numbers: NDArray[np.integer]) -> Keys:
    """Return a key for each number; `what` says what is numbered, (n,)."""
    start = np.array([(seed * _STEP + zlib.crc32(what.encode())) & _MASK], dtype=np.uint64)
    return _mix(numbers.astype(np.uint64) * np.uint64(_STEP) + _mix(start))


def extend(keys: Keys, numbers: NDArray[np.integer] | int) -> Keys:
    """Return a key for each pair of a key and a number, (n,)."""
    return _mix(keys + np.asarray(numbers).astype(np.uint64) * np.uint64(_STEP))


def draw(keys: Keys, purpose: str) -> Chances:
    """Return a number from 0 up to, but without, 1 for each key, (n,)."""
    # The same multiplier is used for numbers below 2^32; a larger one keeps purposes apart.
    code = (zlib.crc32(purpose.encode()) + (1 << 33)) * _STEP & _MASK
    bits = _mix(keys + np.uint64(code)) >> np.uint64(11)
    return bits.astype(np.float64) * 2.0**-53


def draw_normal(keys: Keys, purpose: str) -> Chances:
    """Return a draw from the standard normal distribution for each key, (n,)."""
    from scipy.special import ndtri  # a fifth of what `import matchset` would take

    normal: Chances = ndtri(draw(keys, purpose) + 2.0**-54)
    return normal


def _mix(keys: Keys) -> Keys:
    """Mix as SplitMix64 ends: every bit of the result depends on every bit of the key."""
    mixed = keys ^ (keys >> np.uint64(30))
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(27)
    mixed *= np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(31)
    return mixed

"""Assignment: which arm does a unit see?

By a keyed hash of the unit alone (BLAKE2b, keyed by the experiment's name and salt): the same on
every worker and after every restart, and independent of any other experiment.
"""

from __future__ import annotations

from bisect import bisect_right
from hashlib import blake2b, shake_256

from matchset.online.definition import Arm, Experiment


def assign(experiment: Experiment, unit: str) -> Arm:
    """Return the arm that a unit sees."""
    digest = _hash(experiment, unit, digest_size=8, person=b"matchset arm")
    place = int.from_bytes(digest.digest(), "big") / 2**64
    return experiment.arms[bisect_right(experiment.ends, place)]


def hide_unit(experiment: Experiment, unit: str) -> str:
    """Return the unit as records name it: the same text for the same unit, and no way back.

    Whoever knows the salt can still tell whether a record belongs to a unit that they know.
    """
    return _hash(experiment, unit, digest_size=16, person=b"matchset unit").hexdigest()


def flip_coins(experiment: Experiment, unit: str, query: str, n: int) -> list[bool]:
    """Flip n coins for a unit and a (normalized) query; more of them begin with the same ones."""
    parts = (_encode(unit), _encode(query))
    sizes = b"".join(len(part).to_bytes(4, "big") for part in parts)
    drawn = shake_256(b"".join((experiment.key, sizes, *parts))).digest((n + 7) // 8)
    bits = int.from_bytes(drawn, "little")
    return [bits >> index & 1 == 1 for index in range(n)]


def _hash(experiment: Experiment, unit: str, *, digest_size: int, person: bytes) -> blake2b:
    return blake2b(_encode(unit), digest_size=digest_size, key=experiment.key, person=person)


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")  # a caller may send any text

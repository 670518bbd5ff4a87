"""Cuts: where is a large step cut into tasks?

Neither threads nor memory nor the engine may decide that, or they would change bytes: sizes alone
do. A training of up to some million products is cut nowhere but into ranges of parents to solve.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True, slots=True)
class Cuts:
    """How much a task does at most."""

    text_bytes: int = 1 << 27  # of texts: some millions
    labels: int = 1 << 21  # whose vectors are summed
    tree_labels: int = 2_000_000  # that are cut into a tree; of more, a task cuts the top
    sampled_labels: int = 500_000  # of a node at the top, by which it is cut
    lists: int = 16_384  # of about 64 products each, which move to their nearest lists
    # What a range of parents costs is counted in instances, each as often as it is passed over. It
    # takes about 50 ms, or more if there would be too many: some thousands of files are fine.
    solve_cost: int = 50_000
    solve_ranges: int = 2048
    pack_cost: int = 100_000_000  # as above; its memory is about 30 bytes for each
    tower_steps: int = 32  # of training between two chances to report or to stop
    tower_seconds: float = 300.0  # of training that a crash may cost


CUTS = Cuts()


def plan_parts(n: int, most: int) -> list[range]:
    """Return even ranges of n items, of at most `most` each; a single one where that is enough."""
    n_parts = max(1, -(-n // most))
    ends = [n * part // n_parts for part in range(n_parts + 1)]
    return [range(*pair) for pair in pairwise(ends)]

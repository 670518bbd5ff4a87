"""Losses: how wrong are the cosines of a batch?"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from matchset.matchers.dssm.config import DssmConfig
from matchset.matchers.dssm.examples import Batch, Places


def measure_loss(cosines: Tensor, batch: Batch, config: DssmConfig) -> Tensor:
    """The configured loss of a batch, given (n_pairs, n_columns) cosines."""
    if config.loss == "softmax":
        return _measure_softmax(cosines, batch, config)
    return _measure_hinge(cosines, batch, config)


def _measure_softmax(cosines: Tensor, batch: Batch, config: DssmConfig) -> Tensor:
    """Cross-entropy of each pair's product against the columns that are not positive."""
    target = torch.from_numpy(batch.target).to(cosines.device)
    is_other = _mark(cosines, batch.positives)
    is_other[torch.arange(len(target)), target] = False
    logits = (cosines / config.temperature).masked_fill(is_other, -torch.inf)
    return functional.cross_entropy(logits, target)


def _measure_hinge(cosines: Tensor, batch: Batch, config: DssmConfig) -> Tensor:
    """The paper's three parts, each squared and averaged over its own pairs.

    Every column is a random product for every query that it is neither positive nor impressed for.
    """
    is_positive = _mark(cosines, batch.positives)
    is_impressed = _mark(cosines, batch.impressed) & ~is_positive
    is_random = ~(is_positive | is_impressed)
    parts = (
        (is_positive, functional.relu(config.purchased - cosines)),
        (is_impressed, functional.relu(cosines - config.impressed)),
        (is_random, functional.relu(cosines - config.random)),
    )
    return torch.stack(
        [(excess.square() * mask).sum() / mask.sum().clamp(min=1) for mask, excess in parts]
    ).sum()


def _mark(cosines: Tensor, places: tuple[Places, Places]) -> Tensor:
    mask = torch.zeros(cosines.shape, dtype=torch.bool, device=cosines.device)
    mask[tuple(map(torch.from_numpy, places))] = True
    return mask

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
    is_other[torch.arange(len(target), device=target.device), target] = False
    logits = (cosines / config.temperature).masked_fill(is_other, -torch.inf)
    return functional.cross_entropy(logits, target)


def _measure_hinge(cosines: Tensor, batch: Batch, config: DssmConfig) -> Tensor:
    """The paper's three parts: squared, each averaged over the pairs that break its rule.

    Every column is a random product for every query that it is neither positive nor impressed for.
    Most of those keep their rule at once: a mean over all would leave the others without weight.
    """
    is_positive = _mark(cosines, batch.positives)
    is_impressed = _mark(cosines, batch.impressed) & ~is_positive
    parts = (
        (is_positive, config.purchased - cosines),
        (is_impressed, cosines - config.impressed),
        (~(is_positive | is_impressed), cosines - config.random),
    )
    squares = [functional.relu(excess).square() * mask for mask, excess in parts]
    return torch.stack([part.sum() / (part > 0).sum().clamp(min=1) for part in squares]).sum()


def _mark(cosines: Tensor, places: tuple[Places, Places]) -> Tensor:
    mask = torch.zeros(cosines.shape, dtype=torch.bool, device=cosines.device)
    mask[tuple(map(torch.from_numpy, places))] = True
    return mask

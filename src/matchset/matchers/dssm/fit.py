"""Fitting: how are the weights of the network found?"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch

from matchset.learn.train import Progress
from matchset.matchers.dssm.config import DssmConfig
from matchset.matchers.dssm.examples import (
    Examples,
    Places,
    count_batches,
    draw_batches,
    hold_back,
)
from matchset.matchers.dssm.losses import measure_loss
from matchset.matchers.dssm.network import Network
from matchset.matchers.dssm.tower import pool_rows
from matchset.matrices import Floats

logger = logging.getLogger(__name__)

_NORM_RATE = 0.001  # learning rate of batch normalisation, by Adam
_RECALL_AT = (10, 50, 100)  # as in the paper; the mean of the three decides
_QUERIES_AT_ONCE = 256


@dataclass(frozen=True, slots=True, eq=False)
class Fitted:
    """Weights of the tower, and how they were found."""

    embeddings: Floats  # (n_features, dimensions)
    shift: Floats  # (dimensions,)
    recalls: tuple[float, ...]  # of the queries held back, after each epoch; empty without any
    epochs: int  # after which the weights are these
    device: str


def fit(
    examples: Examples, config: DssmConfig, *, threads: int, progress: Callable[[Progress], None]
) -> Fitted:
    """Minimise the loss epoch by epoch, and keep the weights that recalled most."""
    started = time.perf_counter()
    device = _choose_device(config)
    pairs, held_back = hold_back(examples, config)
    network = Network(examples.titles.width, config.dimensions, seed=config.seed, device=device)
    course = _Course(network, examples, pairs, config=config, progress=progress)
    recalls: list[float] = []
    weights, kept = network.fold(), 0
    with _use_threads(threads):
        for epoch in range(config.epochs):
            course.run(epoch)
            latest = network.fold()
            if len(held_back):
                recalls.append(_measure_recall(*latest, examples, held_back))
                logger.info("epoch %d: mean recall %.4f", epoch + 1, recalls[-1])
            if len(recalls) < 2 or recalls[-1] > max(recalls[:-1]):
                weights, kept = latest, epoch + 1
            is_late = config.time_limit and time.perf_counter() - started > config.time_limit
            if is_late or epoch + 1 - kept >= config.patience:
                break
    progress(Progress("fit", course.n_steps, course.n_steps))
    return Fitted(*weights, tuple(recalls), kept, str(device))


class _Course:
    """The steps of one training, and what the optimizer remembers between them."""

    def __init__(
        self,
        network: Network,
        examples: Examples,
        pairs: tuple[Places, Places],
        *,
        config: DssmConfig,
        progress: Callable[[Progress], None],
    ) -> None:
        self._network, self._examples, self._pairs = network, examples, pairs
        self._config, self._progress = config, progress
        self._optimizer = torch.optim.Adam(network.norm.parameters(), lr=_NORM_RATE)
        self._n_batches = count_batches(pairs, config)
        self.n_steps = config.epochs * self._n_batches

    def run(self, epoch: int) -> None:
        """One pass over all pairs."""
        network, config = self._network, self._config
        rng = np.random.default_rng([config.seed, epoch])
        network.norm.train()
        for place, batch in enumerate(draw_batches(self._examples, self._pairs, rng, config)):
            step = epoch * self._n_batches + place
            pace = config.learning_rate * (1 + math.cos(math.pi * step / self.n_steps)) / 2
            cosines, places, rows = network.compare(self._examples, batch)
            self._optimizer.zero_grad()
            measure_loss(cosines, batch, config).backward()
            self._optimizer.step()
            network.update_rows(places, rows, pace)
            self._progress(Progress("fit", step + 1, self.n_steps))


def _measure_recall(
    embeddings: Floats, shift: Floats, examples: Examples, held_back: Places
) -> float:
    """Mean share of a query's products among its nearest, of the queries held back."""
    titles = torch.from_numpy(pool_rows(examples.titles.to_scipy(), embeddings, shift))
    queries = pool_rows(examples.queries.to_scipy()[held_back], embeddings, shift)
    positives = examples.positives.to_scipy()[held_back]
    recalls = []
    for first in range(0, len(held_back), _QUERIES_AT_ONCE):
        some = slice(first, first + _QUERIES_AT_ONCE)
        cosines = torch.from_numpy(queries[some]) @ titles.T
        nearest = torch.topk(cosines, min(max(_RECALL_AT), len(titles)), dim=1).indices.numpy()
        wanted = positives[some].toarray() > 0
        is_found = np.take_along_axis(wanted, nearest, axis=1)
        found = [is_found[:, :k].sum(axis=1) for k in _RECALL_AT]
        recalls.append(np.mean(found, axis=0) / wanted.sum(axis=1))
    return float(np.concatenate(recalls).mean())


def _choose_device(config: DssmConfig) -> torch.device:
    if config.device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if config.device == "cuda" and not torch.cuda.is_available():
        raise ValueError("device must be one that there is; got 'cuda' without a GPU")
    return torch.device(config.device)


@contextmanager
def _use_threads(threads: int) -> Iterator[None]:
    """So many threads inside, and as many as before outside."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)

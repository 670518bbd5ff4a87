"""Network: how are the vectors of n-grams learned?"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from matchset.lab.dssm.batches import (
    Batch,
    Examples,
    Indices,
    count_batches,
    draw_batches,
    split_validation,
    take_rows,
)
from matchset.lab.dssm.settings import DSSMConfig
from matchset.lab.dssm.space import pool_rows
from matchset.matrices import Floats
from matchset.work.steps import Progress

logger = logging.getLogger(__name__)

_EPSILON = 1e-8
_NORM_RATE = 0.001  # learning rate of batch normalization, by Adam
_RECALL_AT = (10, 50, 100)  # as in the paper; the mean of the three decides
_QUERIES_AT_ONCE = 256


class Network:
    """Mean of embeddings, batch normalization, tanh, unit length: one tower for both sides.

    The embedding table is not an autograd parameter: a step takes out the rows that its texts use,
    updates them, and puts them back, so that its cost does not grow with the vocabulary.
    """

    def __init__(
        self, n_features: int, dimensions: int, *, seed: int, device: str | torch.device = "cpu"
    ) -> None:
        generator = torch.Generator().manual_seed(seed)
        table = torch.randn(n_features, dimensions, generator=generator) / dimensions**0.5
        self.table = table.to(device)
        self.squares = torch.zeros(n_features, device=device)  # state of row-wise Adagrad
        self.norm = nn.BatchNorm1d(dimensions, device=device)

    def embed(self, rows: Tensor, local: Tensor, starts: Tensor) -> Tensor:
        """Return unit vectors of texts from the embeddings that they use, (n_texts, dimensions)."""
        pooled = functional.embedding_bag(local, rows, starts, mode="mean")
        return functional.normalize(torch.tanh(self.norm(pooled)))

    def compare(self, examples: Examples, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """Return cosines of a batch, (n_pairs, n_columns), and the rows of the table it used."""
        query_ids, query_starts = take_rows(examples.queries, batch.queries)
        title_ids, title_starts = take_rows(examples.titles, batch.products)
        starts = np.concatenate([query_starts[:-1], title_starts[:-1] + len(query_ids)])
        used, local = np.unique(np.concatenate([query_ids, title_ids]), return_inverse=True)
        device = self.table.device
        indices = torch.from_numpy(used).to(device)
        rows = self.table[indices].requires_grad_()
        bags = torch.from_numpy(local).to(device), torch.from_numpy(starts).to(device)
        vectors = self.embed(rows, *bags)  # together: both sides share the batch statistics
        n_queries = len(batch.queries)
        return vectors[:n_queries] @ vectors[n_queries:].T, indices, rows

    def update_rows(self, indices: Tensor, rows: Tensor, learning_rate: float) -> None:
        """Take one step of row-wise Adagrad: rare n-grams keep a high learning rate."""
        gradient = rows.grad
        with torch.no_grad():
            squares = self.squares[indices] + gradient.square().mean(dim=1)
            self.squares[indices] = squares
            rates = learning_rate / (squares.sqrt() + _EPSILON)
            self.table[indices] = rows - rates[:, None] * gradient

    def fold(self) -> tuple[Floats, Floats]:
        """Return embeddings and shift: tanh(mean + shift) is what the trained network gives."""
        with torch.no_grad():
            scale = self.norm.weight / torch.sqrt(self.norm.running_var + self.norm.eps)
            shift = self.norm.bias - self.norm.running_mean * scale
            return (self.table * scale).cpu().numpy(), shift.cpu().numpy()


def measure_loss(cosines: Tensor, batch: Batch, config: DSSMConfig) -> Tensor:
    """Return the cross-entropy of each pair's product against columns that are not positive."""
    target = torch.from_numpy(batch.target).to(cosines.device)
    is_other = torch.zeros(cosines.shape, dtype=torch.bool, device=cosines.device)
    is_other[tuple(map(torch.from_numpy, batch.positives))] = True
    is_other[torch.arange(len(target), device=target.device), target] = False
    logits = (cosines / config.temperature).masked_fill(is_other, -torch.inf)
    return functional.cross_entropy(logits, target)


@dataclass(frozen=True, slots=True, eq=False)
class Fitted:
    """Weights of the tower, and how they were found."""

    embeddings: Floats  # (n_features, dimensions)
    shift: Floats  # (dimensions,)
    recalls: tuple[float, ...]  # of the validation queries after each epoch; empty without any
    epochs: int  # after which these were the weights
    device: str


def fit(
    examples: Examples, config: DSSMConfig, *, threads: int, progress: Callable[[Progress], None]
) -> Fitted:
    """Minimize the loss epoch by epoch, and keep the weights with the highest recall."""
    started = time.perf_counter()
    device = _choose_device(config)
    pairs, validation = split_validation(examples, config)
    network = Network(examples.titles.n_cols, config.dimensions, seed=config.seed, device=device)
    steps = _Optimizer(network, examples, pairs, config=config, progress=progress)
    recalls: list[float] = []
    weights, best_epoch = network.fold(), 0
    with _use_threads(threads):
        for epoch in range(config.epochs):
            steps.run(epoch)
            latest = network.fold()
            if len(validation):
                recalls.append(_measure_recall(*latest, examples, validation))
                logger.info("epoch %d: mean recall %.4f", epoch + 1, recalls[-1])
            if len(recalls) < 2 or recalls[-1] > max(recalls[:-1]):
                weights, best_epoch = latest, epoch + 1
            is_late = config.time_limit and time.perf_counter() - started > config.time_limit
            if is_late or epoch + 1 - best_epoch >= config.patience:
                break
    progress(Progress("fit", steps.n_steps, steps.n_steps))
    return Fitted(*weights, tuple(recalls), best_epoch, str(device))


class _Optimizer:
    """The steps of one training, and the state between them."""

    def __init__(
        self,
        network: Network,
        examples: Examples,
        pairs: tuple[Indices, Indices],
        *,
        config: DSSMConfig,
        progress: Callable[[Progress], None],
    ) -> None:
        self._network, self._examples, self._pairs = network, examples, pairs
        self._config, self._progress = config, progress
        self._adam = torch.optim.Adam(network.norm.parameters(), lr=_NORM_RATE)
        self._n_batches = count_batches(pairs, config)
        self.n_steps = config.epochs * self._n_batches

    def run(self, epoch: int) -> None:
        """Return one pass over all pairs."""
        network, config = self._network, self._config
        rng = np.random.default_rng([config.seed, epoch])
        network.norm.train()
        for number, batch in enumerate(draw_batches(self._examples, self._pairs, rng, config)):
            step = epoch * self._n_batches + number
            rate = config.learning_rate * (1 + math.cos(math.pi * step / self.n_steps)) / 2
            cosines, indices, rows = network.compare(self._examples, batch)
            self._adam.zero_grad()
            measure_loss(cosines, batch, config).backward()
            self._adam.step()
            network.update_rows(indices, rows, rate)
            self._progress(Progress("fit", step + 1, self.n_steps))


def _measure_recall(
    embeddings: Floats, shift: Floats, examples: Examples, validation: Indices
) -> float:
    """Measure the mean recall of the validation queries."""
    titles = torch.from_numpy(pool_rows(examples.titles.to_scipy(), embeddings, shift))
    queries = pool_rows(examples.queries.to_scipy()[validation], embeddings, shift)
    positives = examples.positives.to_scipy()[validation]
    recalls = []
    for first in range(0, len(validation), _QUERIES_AT_ONCE):
        some = slice(first, first + _QUERIES_AT_ONCE)
        cosines = torch.from_numpy(queries[some]) @ titles.T
        nearest = torch.topk(cosines, min(max(_RECALL_AT), len(titles)), dim=1).indices.numpy()
        wanted = positives[some].toarray() > 0
        is_found = np.take_along_axis(wanted, nearest, axis=1)
        found = [is_found[:, :k].sum(axis=1) for k in _RECALL_AT]
        recalls.append(np.mean(found, axis=0) / wanted.sum(axis=1))
    return float(np.concatenate(recalls).mean())


def _choose_device(config: DSSMConfig) -> torch.device:
    if config.device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if config.device == "cuda" and not torch.cuda.is_available():
        raise ValueError("device must be available; got 'cuda', but there is no GPU")
    return torch.device(config.device)


@contextmanager
def _use_threads(threads: int) -> Iterator[None]:
    """Set the number of PyTorch's threads for a while."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)

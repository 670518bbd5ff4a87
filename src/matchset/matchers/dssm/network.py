"""Network: how do n-grams become a vector that can be learned?"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from matchset.matchers.dssm.examples import Batch, Examples, take_rows
from matchset.matrices import Floats

_EPSILON = 1e-8


class Network:
    """Mean of embeddings, batch normalisation, tanh, unit length: one tower for both sides.

    The embeddings are no parameter of autograd: a step takes out the rows that its texts have,
    learns those, and puts them back, so that it costs nothing per n-gram of the vocabulary.
    """

    def __init__(
        self, n_features: int, dimensions: int, *, seed: int, device: str | torch.device = "cpu"
    ) -> None:
        generator = torch.Generator().manual_seed(seed)
        table = torch.randn(n_features, dimensions, generator=generator) / dimensions**0.5
        self.table = table.to(device)
        self.squares = torch.zeros(n_features, device=device)  # memory of row-wise Adagrad
        self.norm = nn.BatchNorm1d(dimensions, device=device)

    def embed(self, rows: Tensor, local: Tensor, starts: Tensor) -> Tensor:
        """Unit vectors of texts, (n_texts, dimensions), from the embeddings that they use."""
        pooled = functional.embedding_bag(local, rows, starts, mode="mean")
        return functional.normalize(torch.tanh(self.norm(pooled)))

    def compare(self, examples: Examples, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """Cosines of a batch, (n_pairs, n_columns), and the rows of the table they came from."""
        query_ids, query_starts = take_rows(examples.queries, batch.queries)
        title_ids, title_starts = take_rows(examples.titles, batch.products)
        starts = np.concatenate([query_starts[:-1], title_starts[:-1] + len(query_ids)])
        used, local = np.unique(np.concatenate([query_ids, title_ids]), return_inverse=True)
        device = self.table.device
        places = torch.from_numpy(used).to(device)
        rows = self.table[places].requires_grad_()
        bags = torch.from_numpy(local).to(device), torch.from_numpy(starts).to(device)
        vectors = self.embed(rows, *bags)  # both at once: they share the statistics of the batch
        n_queries = len(batch.queries)
        return vectors[:n_queries] @ vectors[n_queries:].T, places, rows

    def update_rows(self, places: Tensor, rows: Tensor, learning_rate: float) -> None:
        """One step of row-wise Adagrad: rare n-grams keep learning fast."""
        gradient = rows.grad
        with torch.no_grad():
            squares = self.squares[places] + gradient.square().mean(dim=1)
            self.squares[places] = squares
            pace = learning_rate / (squares.sqrt() + _EPSILON)
            self.table[places] = rows - pace[:, None] * gradient

    def fold(self) -> tuple[Floats, Floats]:
        """Embeddings and shift such that tanh(mean + shift) is what the trained network gives."""
        with torch.no_grad():
            scale = self.norm.weight / torch.sqrt(self.norm.running_var + self.norm.eps)
            shift = self.norm.bias - self.norm.running_mean * scale
            return (self.table * scale).cpu().numpy(), shift.cpu().numpy()

"""The two towers in NumPy: slow, in double precision, and easy to believe."""

import math

import numpy as np

from matchset import _native

_MASK = (1 << 64) - 1
_STEP = 0x9E3779B97F4A7C15
LEAST_SHARE = 0.2  # native/towers.cpp


class Draws:
    """The generator of native/seeds.hpp."""

    def __init__(self, seed, place=0):
        self.state = seed ^ self._mix((place + _STEP) & _MASK)

    @staticmethod
    def _mix(x):
        x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _MASK
        return x ^ (x >> 31)

    def next(self):
        self.state = (self.state + _STEP) & _MASK
        return self._mix(self.state)

    def below(self, n):
        return ((self.next() >> 32) * n) >> 32


def rows_of(lists, i):
    offsets, ids = lists
    return ids[offsets[i] : offsets[i + 1]]


def draw_part(rows, share, draws):
    """A share of the rows, at least one, in their order."""
    n_wanted = min(len(rows), max(1, int(np.float32(share) * np.float32(len(rows)) + 0.5)))
    chosen = []
    for i, row in enumerate(rows):
        if len(chosen) < n_wanted and draws.below(len(rows) - i) < n_wanted - len(chosen):
            chosen.append(row)
    return np.array(chosen, dtype=np.int64)


def draw_batch(data, config, order, step):
    """Blocks of (texts of rows, texts of columns, products of columns, products to leave out)."""
    query, product = data.pairs
    titles = [rows_of(data.titles, p) for p in product[order]]
    queries = [rows_of(data.queries, q) for q in query[order]]
    positives = [rows_of(data.positives, q) for q in query[order]]
    yield queries, titles, product[order], positives
    draws = Draws(config.seed, step | 1 << 63)
    n_titles = int(config.title_rows * len(order))
    drawn = data.titled[[draws.below(len(data.titled)) for _ in range(n_titles)]]
    titles = [rows_of(data.titles, p) for p in drawn]
    parts = [draw_part(title, config.title_share, Draws(draws.next())) for title in titles]
    yield parts, titles, drawn, drawn[:, None]


def embed(table, texts):
    """Unit vectors, and the lengths before."""
    sums = np.array([table[rows].sum(axis=0) for rows in texts]).reshape(-1, table.shape[1])
    lengths = np.linalg.norm(sums, axis=1, keepdims=True)
    return sums / lengths, lengths


def round_to_bytes(vectors):
    """As cosines see them: the largest entry of each is 127 steps."""
    step = np.abs(vectors).max(axis=1, keepdims=True) / 127
    return np.rint(vectors / step) * step


def find_gradient(table, blocks, temperature, least_share=0.0):
    """Mean loss of all rows, and its gradient with respect to the table.

    In the gradient, a probability below that share of chance is zero.
    """
    gradient, losses = np.zeros_like(table), []
    n_rows = sum(len(block[0]) for block in blocks)
    for rows, columns, products, left_out in blocks:
        if len(rows) == 0:
            continue
        (u, u_length), (v, v_length) = embed(table, rows), embed(table, columns)
        u_bytes, v_bytes = round_to_bytes(u), round_to_bytes(v)
        logits = u_bytes @ v_bytes.T / temperature
        is_out = np.array([np.isin(products, some) for some in left_out])
        np.fill_diagonal(is_out, False)
        logits[is_out] = -np.inf
        p = np.exp(logits - logits.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        losses.extend(-np.log(np.diag(p)))
        p[p < least_share / len(rows)] = 0
        d_logits = (p - np.eye(len(rows))) / temperature / n_rows
        for texts, unit, length, d_unit in (
            (rows, u, u_length, d_logits @ v_bytes),
            (columns, v, v_length, d_logits.T @ u_bytes),
        ):
            d_sum = (d_unit - unit * (unit * d_unit).sum(axis=1, keepdims=True)) / length
            for text, d in zip(texts, d_sum, strict=True):
                np.add.at(gradient, text, d)
    return np.mean(losses), gradient


def train_slowly(data, config):
    """What `train_table` gives, by row-wise Adagrad in double precision."""
    config = config.settle(data.n_pairs, len(data.titled))
    start = np.empty(data.n_rows * config.dimensions, dtype=np.float32)
    _native.init_table(start, dimensions=config.dimensions, seed=config.seed, threads=1)
    table = start.reshape(data.n_rows, config.dimensions).astype(np.float64)
    squares = np.zeros(data.n_rows)
    n_batches = math.ceil(data.n_pairs / config.batch_size)
    n_steps, losses = config.epochs * n_batches, []
    for step in range(n_steps):
        epoch, batch = divmod(step, n_batches)
        order = _native.shuffled(data.n_pairs, seed=config.seed, epoch=epoch)
        begin, end = (at * data.n_pairs // n_batches for at in (batch, batch + 1))
        blocks = list(draw_batch(data, config, order[begin:end], step))
        loss, gradient = find_gradient(table, blocks, config.temperature, LEAST_SHARE)
        squares += (gradient**2).mean(axis=1)
        rate = config.learning_rate * (1 + math.cos(math.pi * step / n_steps)) / 2
        table -= rate * gradient / (np.sqrt(squares) + 1e-8)[:, None]
        losses.append(loss)
    return table, np.array(losses)

"""Two towers: which vectors bring a query near the titles of its products?"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from matchset import _native
from matchset.config import check_int, check_share, count_threads
from matchset.matrices import Csr, Floats, Ids, Offsets, offsets_of
from matchset.model.inverted_lists import ByteVectors, quantize
from matchset.model.towers import encode_products, encode_texts
from matchset.work.cuts import CUTS, Cuts

log = logging.getLogger(__name__)

_BLOCK = 1 << 16  # texts whose features are numbered at once
_ENTRIES = 1 << 26  # that are counted at once: NumPy makes 8 bytes of each
_FEW_PAIRS = 50_000  # with fewer, learning goes slower
_FEW_PAIRS_PER_TITLE = 2  # with fewer, more is learned from titles alone
_PAIRS_TO_SEE = 2_000_000  # in all epochs together, as far as their limits allow
_FEWEST_EPOCHS, _MOST_EPOCHS = 3, 4


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoTowerConfig:
    """How the two towers learn.

    A step compares the queries of a batch of positive pairs with the products of the batch, and
    random parts of some titles with those titles.
    """

    dimensions: int = 256
    "Length of a vector, a multiple of 16."
    epochs: int | None = None
    "Passes over the positive pairs. None: 4, or 3 where there are many pairs."
    batch_size: int = 2048
    "Pairs per step at most; the more there are, the more wrong products a query is compared with."
    learning_rate: float | None = None
    "At the start; it falls to zero along a half cosine. None: by the number of pairs."
    temperature: float = 0.05
    "Cosines are divided by it before the softmax."
    title_rows: float | None = None
    "Titles per pair, from all of the catalog, that a part of themselves must find. None: by data."
    title_share: float = 0.15
    "Share of a title's n-grams in that part."
    min_df: int = 2
    "N-grams that fewer queries and titles have get no embedding."
    max_ngrams: int = 1_000_000
    "N-grams with an embedding at most, the most frequent ones: learning takes 1 KB for each."
    max_pairs: int = 10_000_000
    "Positive pairs to learn from at most; of more, a sample that data and seed decide."
    seed: int = 0
    "Of every random choice."
    threads: int | None = None
    "Threads; none: one per core. They never change the result."

    def __post_init__(self) -> None:
        """Check every value against its rule."""
        least = {"dimensions": 16, "min_df": 1, "max_ngrams": 1, "max_pairs": 1, "seed": 0}
        for name, low in least.items():
            check_int(name, getattr(self, name), low)
        check_int("batch_size", self.batch_size, 1, 8192)
        if self.epochs is not None:
            check_int("epochs", self.epochs, 0)
        if self.dimensions % 16:
            raise ValueError(f"dimensions must be a multiple of 16; got {self.dimensions}")
        for name in ("temperature", "learning_rate"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise ValueError(f"{name} must be positive and finite; got {value}")
        if self.title_rows is not None and not 0 <= self.title_rows <= 16:
            raise ValueError(f"title_rows must be from 0 to 16; got {self.title_rows}")
        check_share("title_share", self.title_share)

    def settle(self, n_pairs: int, n_titles: int) -> TwoTowerConfig:
        """Fill in the defaults that depend on the data.

        Chosen on training queries held back: of simulated shops with 80,000 to 490,000 pairs, where
        rates from 0.02 to 0.06 differed little, and of Home Depot (32,000 pairs, 55,000 titles).
        Recall@10/50/100 of the towers alone with 2 epochs in batches of 512, and with 4 in batches
        of 1,024: a shop 56.0/87.4/95.5 and 59.3/88.8/95.9, Home Depot 42.4/70.0/78.9 and
        43.5/71.9/80.0. Batches of 1,024 and 2,048: a shop of 50,000 products 59.6/90.4/96.7 and
        60.8/90.9/96.9, of 300,000 37.5/63.9/77.2 and 38.9/64.8/77.4; no difference with few pairs.
        Two, three and four epochs on a shop of 50,000 products, the month before its test:
        63.6/91.5/96.8, 64.6/91.8/97.0 and 65.1/91.8/97.0.
        """
        rate, title_rows, epochs = self.learning_rate, self.title_rows, self.epochs
        if epochs is None:
            epochs = min(_MOST_EPOCHS, max(_FEWEST_EPOCHS, round(_PAIRS_TO_SEE / max(1, n_pairs))))
        if rate is None:
            rate = 0.02 if n_pairs < _FEW_PAIRS else 0.05
        if title_rows is None:
            title_rows = 1.0 if n_pairs < _FEW_PAIRS_PER_TITLE * n_titles else 0.5
        return replace(self, learning_rate=rate, title_rows=title_rows, epochs=epochs)


@dataclass(frozen=True, slots=True, eq=False)
class TwoTower:
    """Trained embeddings of n-grams, and the vectors of the products that they give."""

    row_of: Ids  # row of each feature in the table, -1 for none, (n_features,)
    table: ByteVectors  # embeddings, (n_rows, dimensions)
    vectors: ByteVectors  # of the titles, (n_products, dimensions)
    losses: Floats  # mean of each step of training, (n_steps,)
    n_sampled: int | None = None  # pairs that it was trained on, where they are a sample

    def encode(self, texts: Csr, *, threads: int | None = None) -> Floats:
        """Return vectors of queries or titles, given as rows of features: (n, dimensions).

        Of length one, or zero where a text has no feature with an embedding.
        """
        rows = texts.indptr, texts.indices
        return encode_texts(rows, self.row_of, self.table, threads=count_threads(threads))


@dataclass(frozen=True, slots=True, eq=False)
class TowerPairs:
    """What the kernel reads: texts as rows of the table, and the pairs of those that have some."""

    queries: tuple[Offsets, Ids]  # rows of each query
    titles: tuple[Offsets, Ids]  # rows of each title
    positives: tuple[Offsets, Ids]  # products of each query
    pairs: tuple[Ids, Ids]  # query and product of each pair
    titled: Ids  # products whose title has rows
    n_rows: int
    is_sample: bool = False  # whether pairs were left out, because there are too many

    @property
    def n_pairs(self) -> int:
        """Positive pairs to learn from."""
        return len(self.pairs[0])


@dataclass(frozen=True, slots=True, eq=False)
class TowerState:
    """All that training remembers between two steps."""

    n_done: int  # steps
    table: Floats  # (n_rows, dimensions)
    squares: Floats  # (n_rows,)
    losses: Floats  # (n_done,)


def train_two_tower(
    X_queries: Csr,
    X_titles: Csr,
    Y: Csr,
    config: TwoTowerConfig | None = None,
    *,
    progress: Callable[[int, int], None] = lambda _, __: None,
    start: TowerState | None = None,
    save: Callable[[TowerState], None] | None = None,
    cuts: Cuts = CUTS,
) -> TwoTower:
    """Learn embeddings from queries x features, products x features and queries x products.

    Only which entries there are counts, not their values. `progress` hears of steps done and of all
    steps; an exception that it raises cancels the training. The same seed gives the same bytes, no
    matter if training begins at a `start` that an earlier one has passed to `save`.
    """
    config = config or TwoTowerConfig()
    threads = count_threads(config.threads)
    row_of = number_features(X_queries, X_titles, config.min_df, config.max_ngrams)
    data = select_pairs(X_queries, X_titles, Y, row_of, config)
    table, losses = train_table(
        data, config, threads=threads, progress=progress, start=start, save=save, cuts=cuts
    )
    embeddings = quantize(table)
    rows = X_titles.indptr, X_titles.indices
    vectors = encode_products([rows], row_of, embeddings, threads=threads)
    n_sampled = data.n_pairs if data.is_sample else None
    return TwoTower(row_of, embeddings, vectors, losses, n_sampled)


def number_features(X_queries: Csr, X_titles: Csr, min_df: int, most: int = 2**31 - 1) -> Ids:
    """Give a row to each feature that at least `min_df` queries and titles have, else -1.

    Of more than `most` features, the most frequent have a row; ties go to the smaller number.
    """
    if X_queries.n_cols != X_titles.n_cols:
        raise ValueError(
            f"queries and titles must have the same features; got {X_queries.n_cols} and "
            f"{X_titles.n_cols}"
        )
    df = np.zeros(X_queries.n_cols, dtype=np.int64)
    for texts in (X_queries, X_titles):
        for begin in range(0, len(texts.indices), _ENTRIES):
            df += np.bincount(texts.indices[begin : begin + _ENTRIES], minlength=len(df))
    row_of = np.full(len(df), -1, dtype=np.int32)
    kept = np.flatnonzero(df >= min_df)
    if len(kept) > most:
        kept = np.sort(kept[np.argsort(-df[kept], kind="stable")[:most]])
    row_of[kept] = np.arange(len(kept), dtype=np.int32)
    return row_of


def select_pairs(
    X_queries: Csr, X_titles: Csr, Y: Csr, row_of: Ids, config: TwoTowerConfig
) -> TowerPairs:
    """Leave out features that have no embedding, and pairs whose texts keep none."""
    if (len(Y), Y.n_cols) != (shape := (len(X_queries), len(X_titles))):
        raise ValueError(f"Y must have shape {shape}; got {(len(Y), Y.n_cols)}")
    queries, titles = _take_rows(X_queries, row_of), _take_rows(X_titles, row_of)
    has_query, has_title = np.diff(queries[0]) > 0, np.diff(titles[0]) > 0
    query, product = Y.row_of_entry, Y.indices
    usable = np.flatnonzero(has_query[query] & has_title[product])
    chosen = _sample(usable, config.max_pairs, config.seed)
    return TowerPairs(
        queries,
        titles,
        (Y.indptr, Y.indices),
        (query[chosen], product[chosen]),
        np.flatnonzero(has_title).astype(np.int32),
        int(row_of.max(initial=-1)) + 1,
        is_sample=len(chosen) < len(usable),
    )


def _sample(entries: Offsets, most: int, seed: int) -> Offsets:
    """Choose one of each of `most` even ranges, so that every query keeps its share."""
    if len(entries) <= most:
        return entries
    bounds = np.arange(most + 1) * len(entries) // most
    chosen: Offsets = bounds[:-1] + np.random.default_rng(seed).integers(np.diff(bounds))
    return entries[chosen]


def train_table(
    data: TowerPairs,
    config: TwoTowerConfig,
    *,
    threads: int,
    progress: Callable[[int, int], None] = lambda _, __: None,
    start: TowerState | None = None,
    save: Callable[[TowerState], None] | None = None,
    cuts: Cuts = CUTS,
) -> tuple[Floats, Floats]:
    """Embeddings, (n_rows, dimensions), and the mean loss of each step."""
    config = config.settle(data.n_pairs, len(data.titled))
    state = start or _make_state(data.n_rows, config, threads=threads)
    # What was read from a work folder is mapped, and cannot be written.
    table, squares = (np.require(a, requirements="W") for a in (state.table, state.squares))
    flat = table.reshape(-1)
    n_batches = -(-data.n_pairs // config.batch_size)
    n_steps = (config.epochs or 0) * n_batches
    rule = _native.TowerRule(
        dimensions=config.dimensions,
        temperature=config.temperature,
        title_rows=config.title_rows or 0.0,
        title_share=config.title_share,
        learning_rate=config.learning_rate or 0.0,
        seed=config.seed,
    )
    losses = [state.losses]
    last = time.monotonic()
    for step in range(0, n_steps, n_batches or 1):
        if step + n_batches <= state.n_done:
            continue
        order = _native.shuffled(data.n_pairs, seed=config.seed, epoch=step // n_batches)
        for begin in range(max(0, state.n_done - step), n_batches, cuts.tower_steps):
            end = min(n_batches, begin + cuts.tower_steps)
            losses.append(
                _native.train_towers(
                    data.queries,
                    data.titles,
                    data.positives,
                    data.pairs,
                    data.titled,
                    order,
                    flat,
                    squares,
                    rule,
                    n_batches=n_batches,
                    begin=begin,
                    end=end,
                    first_step=step,
                    n_steps=n_steps,
                    threads=threads,
                )
            )
            log.info("step %d of %d: loss %.3f", step + end, n_steps, losses[-1].mean())
            if save is not None and time.monotonic() - last >= cuts.tower_seconds:
                save(TowerState(step + end, table, squares, np.concatenate(losses)))
                last = time.monotonic()
            progress(step + end, n_steps)
    return table, np.concatenate(losses)


def _make_state(n_rows: int, config: TwoTowerConfig, *, threads: int) -> TowerState:
    """Return the state in which training begins."""
    table = np.empty((n_rows, config.dimensions), dtype=np.float32)
    _native.init_table(
        table.reshape(-1), dimensions=config.dimensions, seed=config.seed, threads=threads
    )
    nothing = np.empty(0, dtype=np.float32)
    return TowerState(0, table, np.zeros(n_rows, dtype=np.float32), nothing)


def _take_rows(texts: Csr, row_of: Ids) -> tuple[Offsets, Ids]:
    """Return the rows of each text; in blocks, or NumPy takes 16 bytes of an entry."""
    offsets, found = np.zeros(len(texts) + 1, dtype=np.int64), [np.empty(0, dtype=np.int32)]
    for begin in range(0, len(texts), _BLOCK):
        bounds = texts.indptr[begin : begin + _BLOCK + 1]
        rows = row_of[texts.indices[bounds[0] : bounds[-1]]]
        kept_before = offsets_of(rows >= 0)
        offsets[begin + 1 : begin + len(bounds)] = (
            offsets[begin] + kept_before[bounds[1:] - bounds[0]]
        )
        found.append(rows[rows >= 0])
    return offsets, np.concatenate(found)

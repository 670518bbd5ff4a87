"""Sizes: what decides the cost of a training?"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from matchset.config import TrainConfig
from matchset.learn.clusters import LIST_SIZE, MANY_LISTS, PASSES
from matchset.learn.label_tree import plan_splits
from matchset.learn.layers import LANES
from matchset.learn.training_data import Examples
from matchset.learn.two_tower import TwoTowerConfig
from matchset.model.inverted_lists import NEAR_GROUPS, NEAR_LISTS

_HEAPS = 0.65  # power by which distinct features grow: shops of 2,000 and 12,000 products


@dataclass(frozen=True, slots=True)
class Sizes:
    """What decides the cost of a training."""

    products: int
    queries: int
    pairs: int
    query_entries: int  # features of all queries, each as often as it occurs
    title_entries: int
    features: int  # distinct
    max_past_queries: int = TrainConfig().max_past_queries

    @classmethod
    def of(cls, examples: Examples, n_queries: int) -> Sizes:
        """The sizes of training data whose first instances are queries, the others titles."""
        X, Y = examples.X, examples.Y
        n_entries = int(X.indptr[n_queries])
        n_pairs = int(Y.indptr[n_queries])
        return cls(Y.n_cols, n_queries, n_pairs, n_entries, int(X.indptr[-1]) - n_entries, X.n_cols)

    def scale(self, products: int, *, most_features: int) -> Sizes:
        """The same shop with another number of products; features grow slower, up to a limit."""
        times = products / self.products
        names = ("queries", "pairs", "query_entries", "title_entries")
        grown = {name: round(times * getattr(self, name)) for name in names}
        features = min(most_features, round(times**_HEAPS * self.features))
        return replace(self, products=products, **grown, features=features)

    def with_titles_as_queries(self) -> Sizes:
        """What a tree sees that learns from titles too."""
        return replace(
            self,
            queries=self.queries + self.products,
            pairs=self.pairs + self.products,
            query_entries=self.entries,
        )

    @property
    def pairs_seen(self) -> int:
        """Pairs in all passes of the towers."""
        return self._sampled * (self._towers.epochs or 0)

    @property
    def rows_seen(self) -> int:
        """Pairs in all passes of the towers, and titles that teach themselves."""
        return round(self.pairs_seen * (1 + (self._towers.title_rows or 0)))

    @property
    def embeddings_seen(self) -> int:
        """Embeddings that those rows read: of queries, of shares of titles, and of titles."""
        of_query = self.query_entries / max(1, self.queries)
        of_title = self.title_entries / max(1, self.products)
        shares = self.rows_seen - self.pairs_seen
        own = self.pairs_seen * of_query + shares * self._towers.title_share * of_title
        return round(own + self.rows_seen * of_title)

    @property
    def embeddings_missed(self) -> int:
        """Of those, a share that grows with the table: they are in no cache."""
        return round(self.embeddings_seen * self.embedded / TwoTowerConfig().max_ngrams)

    @property
    def _sampled(self) -> int:
        return min(self.pairs, TwoTowerConfig().max_pairs)

    @property
    def _towers(self) -> TwoTowerConfig:
        return TwoTowerConfig().settle(self._sampled, self.products)

    @property
    def sampled_pairs(self) -> int | None:
        """Pairs that the towers see, where they are a sample."""
        most = TwoTowerConfig().max_pairs
        return most if self.pairs > most else None

    @property
    def embedded(self) -> int:
        """Features with an embedding, at most."""
        return min(self.features, TwoTowerConfig().max_ngrams)

    @property
    def entries(self) -> int:
        """Features of queries and titles."""
        return self.query_entries + self.title_entries

    @property
    def remembered(self) -> float:
        """Share of the queries that query neighbors remember."""
        return min(1.0, self.max_past_queries / max(1, self.queries))

    @property
    def remembered_entries(self) -> int:
        """Features of those."""
        return round(self.remembered * self.query_entries)

    @property
    def remembered_pairs(self) -> int:
        """Pairs of those."""
        return round(self.remembered * self.pairs)

    @property
    def placings(self) -> int:
        """Products, each as often as it is put into one of two halves."""
        return round(self.products * math.log2(max(2.0, self.products / 50)))

    @property
    def n_lists(self) -> int:
        """Inverted lists of products."""
        return -(-self.products // LIST_SIZE)

    @property
    def comparisons(self) -> int:
        """Vectors of products with centroids, in the passes that put products into lists.

        A product is compared with all groups of lists, and with the lists of some groups; if there
        are many lists, only in the first pass. In the others its list is, and then the product
        with the lists near that.
        """
        searched = (1 + NEAR_GROUPS) * math.sqrt(self.n_lists)
        later = searched if self.n_lists <= MANY_LISTS else searched / LIST_SIZE + NEAR_LISTS
        return round(self.products * (searched + (PASSES - 1) * later))

    @property
    def passes(self) -> int:
        """Features of instances, each as often as a batch of a parent's children reads it."""
        splits = plan_splits(max(1, min(self.products, self.pairs)), 32, 50)
        batches = [-(-n // LANES) for n in (*splits, 50)]
        reads = self.queries * batches[0] + self.pairs * sum(batches[1:])
        return round(reads * self.query_entries / max(1, self.queries))

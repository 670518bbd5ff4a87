"""Small DSSMs: quick to train, certain in what they should find."""

import numpy as np
import pyarrow as pa
from bookshelf import IDS, RELEVANT, make_catalog, make_pairs

import matchset as ms
from matchset.config import NGrams, VectorizerConfig
from matchset.features.vectorizer import Vectorizer
from matchset.lab import DSSM, DSSMConfig
from matchset.lab.dssm.space import Space, Tower
from matchset.model.products import make_products

NGRAMS = VectorizerConfig(
    ngrams=(NGrams("word", 1, 1000), NGrams("word", 2, 1000, min_df=2), NGrams("char", 3, 1000)),
    oov_buckets=8,
)
CONFIG = DSSMConfig(
    vectorizer=NGRAMS, dimensions=32, batch_size=8, epochs=60, min_query_count=0, device="cpu"
)


def make_log(relevant=RELEVANT):
    """The log of {query: {product number: count}}; every row counts."""
    return read_rows(
        {"query": query, "product_id": IDS[product], "count": count}
        for query, counts in relevant.items()
        for product, count in counts.items()
    )


def read_rows(rows):
    return ms.read_log(pa.Table.from_pylist(list(rows)))


def train_small(config=CONFIG, **options):
    return ms.lab.train_dssm(make_log(), make_catalog(), config, threads=1, **options)


def make_dssm():
    """A DSSM whose embeddings are random, which needs no training."""
    catalog, rng = make_catalog(), np.random.default_rng(0)
    vectorizer = Vectorizer(NGRAMS).fit(catalog.titles)
    embeddings = rng.normal(size=(vectorizer.n_features, 8)).astype(np.float32)
    tower = Tower(vectorizer, embeddings, np.zeros(8, np.float32))
    hashes = np.sort(make_pairs().queries.hashes())
    counts = np.ones(len(IDS), dtype=np.int64)
    products, vectors = make_products(catalog.ids, catalog), tower.encode(catalog.titles)
    return DSSM(Space(products, tower, vectors, hashes, counts, CONFIG))

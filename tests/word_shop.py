"""A shop of words: products are a color, a thing and a word more; a query is some of its words."""

import numpy as np

import matchset as ms
from matchset.data.arrow import NO_DAY
from matchset.data.log import make_log
from matchset.strings import Strings

COLORS = ["red", "white", "blue", "green", "black"]
THINGS = ["rose", "vase", "pot", "lamp", "chair", "table", "soap", "mug"]
EXTRA = ["small", "large", "garden", "kitchen"]


def make_shop(n_queries=300, *, seed=0, days=None, more=()):
    """Return a log and a catalog; a quarter of the products has no query."""
    rng = np.random.default_rng(seed)
    titles = [f"{c} {t} {e}" for c in COLORS for t in THINGS for e in EXTRA]
    ids = [f"p{i:03}" for i in range(len(titles))]
    words = [title.split() for title in titles]
    queries, rows = [], []
    for i in range(n_queries):
        product = int(rng.integers(len(titles) // 4 * 3))  # the rest has no query: cold
        kept = rng.permutation(3)[: int(rng.integers(1, 3))]
        queries.append(" ".join(words[product][j] for j in sorted(kept)) + (f" {i % 7}" * (i % 2)))
        for _ in range(int(rng.integers(1, 4))):
            same = [p for p, w in enumerate(words) if all(w[j] == words[product][j] for j in kept)]
            rows.append((i, int(rng.choice(same)), int(rng.integers(1, 5))))
    for text, product, count in more:
        rows.append((len(queries), product, count))
        queries.append(text)
    query, product, count = zip(*rows, strict=True)
    log = make_log(
        queries=Strings.of(queries),
        products=Strings.of(ids),
        events=[""],
        query=query,
        product=product,
        event=[0] * len(rows),
        day=np.arange(len(rows)) * days // len(rows) if days else [NO_DAY] * len(rows),
        count=count,
    )
    return log, ms.Catalog(Strings.of(ids), Strings.of(titles))


def make_config(**settings):
    return ms.TrainConfig(**settings)

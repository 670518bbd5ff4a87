"""Small match sets, and what their search must give, computed plainly."""

import numpy as np

from matchset.config import PARTS, TrainConfig
from matchset.data.arrow import NO_DAY
from matchset.data.catalog import Catalog
from matchset.data.log import make_log
from matchset.learn import (
    embed_tasks,
    encode_tasks,
    label_tree_tasks,
    layers,
    pack_tasks,
    text_tasks,
)
from matchset.learn.train_match_set import train_parts
from matchset.matchers.train import train
from matchset.strings import Strings

COLORS = ["red", "white", "blue", "green", "black"]
THINGS = ["rose", "vase", "pot", "lamp", "chair", "table", "soap", "mug"]
EXTRA = ["small", "large", "garden", "kitchen"]


def cut_stages(monkeypatch):
    """Let every stage that can be cut have many tasks, without a change of any byte."""
    monkeypatch.setattr(text_tasks, "MOST_BYTES", 1500)
    monkeypatch.setattr(embed_tasks, "MOST_LABELS", 30)
    monkeypatch.setattr(encode_tasks, "LISTS_PER_TASK", 1)
    monkeypatch.setattr(label_tree_tasks, "LABELS_PER_TASK", 20)
    monkeypatch.setattr(label_tree_tasks, "SAMPLED_LABELS", 10**9)  # all of them
    monkeypatch.setattr(layers, "LEAST_COST", 50)
    monkeypatch.setattr(pack_tasks, "PACKED_COST", 100)


def make_shop(n_queries=300, *, seed=0, days=None, more=()):
    """A log and a catalog: products are a color, a thing and a word more."""
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
    return log, Catalog(Strings.of(ids), Strings.of(titles))


def make_config(**settings):
    return TrainConfig(**{"parts": PARTS, **settings})


def make_model(parts=PARTS, n_queries=300):
    """The parts, their vocabulary and training data, without tuning."""
    log, catalog = make_shop(n_queries)
    return train_parts(log, catalog, TrainConfig(parts=parts))


def make_match_set(**settings):
    log, catalog = make_shop()
    return train(log, catalog, make_config(**settings))

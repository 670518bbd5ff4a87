"""A small problem to experiment on, and rows that tell when they are made."""

from dataclasses import replace

from matchset.config import LearnConfig, TrainConfig
from matchset.data.split import SplitOptions
from matchset.lab.experiments.benchmark import make_problem
from matchset.lab.experiments.runner import Effort
from matchset.lab.shop import simulate_shop
from matchset.strings import Strings

EFFORT = Effort(ks=(5, 10, 20), resamples=50, flips=200, singles=20)
CONFIG = TrainConfig(learn=LearnConfig(pifa_entries=128, branching=8, max_leaf=20))
HOSTILE = (
    "<script>alert(1)</script>",
    "\"quoted\" 'twice' & more",
    "]]> --> </title></style>",
    "😀 تخفيضات \u202egnp.exe\u202c שלום",
    "<img src=x onerror=alert(2)>",
)


def make_small(*, titles=None, config=CONFIG, plan=None):
    """A simulated shop of 300 products; `titles` are put before some of its own."""
    shop = simulate_shop(products=300, queries=900, seed=5)
    catalog = shop.catalog
    if titles is not None:
        kept = list(catalog.titles)
        texts = [f"{titles[place % len(titles)]} {title}" for place, title in enumerate(kept)]
        catalog = replace(catalog, titles=Strings.of(texts))
    return make_problem(shop.log, catalog, config, plan or SplitOptions(), origin="a small shop")


def count_making(rows, made):
    """The rows, each of which writes its name down when it is made."""

    def counted(row):
        def learn(models):
            made.append(row.name)
            return row.learn(models)

        return replace(row, learn=learn)

    return [counted(row) for row in rows]

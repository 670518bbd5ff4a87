"""A small benchmark, and contenders that record when they are trained."""

from dataclasses import replace

from matchset.config import LearnConfig, TrainConfig
from matchset.data.split import SplitOptions
from matchset.lab.experiments.benchmark import make_benchmark
from matchset.lab.experiments.contenders import SHOP_ROWS
from matchset.lab.experiments.paper_rows import PAPER
from matchset.lab.experiments.runner import Budget
from matchset.lab.shop import simulate_shop
from matchset.strings import Strings

BUDGET = Budget(ks=(5, 10, 20), resamples=50, flips=5_000, singles=20)
CONFIG = TrainConfig(
    parts=("tree",), learn=LearnConfig(pifa_max_entries=128, branching=8, max_leaf_size=20)
)
FAST = [name for name in (*SHOP_ROWS, *PAPER) if name != "sentence_encoder"]
HOSTILE = (
    "<script>alert(1)</script>",
    "\"quoted\" 'twice' & more",
    "]]> --> </title></style>",
    "😀 تخفيضات \u202egnp.exe\u202c שלום",
    "<img src=x onerror=alert(2)>",
)


def make_small(*, titles=None, config=CONFIG, plan=None):
    """A simulated shop of 300 products; `titles` are prepended to its own."""
    shop = simulate_shop(products=300, queries=900, seed=5)
    catalog = shop.catalog
    if titles is not None:
        kept = list(catalog.titles)
        texts = [f"{titles[index % len(titles)]} {title}" for index, title in enumerate(kept)]
        catalog = replace(catalog, titles=Strings.of(texts))
    return make_benchmark(shop.log, catalog, config, plan or SplitOptions(), origin="a small shop")


def count_training(contenders, trained):
    """The contenders, each of which appends its name to `trained` when it is trained."""

    def counted(contender):
        def recipe(models):
            trained.append(contender.name)
            return contender.recipe(models)

        return replace(contender, recipe=recipe)

    return [counted(contender) for contender in contenders]

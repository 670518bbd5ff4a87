"""Small match sets, and what their search must give, computed plainly."""

from word_shop import make_config, make_shop

from matchset.config import PARTS, TrainConfig
from matchset.learn.train_match_set import train_match_set
from matchset.matchers.train import make_matcher, train
from matchset.work.cuts import Cuts

# Every step that can be cut has many tasks, without a change of any byte.
SMALL_CUTS = Cuts(
    text_bytes=1500,
    labels=30,
    tree_labels=20,
    sampled_labels=10**9,  # all of them
    lists=1,
    solve_cost=50,
    pack_cost=100,
)


def train_in_tasks(log, catalog, config, cuts=SMALL_CUTS, **options):
    """Train a matcher as `ms.train` does, with other cuts."""
    return make_matcher(train_match_set(log, catalog, config, cuts=cuts, **options), config)


def make_model(parts=PARTS, n_queries=300):
    """The parts, their vocabulary and training data, without tuning."""
    log, catalog = make_shop(n_queries)
    return train_match_set(log, catalog, TrainConfig(parts=parts, tune=False))


def make_match_set(**settings):
    log, catalog = make_shop()
    return train(log, catalog, make_config(**settings))

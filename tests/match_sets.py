"""Small match sets, and what their search must give, computed plainly."""

from word_shop import make_config, make_shop

from matchset.config import PARTS, TrainConfig
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


def cut_stages(monkeypatch):
    """Let every stage that can be cut have many tasks, without a change of any byte."""
    monkeypatch.setattr(text_tasks, "MOST_BYTES", 1500)
    monkeypatch.setattr(embed_tasks, "MOST_LABELS", 30)
    monkeypatch.setattr(encode_tasks, "LISTS_PER_TASK", 1)
    monkeypatch.setattr(label_tree_tasks, "LABELS_PER_TASK", 20)
    monkeypatch.setattr(label_tree_tasks, "SAMPLED_LABELS", 10**9)  # all of them
    monkeypatch.setattr(layers, "LEAST_COST", 50)
    monkeypatch.setattr(pack_tasks, "PACKED_COST", 100)


def make_model(parts=PARTS, n_queries=300):
    """The parts, their vocabulary and training data, without tuning."""
    log, catalog = make_shop(n_queries)
    return train_parts(log, catalog, TrainConfig(parts=parts))


def make_match_set(**settings):
    log, catalog = make_shop()
    return train(log, catalog, make_config(**settings))

"""Sweeps: what pruning, a wider beam and a longer search of a graph cost and gain."""

from dataclasses import replace

import pytest
from experiments import BUDGET, make_small

from matchset.config import PARTS
from matchset.data.split import SplitOptions
from matchset.errors import DataError
from matchset.lab.experiments.benchmark import make_benchmark, take_test
from matchset.lab.experiments.comparison import run_comparison
from matchset.lab.experiments.runner import ProgressListener
from matchset.lab.experiments.sweeps import (
    measure,
    run_sweep,
    sweep_beams,
    sweep_thresholds,
    take_model,
)
from matchset.lab.shop import simulate_shop
from matchset.matchers.train import train
from matchset.matchers.xr_linear import XRLinearMatcher


@pytest.fixture(scope="module")
def benchmark():
    return make_small()


@pytest.fixture(scope="module")
def matcher(benchmark):
    return train(benchmark.train, benchmark.catalog, replace(benchmark.config, parts=("tree",)))


def test_pruning_and_the_beam_are_swept(benchmark, matcher, tmp_path):
    heard = []
    found = run_sweep(
        matcher,
        benchmark.qrels,
        tmp_path,
        BUDGET,
        progress=ProgressListener(heard.append),
    )
    weights = [row.weights for row in found.thresholds]
    assert weights == sorted(weights, reverse=True)
    assert [row.setting for row in found.thresholds] == [0.1, 0.2, 0.3, 0.35, 0.4, 0.45]
    recalls = [row.recall[-1].value for row in found.beams]
    assert recalls[0] < recalls[-1]
    assert all(row.queries_per_second > 0 for row in found.beams)
    assert len(heard) == 16
    assert heard[-1].startswith("beam 100: Recall@20 ")


def test_a_match_set_is_swept_around_its_own_settings(benchmark, tmp_path):
    whole = train(benchmark.train, benchmark.catalog, replace(benchmark.config, parts=PARTS))
    own = whole.with_bounds(replace(whole.model.bounds, tree_beam=7))
    beams = sweep_beams(own, benchmark.qrels, BUDGET, beams=[3])
    assert [row.setting for row in beams] == [3, 7]
    assert beams[1].recall == measure(own, benchmark.qrels, BUDGET)[0]
    rows = sweep_thresholds(own, benchmark.qrels, BUDGET, folder=tmp_path, thresholds=[0.3])
    assert [row.setting for row in rows] == [0.1, 0.3]
    assert rows[0].weights > rows[1].weights
    assert rows[0].disk_bytes > rows[1].disk_bytes
    with pytest.raises(ValueError, match="a sweep varies the tree, so a model must have one"):
        sweep_thresholds(own.only(["towers"]), benchmark.qrels, BUDGET, folder=tmp_path)


def test_a_model_is_not_pruned_to_less_than_it_was_trained_with(benchmark, matcher, tmp_path):
    pruned = sweep_thresholds(matcher.prune(0.3), benchmark.qrels, BUDGET, folder=tmp_path)
    assert [row.setting for row in pruned] == [0.3, 0.35, 0.4, 0.45]
    rows = sweep_thresholds(matcher.prune(0.5), benchmark.qrels, BUDGET, folder=tmp_path)
    assert [row.setting for row in rows] == [0.5]


def test_a_separate_log_is_tested_whole_or_by_its_test_side(benchmark):
    config = benchmark.config
    log = simulate_shop(products=300, queries=900, seed=5).log
    side = take_test(log, config, SplitOptions())
    assert side.queries == benchmark.qrels.queries
    assert len(take_test(log, config, SplitOptions(split="none"))) > len(side)
    with pytest.raises(ValueError, match=r"split must be auto, time or query.*got 'none'"):
        make_benchmark(log, None, config, SplitOptions(split="none"))
    with pytest.raises(DataError, match="the training side must have positive pairs; got none"):
        make_benchmark(log, None, replace(config, min_count=10**6), SplitOptions())


@pytest.mark.torch
def test_a_dssm_is_trained_once_for_both_of_its_contenders(benchmark, tmp_path):
    begun = []
    quick = replace(BUDGET, is_quick=True)
    progress = ProgressListener(begun=begun.append)
    found = run_comparison(benchmark, tmp_path, quick, names=["dssm_hnsw"], progress=progress)
    assert begun == ["DSSM", "DSSM + HNSW"]
    graph, exact = found.row("dssm_hnsw"), found.row("dssm")
    assert graph.cost.train_seconds > exact.cost.train_seconds
    assert exact.cost.latency["vectorizing_p50"] > 0


def test_the_model_of_a_comparison_is_swept_again_or_the_tree_alone(benchmark, tmp_path):
    begun = []
    progress = ProgressListener(begun=begun.append)
    for _ in range(2):
        assert len(take_model(benchmark, tmp_path, BUDGET, progress=progress).products) > 0
    tree = replace(benchmark, config=replace(benchmark.config, parts=("tree",)))
    assert isinstance(take_model(tree, tmp_path, BUDGET), XRLinearMatcher)
    assert len(begun) == (benchmark.config.parts != ("tree",))

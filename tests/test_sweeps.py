"""Sweeps: what pruning, a wider beam and a longer search of a graph cost and gain."""

from dataclasses import replace

import pytest
from experiments import EFFORT, make_small

from matchset.data.split import SplitOptions
from matchset.errors import DataError
from matchset.lab.experiments.benchmark import make_problem, take_test
from matchset.lab.experiments.comparison import run_comparison
from matchset.lab.experiments.runner import Following
from matchset.lab.experiments.sweeps import (
    find_graph,
    run_sweep,
    sweep_beams,
    sweep_graph,
    sweep_thresholds,
    take_models,
)
from matchset.lab.shop import simulate_shop
from matchset.matchers.train import train


@pytest.fixture(scope="module")
def problem():
    return make_small()


@pytest.fixture(scope="module")
def matcher(problem):
    return train(problem.train, problem.catalog, problem.config)


def test_pruning_and_the_beam_are_swept(problem, matcher, tmp_path):
    heard = []
    found = run_sweep(
        matcher,
        problem.questions,
        tmp_path,
        EFFORT,
        no_graph="none here",
        follow=Following(heard.append),
    )
    weights = [row["weights"] for row in found["thresholds"]]
    assert weights == sorted(weights, reverse=True)
    assert [row["threshold"] for row in found["thresholds"]] == [0.1, 0.2, 0.3, 0.35, 0.4, 0.45]
    recalls = [row["recall"]["20"]["value"] for row in found["beams"]]
    assert recalls[0] < recalls[-1]
    assert all(row["queries_per_second"] > 0 for row in found["beams"])
    assert len(heard) == 16
    assert heard[-1].startswith("beam 100 at threshold 0.35: Recall@20 ")
    assert (found["graphs"], found["no_graphs"]) == ([], "none here")


def test_a_model_is_not_pruned_to_less_than_it_was_trained_with(problem, matcher, tmp_path):
    pruned = sweep_thresholds(matcher.prune(0.3), problem.questions, EFFORT, folder=tmp_path)
    assert [row["threshold"] for row in pruned] == [0.3, 0.35, 0.4, 0.45]
    small = matcher.prune(0.5)
    for rows in (
        sweep_thresholds(small, problem.questions, EFFORT, folder=tmp_path),
        sweep_beams(small, problem.questions, EFFORT, beams=[3]),
    ):
        assert [row["threshold"] for row in rows] == [0.5]


def test_a_log_of_its_own_is_asked_whole_or_its_test_side(problem):
    config = problem.config
    log = simulate_shop(products=300, queries=900, seed=5).log
    side = take_test(log, config, SplitOptions())
    assert side.queries == problem.questions.queries
    assert len(take_test(log, config, SplitOptions(split="none"))) > len(side)
    with pytest.raises(ValueError, match=r"split must be auto, time or query.*got 'none'"):
        make_problem(log, None, config, SplitOptions(split="none"))
    with pytest.raises(DataError, match="the training side must have positive pairs; got none"):
        make_problem(log, None, replace(config, min_count=10**6), SplitOptions())


@pytest.mark.torch
def test_a_dssm_is_trained_once_for_both_of_its_rows(problem, tmp_path):
    begun = []
    quick = replace(EFFORT, is_quick=True)
    follow = Following(begun=begun.append)
    found = run_comparison(problem, tmp_path, quick, names=["dssm-hnsw"], follow=follow)
    assert begun == ["DSSM + exact kNN", "DSSM + HNSW"]
    rows = {row["name"]: row for row in found["rows"]}
    assert rows["dssm-hnsw"]["train_seconds"] > rows["dssm"]["train_seconds"]
    assert rows["dssm"]["latency"]["vectorizing_p50"] > 0
    graph, reason = find_graph(problem.questions, tmp_path)
    assert reason == ""
    swept = sweep_graph(graph, problem.questions, quick, expansions=[10, 50])
    assert [row["expansion_search"] for row in swept] == [10, 50]
    ours, again, reason = take_models(problem, tmp_path, quick, follow=follow)
    assert (len(begun), reason) == (3, "")
    assert again is not None
    assert len(ours.products) == len(problem.catalog)

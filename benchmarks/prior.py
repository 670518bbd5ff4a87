"""Prior: what are the weights of the re-ranker before a log tells (PRIOR in model/reranker.py)?

    python benchmarks/prior.py nfcorpus crowdflower esco_fr shop-2000 market-2000 --real FOLDER

Queries of each problem are held back as in a training. Weights differ from log to log like draws of
a Gaussian, which EM finds; a log tells them as far as its softmax loss is curved (Laplace).
"""

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np
from answers import find_recall, show
from splits import Floats, Problem, choose, read_problem

import matchset as ms
from matchset import _native
from matchset.learn.fit_reranker import RIDGE
from matchset.learn.hold_back import count_rounds
from matchset.learn.labeled_candidates import LabeledCandidates, recall_of
from matchset.learn.train_match_set import examine as examine_round
from matchset.model.reranker import FEATURES, PRIOR, SITUATIONS, default_reranker
from matchset.work.steps import open_steps

N_STEPS, N_DRAWS, THREADS = 200, 5, 2  # of EM; of the queries that weights are fitted to
SHAPE, N = (2, len(FEATURES)), 2 * len(FEATURES)  # of the weights: cold and warm
SIZES = 30, 100, 300, 1000  # queries of small logs
Told = tuple[Floats, Floats]  # weights and curvature of a log; mean and variance over logs
CHOSEN = [FEATURES.index(name) for name in ("same_query", "words_decide")]  # not by a softmax


def main() -> None:
    """Print the prior, or how well small logs are answered."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("problems", nargs="+")
    parser.add_argument("--real", type=Path, help="folder of the real data sets")
    parser.add_argument("--leave-one-out", type=int, metavar="N", help="queries to fit it to")
    parser.add_argument("--small", action="store_true", help="train on a few queries")
    options = parser.parse_args()
    problems = [read_problem(name, options.real) for name in options.problems]
    if options.small:
        show_small(problems)
        return
    held = {each.name: examine(each) for each in problems}
    told = {name: learn(data) for name, data in held.items()}
    show_prior(*find_prior(list(told.values())))
    if options.leave_one_out:
        leave_one_out(held, told, options.leave_one_out)


def examine(problem: Problem) -> LabeledCandidates:
    """Describe the candidates of held-back queries, as a training does before it weighs parts."""
    given = problem.train, problem.catalog, problem.config
    with open_steps(threads=THREADS) as step:
        rounds = [examine_round(step, n, *given) for n in range(count_rounds(problem.train))]
    return LabeledCandidates.join([labeled for labeled, _ in rounds])


def fit(data: LabeledCandidates, center: Floats, precision: Floats) -> Floats:
    """Return the weights of least loss near a center, (N,), to what no past query tells."""
    data = data.keep(~data.is_known)
    features = np.where(np.isin(range(len(FEATURES)), CHOSEN), 0, data.candidates.features)
    sets = features.reshape(-1), data.candidates.offsets, data.is_positive.view("u1")
    prior = np.ones(len(data.kinds)), center, np.diag(precision).reshape(-1)  # after shares
    return _native.fit_softmax(*sets, data.groups % 2, *prior, n_kinds=2, threads=THREADS)


def learn(data: LabeledCandidates) -> Told:
    """Return weights with hardly any ridge, and the curvature of their loss, (N, N)."""
    weights = fit(data, np.zeros(N), np.full(N, 0.01))
    is_useful = np.bincount(data.row[data.is_positive & ~data.is_known], minlength=len(data.kinds))
    data = data.select(is_useful > 0, ~data.is_known)
    features, is_warm, row = data.candidates.features, data.groups % 2, data.row
    scores = np.einsum("ij,ij->i", features, weights.reshape(SHAPE)[is_warm])
    chances = np.exp(scores - np.maximum.reduceat(scores, data.candidates.offsets[:-1])[row])
    chances /= np.bincount(row, chances)[row]
    near = chances > 1e-5
    X, chances = np.zeros((np.count_nonzero(near), *SHAPE)), chances[near, None]
    X[np.arange(len(X)), is_warm[near]] = features[near]
    X[..., CHOSEN] = 0
    X = X.reshape(-1, N)
    means = np.add.reduceat(chances * X, np.unique(row[near], return_index=True)[1])
    return weights, X.T @ (chances * X) - means.T @ means  # covariances within queries


def find_prior(told: list[Told]) -> Told:
    """Return mean and variance of each weight over logs."""
    mean, variance = np.zeros(N), np.full(N, 100.0)  # 0 and 1 are left of what no log tells
    is_told = sum(curved for _, curved in told).diagonal() > 1e-6
    for _ in range(N_STEPS):
        unsure = [np.linalg.inv(curved + np.diag(1 / variance)) for _, curved in told]
        pulls = [curved @ weights + mean / variance for weights, curved in told]
        means = np.einsum("lij,lj->li", unsure, pulls)
        mean, spread = means.mean(axis=0), np.diagonal(unsure, axis1=1, axis2=2)
        variance = np.where(is_told, np.mean(spread + np.square(means - mean), axis=0), 1)
    return mean, variance


def show_prior(mean: Floats, variance: Floats) -> None:
    """Print mean and deviation of cold and of warm products beside PRIOR."""
    found = np.stack([mean.reshape(SHAPE), np.sqrt(variance).reshape(SHAPE)], axis=1)
    for i, name in enumerate(FEATURES):
        cells = [" / ".join(f"{v:.2g}" for v in row) for row in (found[..., i].flat, PRIOR[name])]
        print(f"| {name} | {'chosen' if i in CHOSEN else cells[0]} | {cells[1]} |", flush=True)


def leave_one_out(held: dict[str, LabeledCandidates], told: dict[str, Told], n: int) -> None:
    """Print recall with the prior of other kinds of problems, with it fitted, and with a ridge."""
    for name, data in held.items():
        mean, variance = find_prior([told[key] for key in held if key[:4] != name[:4]])
        is_asked, found = data.is_positive | ~data.is_known | data.is_by_time, []
        for seed in range(N_DRAWS):
            is_few = np.random.default_rng(seed).permutation(len(data.kinds)) < n
            few, rest = data.select(is_few), data.select(~is_few, is_asked)
            ridge = RIDGE * np.tile(few.candidates.features.var(axis=0, dtype=float), 2) + 1e-6
            tried = mean, fit(few, mean, 1 / variance), fit(few, np.zeros(N), ridge)
            weights = np.tile(np.reshape(tried, (3, 1, *SHAPE)), (1, len(SITUATIONS), 1, 1))
            weights[..., CHOSEN] = [PRIOR[FEATURES[i]][0] for i in CHOSEN]
            found.append([recall_of(rest, each) for each in weights])
        cells = map(show, 100 * np.mean(found, axis=0))
        print(f"| {name}, {n} | {' | '.join(cells)} |", flush=True)


def show_small(problems: list[Problem]) -> None:
    """Print recall of match sets of a few queries: as trained, and with the prior alone."""
    cases = [(each, n) for each in problems for n in SIZES if n < len(each.train.queries)]
    for problem, n in cases:
        log = problem.train
        is_own = (np.random.default_rng(n).permutation(len(log.queries)) < n)[log.query]
        matcher = ms.train(log.select(is_own), problem.catalog, problem.config)
        model = replace(matcher.model, reranker=default_reranker("", matcher.model.parts))
        rest = ms.positives(log.select(~is_own), min_count=problem.config.min_count)
        asked = rest.queries.take(choose(len(rest.queries), 1500))
        ranked = [problem.rank(each, asked) for each in (matcher, replace(matcher, model=model))]
        cells = [show(find_recall(some, problem.number(rest, asked))) for some in ranked]
        print(f"| {problem.name}, {n} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()

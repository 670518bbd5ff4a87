"""Customers of a simulated shop who are served by matchers."""

import numpy as np
import pytest

import matchset as ms
from matchset.baselines import BM25
from matchset.lab.shop import make_crowd, serve_crowd, write_served_log, write_served_records
from matchset.lab.shop.visits import satisfaction_key
from matchset.online.decision import list_decision
from matchset.online.definition import Arm, Experiment
from matchset.online.outcomes import read_outcomes
from matchset.online.reading import analyze
from matchset.online.searches import searches_of
from matchset.online.session_rows import read_session_rows
from matchset.online.shadow import measure_shadow

SHOP = {"products": 300, "seed": 3}


class Half:
    """A matcher that loses every second product."""

    def __init__(self, matcher):
        self.matcher = matcher

    def match(self, queries, k=100, *, where=None):
        found = self.matcher.match(queries, k, where=where)
        kept = np.flatnonzero(found.found.indices % 2 == 0)
        row = np.repeat(np.arange(len(queries)), np.diff(found.found.indptr))[kept]
        offsets = np.searchsorted(row, np.arange(len(queries) + 1))
        labels, scores = found.found.indices[kept], found.found.data[kept]
        part = type(found.found)(offsets, labels, scores, found.found.n_cols)
        return ms.Matches(found.queries, part, found.products)


@pytest.fixture(scope="module")
def crowd():
    return make_crowd(**SHOP, customers=2_000)


@pytest.fixture(scope="module")
def bm25():
    return BM25.from_catalog(ms.lab.simulate_shop(**SHOP).catalog)


def define(mode="ab"):
    share = 0.5 if mode == "ab" else 1.0
    arms = tuple(Arm(name=n, matchers=(n,), share=share) for n in ("half", "whole"))
    return Experiment(name="shop", salt="s", arms=arms, mode=mode)


def test_the_crowd_is_of_the_shop_that_is_simulated(crowd):
    assert crowd.shop.catalog.ids == ms.lab.simulate_shop(**SHOP).catalog.ids
    again = make_crowd(**SHOP, customers=2_000)
    for name in ("want", "customer", "second", "readiness"):
        assert np.array_equal(getattr(crowd, name), getattr(again, name))
    assert crowd.texts == again.texts


def test_customers_buy_only_what_they_want_see_and_click(crowd, bm25):
    served = serve_crowd(crowd, {"bm25": bm25})
    assert not (served.bought & ~served.clicked).any()
    assert not (served.clicked & (served.product < 0)).any()
    assert (served.clicked.sum(axis=1) <= served.looked).all()
    wants, stock = crowd.shop.wants, crowd.shop.stock
    for search, place in np.argwhere(served.bought)[:200]:
        want = crowd.want[served.visit[search]]
        key = satisfaction_key(stock, int(wants.asked[want]))
        assert key[served.product[search, place]] == key[wants.target[want]]


def test_what_is_shown_is_what_the_matcher_answers(crowd, bm25):
    served = serve_crowd(crowd, {"bm25": bm25})
    for search in range(0, len(served), 500):
        found = bm25.match(crowd.texts[int(served.text[search])], 24).ids
        shown = served.product[search]
        ids = [crowd.shop.catalog.ids[int(n)] for n in shown if n >= 0]
        assert tuple(ids) == found


def test_only_who_bought_nothing_asks_again_and_in_other_words(crowd, bm25):
    served = serve_crowd(crowd, {"bm25": bm25})
    first = np.zeros(len(crowd.customer), dtype=bool)
    is_again = served.text >= len(crowd.shop.texts)
    first[served.visit[~is_again & served.bought.any(axis=1)]] = True
    assert not first[served.visit[is_again]].any()
    assert 0.3 < is_again.sum() / (~is_again).sum() < 0.6


def test_customers_do_the_same_whoever_answers_if_the_answers_are_the_same(crowd, bm25):
    alone = serve_crowd(crowd, {"bm25": bm25})
    arms = {"half": bm25, "whole": bm25}
    both = serve_crowd(crowd, arms, define())
    assert np.array_equal(alone.bought, both.bought)
    assert set(both.arm) == {0, 1}


def read(served, experiment, folder):
    write_served_records(served, folder / "records.jsonl", experiment)
    return read_outcomes(str(folder / "records.jsonl"))


@pytest.mark.parametrize(
    ("mode", "headline"),
    [
        ("ab", "Yes: whole sells more than half."),
        ("team_draft", "Yes: customers prefer what only whole brings."),
    ],
)
def test_an_arm_that_is_better_by_construction_is_found(crowd, bm25, tmp_path, mode, headline):
    experiment = define(mode)
    served = serve_crowd(crowd, {"half": Half(bm25), "whole": bm25}, experiment)
    outcomes = read(served, experiment, tmp_path)
    assert list_decision(analyze(outcomes, experiment=experiment, planned=2_000))[0] == headline


def test_records_hold_what_customers_saw_and_did(crowd, bm25, tmp_path):
    experiment = define("team_draft")
    served = serve_crowd(crowd, {"half": Half(bm25), "whole": bm25}, experiment)
    outcomes = read(served, experiment, tmp_path)
    assert outcomes.searches.n_units == len(np.unique(served.customer))
    assert outcomes.n_events == served.clicked.sum() + served.bought.sum()
    assert outcomes.n_strange == 0
    credited = [int((served.bought & (served.origin == side)).sum()) for side in (0, 1)]
    counted = outcomes.credited["purchase rate"].sum(axis=0)
    assert (counted <= credited).all()  # what is bought by two answers of a search counts once
    assert counted.sum() > 0.95 * sum(credited)


def test_a_log_of_served_customers_is_planned_and_shadowed_with(crowd, bm25, tmp_path):
    served = serve_crowd(crowd, {"half": Half(bm25)})
    write_served_log(served, tmp_path / "log.parquet")
    rows = read_session_rows(str(tmp_path / "log.parquet"))
    assert rows.n_units <= len(crowd.readiness)
    found = searches_of(rows)
    assert found.values["purchase rate"].sum() == served.bought.any(axis=1).sum()
    shadow = measure_shadow(rows, bm25, Half(bm25), k=24)
    assert shadow.direct[0].both.value == 1
    assert shadow.later.both.value > 0
    # The lost products were never shown, so nobody bought them, and shadow mode cannot miss them:
    # why what ours alone holds is a lower bound.
    assert shadow.direct[0].only_ours.value == shadow.later.only_ours.value == 0


def test_arms_must_be_those_of_the_experiment(crowd, bm25):
    with pytest.raises(ValueError, match="arms must be those of the experiment"):
        serve_crowd(crowd, {"half": bm25}, define())
    with pytest.raises(ValueError, match="customers must be at least 1; got 0"):
        make_crowd(**SHOP, customers=0)

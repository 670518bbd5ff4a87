"""Shadow: what would our match set have held of what customers bought, and what would theirs?

No customer sees anything new: a log tells which purchases each of two match sets would have made
possible. Customers buy what they are shown, so a log made with theirs holds few purchases that
theirs cannot show. It still holds some: by other queries, other pages, or advertising. And a
customer who did not find a product by one query often finds it by the next one of the same visit.
So both are counted, and what ours alone holds is a lower bound of what it would add.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from matchset.data.events import EventRule, EventWeights, kind_of, relevance_rule
from matchset.data.log import Log
from matchset.data.split import DEFAULT_SAMPLE
from matchset.errors import DataError
from matchset.evaluate.judgments import run_qrels
from matchset.evaluate.overlap import Share
from matchset.evaluate.pair_segments import find_seen_in_training, make_segments
from matchset.evaluate.qrels import Qrels
from matchset.evaluate.significance import Values
from matchset.matchers.base import Retriever, check_k
from matchset.matchers.recorded_run import RecordedRun
from matchset.online.intervals import Moments, measure_rate
from matchset.online.session_rows import NO_SECOND, SessionRows
from matchset.strings import Strings

_MOST_SEARCHES = 50  # of a visit; more are those of a machine
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Held:
    """Shares of the purchases of a segment that match sets would have held."""

    segment: str
    purchases: float
    queries: int  # distinct ones
    both: Share
    only_ours: Share
    only_theirs: Share
    gain: Share  # only ours minus only theirs

    @property
    def disputed(self) -> float:
        """Share that one alone holds: `matchset experiment plan --disputed` takes it."""
        return self.only_ours.value + self.only_theirs.value


@dataclass(frozen=True, slots=True)
class Shadow:
    """What two match sets would have held of what customers bought."""

    k: int
    what: str  # "purchases", or "clicks" of a log without purchases
    unit_kind: str  # what intervals are clustered by: user, session or query
    direct: tuple[Held, ...]  # bought after the query itself; all, then segments
    later: Held | None  # bought after another query of the same visit; None without visits or times
    unanswered: float  # purchases left out, as a recorded run has no answer to their query


@dataclass(frozen=True, slots=True, eq=False)
class Bought:
    """Purchases, or whatever else stands for them."""

    queries: Strings  # (n_queries,)
    products: Strings  # (n_products,)
    traffic: Values  # searches of each query, (n_queries,)
    query: NDArray[np.int64]  # (n,)
    product: NDArray[np.int64]  # (n,)
    unit: NDArray[np.int64]  # (n,)
    weight: Values  # (n,)
    # Index of a purchase, an earlier query of the same visit; None if that is not known.
    before: tuple[NDArray[np.int64], NDArray[np.int64]] | None
    unit_kind: str
    what: str


def measure_shadow(
    log: SessionRows | Log,
    ours: Retriever,
    theirs: Retriever,
    *,
    k: int = 100,
    sample: int = DEFAULT_SAMPLE,
    seed: int = 0,
    events: EventWeights | None = None,
) -> Shadow:
    """Compare two matchers on a log that neither was trained on.

    Purchases, else clicks, are counted, or the `events` that are given a weight above 0. If there
    are more than `sample` of them, some of the units are taken, each with all of its purchases.
    """
    depth = check_k(k)
    rule = relevance_rule(log.events, weights=events)
    bought = _find_in_log(log, rule) if isinstance(log, Log) else _find_in_visits(log, rule)
    bought = _take_units(bought, sample, seed)
    nothing = np.zeros(0, dtype=np.int64)
    at, query = bought.before or (nothing, nothing)
    direct = np.stack([bought.query, bought.product])
    later = np.stack([query, bought.product[at]])
    pairs, place = _distinct(np.concatenate([direct, later], axis=1), len(bought.products))
    qrels = _to_qrels(bought, pairs)
    held = [run_qrels(each, qrels, [depth]).judgments.rank < depth for each in (ours, theirs)]
    is_answered = _find_answered(bought.queries, ours, theirs)
    answered = is_answered[bought.query]
    n = len(bought.query)
    if not answered.any():
        name = "ours" if _find_answered(bought.queries, theirs)[bought.query].any() else "theirs"
        raise DataError(
            f"must answer queries of the log that led to {bought.what}; got answers to none of "
            f"{bought.weight.sum():,.0f} {bought.what}",
            parameter=name,
        )
    parts = {
        name: mask[place[:n]] & answered
        for name, mask in make_segments(qrels, find_seen_in_training(qrels, None, ours)).items()
    }
    first, second = (each[place[:n]] for each in held)
    segments = [_count(bought, name, first, second, mask) for name, mask in parts.items()]
    return Shadow(
        k=depth,
        what=bought.what,
        unit_kind=bought.unit_kind,
        direct=tuple(each for each in segments if each.purchases),
        later=_count_later(bought, is_answered[query], *(each[place[n:]] for each in held)),
        unanswered=float(bought.weight[~answered].sum()),
    )


def _find_in_visits(rows: SessionRows, rule: EventRule) -> Bought:
    """Find what was bought, and the earlier queries of the same visit."""
    at = _find_bought(rows, rule)
    _, first = rows.searches()  # in the order of their visits
    began = rows.began()
    begins = np.searchsorted(rows.visit[first], rows.visit[at], side="left")
    ends = np.searchsorted(rows.visit[first], rows.visit[at], side="right")
    sizes = np.minimum(ends - begins, _MOST_SEARCHES)
    purchase = np.repeat(np.arange(len(at)), sizes)
    offset = np.arange(len(purchase)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    search = np.repeat(begins, sizes) + offset
    query = rows.query[first[search]].astype(np.int64)
    is_before = (query != rows.query[at[purchase]]) & (began[search] != NO_SECOND)
    is_before &= began[search] <= rows.second[at[purchase]]  # which a purchase without time is not
    has_times = bool((rows.second != NO_SECOND).any())
    return Bought(
        queries=rows.queries,
        products=rows.products,
        traffic=np.bincount(rows.query[first], minlength=len(rows.queries)).astype(np.float64),
        query=rows.query[at].astype(np.int64),
        product=rows.product[at].astype(np.int64),
        unit=rows.unit[at],
        weight=rows.count[at],
        before=(purchase[is_before], query[is_before]) if has_times else None,
        unit_kind=rows.unit_kind,
        what=_name_events(rule.weights),
    )


def _find_in_log(log: Log, rule: EventRule) -> Bought:
    """Find what was bought in a log that does not say by whom: each query counts as a unit."""
    at = _find_bought(log, rule)
    return Bought(
        queries=log.queries,
        products=log.products,
        traffic=log.query_counts(),
        query=log.query[at].astype(np.int64),
        product=log.product[at].astype(np.int64),
        unit=log.query[at].astype(np.int64),
        weight=log.count[at],
        before=None,
        unit_kind="query",
        what=_name_events(rule.weights),
    )


def _find_bought(log: SessionRows | Log, rule: EventRule) -> NDArray[np.int64]:
    """Return the rows that count."""
    weight = np.array([rule.weights.get(name, 0.0) for name in log.events])[log.event]
    at = np.flatnonzero(weight * log.count > 0)
    if len(at) == 0:
        raise DataError(f"a log must hold purchases or clicks; got {', '.join(log.events)}")
    return at


def _name_events(weights: Mapping[str, float]) -> str:
    kinds = {kind_of(name) for name in weights}
    return "purchases" if kinds == {"purchase"} else "clicks" if "click" in kinds else "events"


def _take_units(bought: Bought, sample: int, seed: int) -> Bought:
    """Take some of the units, with all that they bought."""
    if sample < 1:
        raise ValueError(f"sample must be positive; got {sample}")
    if len(bought.query) <= sample:
        return bought
    n_units = int(bought.unit.max()) + 1
    share = sample / len(bought.query)
    is_taken = (np.random.default_rng(seed).random(n_units) < share)[bought.unit]
    before = None
    if bought.before is not None:
        at, query = bought.before
        is_kept = is_taken[at]
        renumbered = np.cumsum(is_taken) - 1
        before = renumbered[at[is_kept]], query[is_kept]
    taken = {
        name: getattr(bought, name)[is_taken] for name in ("query", "product", "unit", "weight")
    }
    return replace(bought, **taken, before=before)


def _distinct(
    pairs: NDArray[np.int64], n_products: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return distinct pairs of query and product, ascending, and the place of each in them."""
    keys, place = np.unique(pairs[0] * max(n_products, 1) + pairs[1], return_inverse=True)
    return np.stack(np.divmod(keys, max(n_products, 1))), place


def _to_qrels(bought: Bought, pairs: NDArray[np.int64]) -> Qrels:
    queries, row = np.unique(pairs[0], return_inverse=True)
    products, product = np.unique(pairs[1], return_inverse=True)
    return Qrels(
        queries=bought.queries.take(queries),
        products=bought.products.take(products),
        row=row.astype(np.int64),
        product=product.astype(np.int64),
        gain=np.ones(len(row)),
        traffic=bought.traffic[queries],
    )


def _find_answered(queries: Strings, *matchers: Retriever) -> Bools:
    """Find the queries that every recorded run has an answer to; other matchers answer all."""
    answered = np.ones(len(queries), dtype=np.bool_)
    for matcher in matchers:
        if isinstance(matcher, RecordedRun):
            answered &= matcher.has(queries)
    return answered


def _count_later(bought: Bought, answered: Bools, ours: Bools, theirs: Bools) -> Held | None:
    """Count purchases that an earlier query of the visit could have led to.

    Only earlier queries that both have an answer to count, `answered` (n_pairs,): a recorded run
    with fewer queries must not look worse for it.
    """
    if bought.before is None:
        return None
    at, _ = bought.before
    n = len(bought.query)
    reached = np.zeros((3, n), dtype=np.bool_)
    for row, mask in zip(reached, (ours & answered, theirs & answered, answered), strict=True):
        row[at[mask]] = True
    return _count(bought, "after another query", *reached)


def _count(bought: Bought, segment: str, ours: Bools, theirs: Bools, chosen: Bools) -> Held:
    unit, weight = np.unique(bought.unit[chosen], return_inverse=True)[1], bought.weight[chosen]
    n_units = int(unit.max(initial=-1)) + 1
    searches = np.bincount(unit, weight, n_units)

    def share(values: NDArray[np.generic]) -> Share:
        held = np.bincount(unit, weight * values[chosen].astype(np.float64), n_units)
        effect = measure_rate(Moments.of(held, searches))
        return Share(effect.value, effect.low, effect.high)

    return Held(
        segment=segment,
        purchases=float(weight.sum()),
        queries=len(np.unique(bought.query[chosen])),
        both=share(ours & theirs),
        only_ours=share(ours & ~theirs),
        only_theirs=share(theirs & ~ours),
        gain=share(ours.astype(np.int64) - theirs.astype(np.int64)),
    )

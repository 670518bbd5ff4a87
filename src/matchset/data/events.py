"""Events: how much does an event say about a customer's interest in a product?"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from matchset.errors import DataError, ParameterError

EventKind: TypeAlias = Literal["purchase", "cart", "click", "impression", "none", "unknown"]
# What a user can give: a weight per event, or the names of events that weigh 1 each.
EventWeights: TypeAlias = Mapping[str, float] | Sequence[str]

# Usual names in lower case without separators: "Add to cart" is addtocart. A plain "view" is a view
# of a product's page, which follows a click.
_KINDS: dict[EventKind, str] = {
    "purchase": "purchase purchases purchased buy buys bought order orders ordered transaction "
    "conversion checkout sale sold",
    "cart": "cart addtocart addedtocart atc basket addtobasket addtobag",
    "click": "click clicks clicked clickthrough productclick resultclick itemclick selectitem "
    "view viewed viewitem productview pageview detail detailview pdpview",
    "impression": "impression impressions productimpression shown served seen exposure "
    "viewitemlist viewsearchresults",
    "none": "",  # the log has no events: its one event has no name
}
_KIND_OF: dict[str, EventKind] = {
    name: kind for kind, names in _KINDS.items() for name in names.split() or [""]
}
_SHOWN = re.compile("impr|shown|served|seen|expos|list|anzeig|einblend|gezeigt|affich|vist|mostrad")
_TRAINING_WEIGHTS: dict[EventKind, float] = {"purchase": 1.0, "cart": 0.5, "click": 0.2}


def kind_of(event: str) -> EventKind:
    """Return the kind of event that a name stands for."""
    if not event.strip():
        return "none"
    return _KIND_OF.get(re.sub(r"[^a-z0-9]", "", event.lower()) or event, "unknown")


@dataclass(frozen=True, slots=True)
class EventRule:
    """A product is an answer to a query if its weighted count of events reaches a threshold."""

    weights: Mapping[str, float]  # of each event that counts
    min_count: float = 1.0

    def __str__(self) -> str:
        named = {name: weight for name, weight in self.weights.items() if name}
        weights = " + ".join(f"{weight:g} x {name}" for name, weight in named.items())
        return f"{weights or 'count'} of at least {self.min_count:g}"

    def __post_init__(self) -> None:
        for event, weight in self.weights.items():
            if not 0 <= weight < float("inf"):
                raise ValueError(f"the weight of {event!r} must be finite and >= 0; got {weight}")
        if not self.min_count > 0:
            raise ParameterError(f"must be positive; got {self.min_count}", parameter="min_count")


def training_rule(
    events: Iterable[str], *, weights: EventWeights | None = None, min_count: float = 1.0
) -> EventRule:
    """Return the rule for training pairs of a log with these events.

    By default a purchase weighs 1, a cart 0.5 and a click 0.2, relative to the strongest event of
    the log: if it has only clicks, a click weighs 1. Impressions weigh nothing. Without events,
    every row counts.
    """
    names = tuple(events)
    if weights is not None:
        return EventRule(_check_weights(names, weights), min_count)
    kinds = {name: kind_of(name) for name in names}
    if set(kinds.values()) <= {"none"}:
        return EventRule(dict.fromkeys(names, 1.0), min_count)
    found = {
        name: _TRAINING_WEIGHTS[kind] for name, kind in kinds.items() if kind in _TRAINING_WEIGHTS
    }
    if not found:
        raise _no_rule(names)
    strongest = max(found.values())
    return EventRule({name: weight / strongest for name, weight in found.items()}, min_count)


def relevance_rule(
    events: Iterable[str], *, weights: EventWeights | None = None, min_count: float = 1.0
) -> EventRule:
    """Return the rule for test pairs: bought at least once, as in the paper.

    Without purchases: clicked or put into the cart. Without events, every row counts.
    """
    names = tuple(events)
    if weights is not None:
        return EventRule(_check_weights(names, weights), min_count)
    kinds = {name: kind_of(name) for name in names}
    for wanted in ({"purchase"}, {"click", "cart"}):
        found = [name for name in names if kinds[name] in wanted]
        if found:
            return EventRule(dict.fromkeys(found, 1.0), min_count)
    if not set(kinds.values()) <= {"none"}:
        raise _no_rule(names)
    return EventRule(dict.fromkeys(names, 1.0), min_count)


def hint_at_counts(rule: EventRule) -> str:
    """Return the end of a message on a log without positive pairs: what to try without events."""
    if any(kind_of(name) != "none" for name in rule.weights):
        return ""
    return "; name a column of ratings or counts with --count (count= in Python)"


def find_uncounted(events: Iterable[str]) -> list[str]:
    """Return the events that no default rule knows, for a message.

    An event without a name is one of them if others have names.
    """
    names = tuple(events)
    has_names = any(kind_of(name) != "none" for name in names)
    unknown = [name for name in names if kind_of(name) == "unknown"]
    if has_names:
        unknown += ["'' (rows without an event)" for name in names if kind_of(name) == "none"][:1]
    return unknown


def advise_weights(names: Sequence[str]) -> str | None:
    """Return how to give an event a weight, with the first name that needs no quotes.

    What looks like an impression is not proposed: most of what was shown was not wanted.
    """
    plain = (n for n in names if n.isidentifier() and not _SHOWN.search(n.lower()))
    name = next(plain, None)
    return None if name is None else f"such as {{events.{name}=1}}"


def _no_rule(names: Sequence[str]) -> DataError:
    return DataError(
        f"must say which events make a pair positive; the log has {_list(names)}",
        parameter="events",
        advice=advise_weights(names),
    )


def _check_weights(names: Sequence[str], weights: EventWeights) -> dict[str, float]:
    if isinstance(weights, str):
        raise TypeError(f"events must be a mapping or a list of names; got the text {weights!r}")
    given = dict(weights) if isinstance(weights, Mapping) else dict.fromkeys(weights, 1.0)
    for name in given:
        if name not in names:
            raise DataError(f"unknown event {name!r}; the log has {_list(names)}")
    return given


def _list(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names)) or "no events"

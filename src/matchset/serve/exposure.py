"""Exposure: which arm answers a request, and what is recorded of the answer?"""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass
from functools import lru_cache
from itertools import count

import msgspec

from matchset.matchers.match import Match
from matchset.online.assignment import assign, hide_unit
from matchset.online.definition import INTERLEAVED, Arm, Experiment
from matchset.online.interleaving import Origin, interleave
from matchset.online.records import QueryRecord, timestamp_now
from matchset.serve.loaded_model import LoadedModel
from matchset.serve.request_errors import RequestError
from matchset.serve.requests import MatchOptions

_numbers = count(1)
_N_CACHED = 256  # beginnings of records: arms times versions


@dataclass(frozen=True, slots=True)
class Exposure:
    """A unit in an experiment."""

    experiment: Experiment
    unit: str
    arm: Arm | None  # None: it sees both

    @property
    def arm_name(self) -> str:
        """The arm as answers and records name it."""
        return INTERLEAVED if self.arm is None else self.arm.name

    @property
    def fields(self) -> bytes:
        """What an answer says of it, as JSON fields; names need no escapes."""
        return b'"experiment":"%b","arm":"%b",' % (
            self.experiment.name.encode(),
            self.arm_name.encode(),
        )

    def interleave(self, a: Match, b: Match, k: int) -> tuple[Match, tuple[Origin, ...]]:
        """Return the products of both arms as one list, and whom each is credited to."""
        found = interleave(self.experiment, self.unit, a.query, a.ids, b.ids, k)
        titles = {**_titles_of(b), **_titles_of(a)}
        match = Match.of(
            a.query,
            found.ids,
            [1.0 / position for position in range(1, len(found.ids) + 1)],
            [titles[product] for product in found.ids] if titles else None,
        )
        return match, found.origins

    def record(
        self,
        query_id: str,
        query: str,
        ids: bytes,
        origins: tuple[Origin, ...] | None,
        *,
        microseconds: int,
        version: str,
    ) -> bytes:
        """Return a line that says what the unit got; `ids` are a JSON array."""
        values = {
            b"unit": hide_unit(self.experiment, self.unit).encode(),
            b"query_id": query_id.encode(),
            b"query": msgspec.json.encode(query),
            b"timestamp": timestamp_now().encode(),
            b"ids": ids,
            b"from": b"" if origins is None else msgspec.json.encode(origins),
            b"microseconds": microseconds,
        }
        return _template(self.experiment.name, self.arm_name, version) % values


@lru_cache(maxsize=_N_CACHED)
def _template(experiment: str, arm: str, version: str) -> bytes:
    """Return a `QueryRecord` as a line with places for what differs, which saves time."""
    record = QueryRecord(
        experiment=experiment,
        arm=arm,
        unit="<unit>",
        query_id="<query_id>",
        query="<query>",
        timestamp="<timestamp>",
        ids=("<ids>",),
        origins=("<from>",) if arm == INTERLEAVED else None,  # type: ignore[arg-type]
        microseconds=-1,
        model_version=version,
    )
    line = msgspec.json.encode(record.to_dict()) + b"\n"
    for name in (b"unit", b"query_id", b"timestamp"):
        line = line.replace(b"<%b>" % name, b"%%(%b)b" % name)
    for json, name in ((b'"<query>"', b"query"), (b'["<ids>"]', b"ids"), (b'["<from>"]', b"from")):
        line = line.replace(json, b"%%(%b)b" % name)
    return line.replace(b":-1,", b":%(microseconds)d,")


def expose(model: LoadedModel, unit: str | None, options: MatchOptions) -> Exposure | None:
    """Return the exposure of a request; None without an experiment or a unit."""
    experiment = model.experiment
    if experiment is None or not unit:
        return None
    if options.matcher is not None:
        rule = "matcher must be left to the experiment in a request with a unit"
        message = f"{rule}; got {options.matcher!r}"
        raise RequestError("bad_parameter", message, parameter="matcher")
    arm = None if experiment.is_interleaved else assign(experiment, unit)
    return Exposure(experiment, unit, arm)


def make_query_id() -> str:
    """Return an id that no other answer has, of any worker or server."""
    return f"{_random_start(os.getpid())}{next(_numbers):012x}"


@lru_cache(maxsize=1)
def _random_start(_: int) -> str:
    """Of this process: a copy of it must not go on with the ids of the other."""
    return secrets.token_hex(10)


def _titles_of(match: Match) -> dict[str, str]:
    return {} if match.titles is None else dict(zip(match.ids, match.titles, strict=True))

"""Exposure: which arm answers a request, and what is recorded of the answer?"""

from __future__ import annotations

import secrets
from dataclasses import dataclass

import orjson

from matchset.matchers.match import Match
from matchset.online.assignment import assign, hide_unit
from matchset.online.definition import INTERLEAVED, Arm, Experiment
from matchset.online.interleaving import Origin, interleave
from matchset.online.records import QueryRecord, timestamp_now
from matchset.serve.http.request_errors import RequestError
from matchset.serve.http.requests import MatchOptions
from matchset.serve.loaded_model import LoadedModel, matcher_of


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
        """The products of both arms as one list, and whom each is credited to."""
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
        match: Match,
        origins: tuple[Origin, ...] | None,
        *,
        microseconds: int,
        version: str,
    ) -> bytes:
        """A line that says what the unit got."""
        record = QueryRecord(
            experiment=self.experiment.name,
            arm=self.arm_name,
            unit=hide_unit(self.experiment, self.unit),
            query_id=query_id,
            query=match.query,
            timestamp=timestamp_now(),
            ids=match.ids,
            origins=origins,
            microseconds=microseconds,
            model_version=version,
        )
        return orjson.dumps(record.to_dict(), option=orjson.OPT_APPEND_NEWLINE)


def expose(model: LoadedModel, unit: str | None, options: MatchOptions) -> Exposure | None:
    """The exposure of a request; None without an experiment or a unit."""
    experiment = model.experiment
    if experiment is None or not unit:
        return None
    if options.is_chosen:
        rule = "matcher must be left to the experiment in a request with a unit"
        message = f"{rule}; got {options.matcher!r}"
        raise RequestError("bad_parameter", message, parameter="matcher")
    arm = None if experiment.is_interleaved else assign(experiment, unit)
    return Exposure(experiment, unit, arm)


def name_matcher(exposure: Exposure | None, options: MatchOptions) -> str:
    """The matcher that answers, as answers and metrics name it."""
    if exposure is None:
        return options.matcher
    return INTERLEAVED if exposure.arm is None else matcher_of(exposure.arm)


def make_query_id() -> str:
    """An id that no other answer has."""
    return secrets.token_hex(16)


def _titles_of(match: Match) -> dict[str, str]:
    return {} if match.titles is None else dict(zip(match.ids, match.titles, strict=True))

"""Assigned match: which arm of an experiment answered, and what is the answer called?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, overload

from matchset.matchers.match import Hit, Match
from matchset.online.interleaving import Origin


@dataclass(frozen=True, eq=False, repr=False)
class AssignedMatch(Match):
    """The answer of a server to a unit; all fields are None if no experiment runs there."""

    experiment: str | None
    arm: str | None
    query_id: str | None  # for events about this answer
    origins: tuple[Origin, ...] | None  # whom each product is credited to, where two arms are shown

    @classmethod
    def read(cls, match: Match, response: Mapping[str, Any]) -> AssignedMatch:
        """Return a match with what a response to one query says about it."""
        (result,) = response["results"]
        origins = [hit["from"] for hit in result["products"] if "from" in hit]
        return cls(
            match.query,
            match.labels,
            match.scores,
            match.products,
            response.get("experiment"),
            response.get("arm"),
            result.get("query_id"),
            tuple(origins) if len(origins) == len(match) and origins else None,
        )

    @overload
    def __getitem__(self, index: int) -> Hit: ...
    @overload
    def __getitem__(self, index: slice) -> AssignedMatch: ...
    def __getitem__(self, index: int | slice) -> Hit | AssignedMatch:
        found = super().__getitem__(index)
        if isinstance(found, Hit):
            return found
        assert isinstance(index, slice)  # noqa: S101
        origins = None if self.origins is None else self.origins[index]
        return AssignedMatch(
            found.query,
            found.labels,
            found.scores,
            found.products,
            self.experiment,
            self.arm,
            self.query_id,
            origins,
        )

    def __reduce__(self) -> tuple[type[AssignedMatch], tuple[Any, ...]]:
        _, fields = super().__reduce__()
        return AssignedMatch, (*fields, self.experiment, self.arm, self.query_id, self.origins)

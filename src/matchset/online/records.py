"""Records: what is written down of an answer in an experiment, and of what came of it?

Documents of User Behavior Insights 1.3, one per line: `QueryRecord` is one of its queries,
`EventRecord` one of its events; `ms.read_ubi(queries=..., events=...)` reads both as a log.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from matchset.online.interleaving import Origin

APPLICATION = "matchset"
_FIELD = "product_id"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryRecord:
    """An answer to a unit that has an arm."""

    experiment: str
    arm: str  # "interleaved" where both were shown
    unit: str  # hashed, see `hide_unit`
    query_id: str
    query: str  # as the customer typed it
    timestamp: str  # ISO 8601, UTC
    ids: tuple[str, ...]  # of the products, position 1 first
    origins: tuple[Origin, ...] | None = None  # of interleaved products
    microseconds: int  # that the matcher took
    model_version: str

    def to_dict(self) -> dict[str, Any]:
        """Return a document of UBI's queries."""
        attributes: dict[str, Any] = {
            "experiment": self.experiment,
            "arm": self.arm,
            "microseconds": self.microseconds,
            "model_version": self.model_version,
        }
        if self.origins is not None:
            attributes["from"] = self.origins
        return {
            "application": APPLICATION,
            "query_id": self.query_id,
            "client_id": self.unit,
            "user_query": self.query,
            "timestamp": self.timestamp,
            "object_id_field": _FIELD,
            "query_response_hit_ids": self.ids,
            "query_attributes": attributes,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRecord:
    """A click, a purchase, or another action on a product of an answer."""

    action: str  # such as "click", "add_to_cart" or "purchase"
    query_id: str  # of the answer
    product: str
    timestamp: str  # ISO 8601, UTC
    position: int | None = None  # in the list that the customer saw, from 1
    revenue: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return a document of UBI's events."""
        attributes: dict[str, Any] = {
            "object": {"object_id": self.product, "object_id_field": _FIELD}
        }
        if self.position is not None:
            attributes["position"] = {"ordinal": self.position}
        if self.revenue is not None:
            attributes["revenue"] = self.revenue
        return {
            "application": APPLICATION,
            "action_name": self.action,
            "query_id": self.query_id,
            "timestamp": self.timestamp,
            "event_attributes": attributes,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ShadowRecord:
    """What was answered, and what another matcher would have answered; about nobody."""

    query_id: str
    timestamp: str  # ISO 8601, UTC
    matcher: str
    ids: tuple[str, ...]  # that were answered, position 1 first
    shadow: str  # the other matcher
    shadow_ids: tuple[str, ...]
    model_version: str
    query: str | None = None  # only if queries may be logged

    def to_dict(self) -> dict[str, Any]:
        """Return a document of UBI's queries; the text of the query may be missing."""
        return {
            "application": APPLICATION,
            "query_id": self.query_id,
            **({} if self.query is None else {"user_query": self.query}),
            "timestamp": self.timestamp,
            "object_id_field": _FIELD,
            "query_response_hit_ids": self.ids,
            "query_attributes": {
                "matcher": self.matcher,
                "shadow": self.shadow,
                "shadow_hit_ids": self.shadow_ids,
                "model_version": self.model_version,
            },
        }


def write_record(record: QueryRecord | EventRecord) -> bytes:
    """Return a record as one line of JSON."""
    text = json.dumps(record.to_dict(), ensure_ascii=False, separators=(",", ":"))
    return text.encode() + b"\n"


def timestamp_now() -> str:
    """Return the time as records have it: ISO 8601 in UTC, with milliseconds."""
    seconds, milliseconds = divmod(time.time_ns() // 1_000_000, 1000)
    return f"{_name_second(seconds)}.{milliseconds:03}Z"


@lru_cache(maxsize=2)
def _name_second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")

"""Settings: what can be set of a server, and what happens when nothing is?"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Literal

LogFormat = Literal["auto", "json", "pretty"]
Snapshot = Literal["link", "copy"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much a caller may ask for; each limit is enforced before any work is done."""

    query_characters: int = 512
    "Characters of a query."
    queries: int = 256
    "Queries of one call."
    k: int = 1000
    "Products per query."
    beam: int = 200
    "Nodes kept per level of the tree."
    filter_characters: int = 2000
    "Characters of a filter."
    candidates: int = 1000
    "Candidates of the caller's own, per query."
    id_characters: int = 256
    "Characters of a product id."
    body_bytes: int = 4_000_000
    "Bytes of a body, counted while it comes in."
    body_seconds: float = 10.0
    "Time for a body to come in."
    url_bytes: int = 32_768
    "Bytes of a query string."
    header_bytes: int = 65_536
    "Bytes of a request line and its headers together."
    header_seconds: float = 10.0
    "Time for the headers of a request to come in."
    concurrency: int = 256
    "Requests at once, in each worker."
    seconds: float = 10.0
    "Time for one request."

    def __post_init__(self) -> None:
        """Check every value against its rule."""
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, bool) or not (value > 0 and math.isfinite(value)):
                raise ValueError(f"{field.name} must be positive and finite; got {value}")
        if self.header_bytes < 8192:
            raise ValueError(f"header_bytes must be at least 8192; got {self.header_bytes}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeConfig:
    """How a server runs."""

    host: str = "127.0.0.1"
    "Address to listen on; others than this machine's own loopback reach out to a network."
    port: int = 8080
    "Port to listen on; 0 takes a free one."
    workers: int | None = None
    "Processes that answer; none: one per core, at most 8."
    api_key_file: Path | None = None
    "File of keys, one a line; calls must then carry one: `Authorization: Bearer KEY`."
    allow_host: tuple[str, ...] = ()
    "Host names that callers may use, beside localhost and plain addresses."
    watch: bool = False
    "Reload the model when its folder is replaced."
    snapshot: Snapshot = "link"
    "How the served files are kept apart: hard links (link), or copies (copy)."
    open_docs: bool = False
    "Give /docs and /openapi.json without a key too."
    open_metrics: bool = False
    "Give /metrics without a key too."
    log_format: LogFormat = "auto"
    "Logs as JSON, pretty for a person, or pretty in a terminal only (auto)."
    log_queries: bool = False
    "Write queries to the log; they can hold personal data."
    access_log: bool = True
    "Write a line for each request."
    stop_seconds: int = 30
    "Time for requests in flight to end when the server is told to stop."
    reload_seconds: float = 60.0
    "Time for all workers to switch to a new model."
    threads: int = 4
    "Threads of each worker for what takes longer: batches, filters not seen before."
    filters: int = 64
    "Filters that each worker remembers."

    def __post_init__(self) -> None:
        """Check every value against its rule."""
        if not 0 <= self.port < 65_536:
            raise ValueError(f"port must be from 0 to 65535; got {self.port}")
        if self.workers is not None and self.workers < 1:
            raise ValueError(f"workers must be at least 1; got {self.workers}")
        for name in ("stop_seconds", "reload_seconds", "threads", "filters"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be positive; got {getattr(self, name)}")

    @property
    def n_workers(self) -> int:
        """Processes to start."""
        return self.workers or min(8, len(os.sched_getaffinity(0)))

"""Options: what can be set for a server, and what are the defaults?"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, fields
from pathlib import Path

from matchset.config import check_share


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of a worker; those of single fields are part of the contract (see /docs)."""

    body_bytes: int = 4_000_000
    "Bytes per body, counted while it arrives."
    concurrency: int = 256
    "Concurrent requests per worker."
    seconds: float = 10.0
    "Seconds per request."
    slow_seconds: float = 10.0
    "Seconds for headers or a body to arrive, or for a caller to read the next 64 KB of a response."
    response_bytes: int = 64_000_000
    "Bytes per response."

    def __post_init__(self) -> None:
        """Check every value against its rule."""
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, bool) or not (value > 0 and math.isfinite(value)):
                raise ValueError(f"{field.name} must be positive and finite; got {value}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeConfig:
    """How a server runs."""

    host: str = "127.0.0.1"
    "Address to listen on; any address but loopback exposes the server to the network."
    port: int = 8080
    "Port to listen on; 0 picks a free one."
    workers: int | None = None
    "Worker processes; by default one per core, at most 8."
    api_key_file: Path | None = None
    "File of API keys, one per line; requests then need `Authorization: Bearer KEY`."
    allow_host: tuple[str, ...] = ()
    "Host names that callers may use, in addition to localhost and plain addresses."
    watch: bool = False
    "Reload the model when it is replaced."
    writable: bool = False
    "Accept products over HTTP and write them beside the model; needs API keys."
    worker_megabytes: int | None = None
    "Memory of a worker, in MiB, above which it is replaced by a new one."
    new_share: float | None = None
    "Share of the answers that are new products, if not the model's own (see docs/training.md)."
    open_metrics: bool = False
    "Serve /metrics without a key."
    log_queries: bool = False
    "Log queries; they can contain personal data."
    access_log: bool = True
    "Log a line for each request."
    experiment: Path | None = None
    "File (TOML) of an experiment: requests with a `unit` get the arm of that unit."
    shadow: str | None = None
    "Name of a matcher whose answers are recorded but never sent."
    shadow_share: float = 0.01
    "Share of the queries whose shadow is recorded."
    records: Path = Path("records")
    "Folder for the records of experiments and shadows."

    def __post_init__(self) -> None:
        """Check every value against its rule."""
        if not 0 <= self.port < 65_536:
            raise ValueError(f"port must be from 0 to 65535; got {self.port}")
        if self.new_share is not None:
            check_share("new_share", self.new_share)
        if self.writable and self.api_key_file is None:
            raise ValueError("writable needs api_key_file; got none")
        for name in ("workers", "worker_megabytes"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1; got {value}")
        if not 0 < self.shadow_share <= 1:
            rule = "shadow_share must be above 0 and at most 1"
            raise ValueError(f"{rule}; got {self.shadow_share}")
        if self.experiment is not None and self.shadow is not None:
            raise ValueError("a server must have an experiment or a shadow; got both")

    @property
    def n_workers(self) -> int:
        """Processes to start."""
        return self.workers or min(8, len(os.sched_getaffinity(0)))

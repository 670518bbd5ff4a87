"""Digest: is this the same data, or the same configuration, as before?"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, is_dataclass
from typing import Any

import numpy as np

from matchset.data.catalog import Catalog
from matchset.data.log import Log
from matchset.strings import Strings

_LOG = ("queries", "products", "events", "query", "product", "event", "day", "count")


def make_digest(*parts: Any) -> str:
    """A name for values: logs, catalogues, texts, arrays, configurations and plain values."""
    state = hashlib.sha256()
    for part in parts:
        _feed(state, part)
    return state.hexdigest()[:32]


def _feed(state: Any, part: Any) -> None:
    if isinstance(part, Log):
        for name in _LOG:
            _feed(state, getattr(part, name))
    elif isinstance(part, Catalog):
        for texts in (part.ids, part.titles, part.descriptions):
            _feed(state, texts)
    elif isinstance(part, Strings):
        _feed(state, part.lengths)
        _feed(state, part.used)
    elif isinstance(part, np.ndarray):
        state.update(f"{part.dtype.str}{part.shape}".encode())
        state.update(np.ascontiguousarray(part).reshape(-1).view(np.uint8).data)
    else:
        plain = asdict(part) if is_dataclass(part) and not isinstance(part, type) else part
        state.update(json.dumps(plain, sort_keys=True).encode() + b"\n")

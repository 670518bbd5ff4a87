"""Sinks: where do a layer's weights go while it is being trained?"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from matchset.matrices import Floats, Ids, offsets_of
from matchset.model.tree import LayerWeights

# Feature rows of each parent, features, entries of each row, children, weights, bias of each child.
Part = tuple[NDArray[np.int64], Ids, Ids, NDArray[np.uint16], Floats, Floats]


class Sink(Protocol):
    """Takes the weights of some parents at a time, in order."""

    def add(self, part: Part) -> None:
        """Put one part behind the others."""

    def close(self) -> LayerWeights:
        """All parts as one layer."""

    def discard(self) -> None:
        """Leave nothing of a layer that will not be whole."""


class MemorySink:
    """Parts stay in memory until the layer is whole."""

    def __init__(self) -> None:
        self._parts: list[Part] = []

    def add(self, part: Part) -> None:
        """Keep the arrays."""
        self._parts.append(part)

    def close(self) -> LayerWeights:
        """Concatenate, array by array, so that one array at a time is held twice."""
        columns: list[list[Any]] = [list(arrays) for arrays in zip(*self._parts, strict=True)]
        self._parts.clear()
        joined = []
        for arrays in columns:
            joined.append(np.concatenate(arrays))
            arrays.clear()
        n_rows, features, n_entries, children, weights, bias = joined
        return LayerWeights(
            offsets_of(n_rows), features, offsets_of(n_entries), children, weights, bias
        )

    def discard(self) -> None:
        """Drop the arrays."""
        self._parts.clear()


class FolderSink:
    """Parts go to disk at once: the layer may be larger than memory, and is mapped in the end."""

    def __init__(self, folder: Path, layer: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._paths = [folder / f"layer-{layer}.{name}" for name in LayerWeights.__slots__]
        self._ends = {0: 0, 2: 0}  # counts become offsets: of rows and of entries
        for place, path in enumerate(self._paths):
            path.write_bytes(np.zeros(1 if place in self._ends else 0, dtype=np.int64).tobytes())

    def discard(self) -> None:
        """Remove the files."""
        for path in self._paths:
            path.unlink(missing_ok=True)

    def add(self, part: Part) -> None:
        """Write the arrays behind those already there."""
        arrays: tuple[NDArray[Any], ...] = part
        for place, array in enumerate(arrays):
            if place in self._ends:
                ends = self._ends[place] + np.cumsum(array, dtype=np.int64)
                self._append(place, ends)
                self._ends[place] += int(array.sum())
            else:
                self._append(place, array)

    def close(self) -> LayerWeights:
        """Map what was written."""
        types = (np.int64, np.int32, np.int64, np.uint16, np.float32, np.float32)
        arrays: list[Any] = [
            np.memmap(path, dtype, "r") if path.stat().st_size else np.zeros(0, dtype)
            for path, dtype in zip(self._paths, types, strict=True)
        ]
        return LayerWeights(*arrays)

    def _append(self, place: int, array: NDArray[Any]) -> None:
        with self._paths[place].open("ab") as file:
            array.tofile(file)

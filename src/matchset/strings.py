"""Strings: how are millions of texts stored without a Python object each?"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np
from numpy.typing import NDArray

from matchset import _native
from matchset.matrices import offsets_of


@dataclass(frozen=True, slots=True, eq=False)
class Strings(Sequence[str]):
    """An immutable sequence of texts: one UTF-8 buffer and offsets; both may be memory-mapped."""

    data: NDArray[np.uint8]  # the texts, one after another, (n_bytes,)
    offsets: NDArray[np.int64]  # start of each text, and the end, (n + 1,)

    @classmethod
    def of(cls, texts: Iterable[str], what: str = "texts") -> Strings:
        """Pack texts; a value that is not a `str` is a TypeError naming `what` and the position.

        Lone surrogates, which UTF-8 cannot hold, read back as U+FFFD.
        """
        if isinstance(texts, Strings):
            return texts
        if isinstance(texts, str | bytes):
            raise TypeError(f"{what} must be a sequence of str; got one {type(texts).__name__}")
        return cls(*_native.pack_strings(texts if isinstance(texts, list) else list(texts), what))

    @classmethod
    def concatenate(cls, parts: Sequence[Strings]) -> Strings:
        """Return all texts of all parts, in order."""
        if len(parts) < 2:
            return parts[0] if parts else cls.of([])
        data = np.concatenate([part.used for part in parts])
        lengths = np.concatenate([part.lengths for part in parts])
        return cls(data, offsets_of(lengths))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> Strings: ...
    def __getitem__(self, index: int | slice) -> str | Strings:
        if isinstance(index, slice):
            return self.take(np.arange(len(self))[index])
        if not -len(self) <= index < len(self):
            raise IndexError(f"index must be within {len(self)} texts; got {index}")
        index %= len(self)
        return self._decode(self.offsets[index], self.offsets[index + 1])

    def __iter__(self) -> Iterator[str]:
        bounds = self.offsets.tolist()
        for begin, end in itertools.pairwise(bounds):
            yield self._decode(begin, end)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Strings):
            return NotImplemented
        return np.array_equal(self.lengths, other.lengths) and np.array_equal(self.used, other.used)

    __hash__ = None  # type: ignore[assignment]  # holds arrays

    def __repr__(self) -> str:
        shown = ", ".join(repr(self[i]) for i in range(min(3, len(self))))
        return f"Strings([{shown}{', ...' if len(self) > 3 else ''}], n={len(self):,})"

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Bytes of each text, (n,)."""
        return np.diff(self.offsets)

    def take(self, indices: NDArray[np.integer]) -> Strings:
        """Return the texts at `indices`, in that order."""
        wanted = np.ascontiguousarray(indices, dtype=np.int64)
        return Strings(*_native.take_strings(self.data, self.offsets, wanted))

    def slice(self, begin: int, end: int) -> Strings:
        """Return the texts from begin to end; nothing is copied."""
        return Strings(self.data, self.offsets[begin : end + 1])

    def decode(self, indices: NDArray[np.int32]) -> tuple[str, ...]:
        """Return the texts at `indices` as Python strings; fast for a few out of many."""
        return _native.decode_strings(self.data, self.offsets, indices)

    def argsort(self) -> NDArray[np.int64]:
        """Return indices in ascending order of the texts' bytes, ties by index, (n,)."""
        return _native.sort_strings(self.data, self.offsets)

    def factorize(self) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Group equal texts: group of each text, (n,), and index of each group's first text."""
        return _native.group_strings(self.data, self.offsets)

    def hashes(self) -> NDArray[np.uint64]:
        """Return a 64-bit hash of each text, the same on every machine, (n,)."""
        return _native.hash_strings(self.data, self.offsets)

    def index_of(self, wanted: Strings, *, threads: int = 1) -> NDArray[np.int64]:
        """Index of each wanted text, -1 if missing; the texts of `self` must be distinct."""
        return _native.find_strings(self.data, self.offsets, wanted.data, wanted.offsets, threads)

    def _decode(self, begin: int, end: int) -> str:
        return self.data[begin:end].tobytes().decode("utf-8", "replace")

    @property
    def used(self) -> NDArray[np.uint8]:
        """The bytes of the texts: the part of the buffer between the first and the last offset."""
        return self.data[self.offsets[0] : self.offsets[-1]]

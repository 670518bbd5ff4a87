"""Matrices: how do sparse rows of any origin reach the kernels?"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

log = logging.getLogger(__name__)

_BLOCK = 1 << 22  # entries that are searched at once

Offsets = NDArray[np.int64]
Ids = NDArray[np.int32]
Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class Csr:
    """Sparse rows: columns ascend within a row, none twice. Arrays may be memory-mapped.

    Rankings are held in it too: then a row is a query and its columns are in order of their score.
    """

    indptr: Offsets  # start of each row, and the end, (n_rows + 1,)
    indices: Ids  # (n_entries,)
    data: Floats  # (n_entries,)
    n_cols: int

    def __len__(self) -> int:
        return len(self.indptr) - 1

    def __repr__(self) -> str:
        return f"Csr({len(self):,} x {self.n_cols:,}, {self.indptr[-1]:,} entries)"

    @property
    def arrays(self) -> tuple[Offsets, Ids, Floats]:
        """The arrays that kernels take."""
        return self.indptr, self.indices, self.data

    @property
    def row_of_entry(self) -> Ids:
        """Row of each entry, (n_entries,)."""
        return rows_of(self.indptr)

    @property
    def position_in_row(self) -> Offsets:
        """Position of each entry in its row, from 0, (n_entries,)."""
        return positions_of(self.indptr)

    def take(self, rows: NDArray[np.integer]) -> Csr:
        """Return some rows, in the order given."""
        entries, indptr = take_entries(self.indptr, rows)
        return Csr(indptr, self.indices[entries], self.data[entries], self.n_cols)

    def slice(self, begin: int, end: int) -> Csr:
        """Return rows begin to end; their columns and values are not copied."""
        first, last = int(self.indptr[begin]), int(self.indptr[end])
        indptr = self.indptr[begin : end + 1]
        return Csr(
            indptr - first if first else indptr,
            self.indices[first:last],
            self.data[first:last],
            self.n_cols,
        )

    def to_scipy(self) -> sp.csr_array:
        """Return the matrix as a SciPy array."""
        return sp.csr_array((self.data, self.indices, self.indptr), shape=(len(self), self.n_cols))

    def transposed(self) -> Csr:
        """Return the matrix with rows and columns exchanged."""
        return from_scipy(self.to_scipy().T.tocsr())

    def transposed_columns(self, columns: range) -> Csr:
        """Return some columns as rows; the memory it takes depends on their entries alone."""
        if columns == range(self.n_cols):
            return self.transposed()
        at = _find_entries(self.indices, columns)
        rows = (np.searchsorted(self.indptr, at, side="right") - 1).astype(np.int32)
        coordinates = self.indices[at] - np.int32(columns.start), rows
        shape = (len(columns), len(self))
        return from_scipy(sp.coo_array((self.data[at], coordinates), shape=shape).tocsr())


def _find_entries(indices: Ids, columns: range) -> Offsets:
    """Find the entries of some columns, block by block, so that little memory is needed."""
    found = [
        begin + np.flatnonzero((block >= columns.start) & (block < columns.stop))
        for begin in range(0, len(indices), _BLOCK)
        for block in (indices[begin : begin + _BLOCK],)
    ]
    return np.concatenate([np.empty(0, np.int64), *found])


def join_rows(parts: Sequence[Csr]) -> Csr:
    """Put the rows of several matrices below each other."""
    if len(parts) == 1:
        return parts[0]
    indptr = offsets_of(np.concatenate([np.diff(part.indptr) for part in parts]))
    indices, data = (np.concatenate([part.arrays[i] for part in parts]) for i in (1, 2))
    return Csr(indptr, indices, data, parts[0].n_cols)


def offsets_of(counts: ArrayLike) -> Offsets:
    """Return the start of each row, and the end, for rows of these sizes, (n_rows + 1,)."""
    ends = np.cumsum(counts, dtype=np.int64)
    return np.concatenate([np.zeros(1, np.int64), ends])


def rows_of(offsets: NDArray[np.integer]) -> Ids:
    """Return the row of each entry, (n_entries,)."""
    return np.repeat(np.arange(len(offsets) - 1, dtype=np.int32), np.diff(offsets))


def positions_of(offsets: NDArray[np.integer]) -> Offsets:
    """Return the position of each entry in its row, from 0, (n_entries,)."""
    return np.arange(offsets[-1], dtype=np.int64) - np.repeat(offsets[:-1], np.diff(offsets))


def take_entries(offsets: Offsets, rows: NDArray[np.integer]) -> tuple[Offsets, Offsets]:
    """Return the entries of some rows, in the order of `rows`, and where each row starts."""
    sizes = np.diff(offsets)[rows]
    taken = offsets_of(sizes)
    return np.arange(taken[-1]) + np.repeat(offsets[rows] - taken[:-1], sizes), taken


def to_csr(matrix: Any, what: str) -> Csr:
    """Convert a SciPy sparse matrix or array or a dense 2-d array; errors call it `what`.

    Float32 CSR matrices in canonical form are used as they are; anything else is converted once.
    """
    if isinstance(matrix, Csr):
        return matrix
    started = time.perf_counter()
    found: Any = matrix if sp.issparse(matrix) else np.asarray(matrix)
    if found.ndim != 2:
        advice = ". Reshape your data: one row is values.reshape(1, -1)" if found.ndim == 1 else ""
        raise ValueError(f"{what} must have two dimensions; got {found.ndim}{advice}")
    if found.dtype == object:  # numbers of any kind, as pandas may hold them
        found = found.astype(np.float64)
    if found.dtype.kind not in "biuf":
        raise ValueError(f"{what} must hold real numbers; got {found.dtype}")
    with np.errstate(over="ignore"):  # too large for float32 becomes infinite; checked below
        rows: sp.csr_array = sp.csr_array(found, dtype=np.float32)
    if not rows.has_canonical_format:
        rows = rows.copy()
        rows.sum_duplicates()
    result = from_scipy(rows)
    _check_finite(result, what)
    if getattr(found, "data", None) is not rows.data:
        log.info("%s converted to float32 CSR in %.2f s", what, time.perf_counter() - started)
    return result


def drop_zeros(matrix: Csr) -> Csr:
    """Return the matrix without stored zeros."""
    if np.all(matrix.data):
        return matrix
    kept = matrix.to_scipy().copy()
    kept.eliminate_zeros()
    return from_scipy(kept)


def from_scipy(rows: sp.csr_array) -> Csr:
    """Convert a SciPy matrix in canonical form, with the index types of the kernels."""
    if rows.shape[1] > np.iinfo(np.int32).max:
        raise ValueError(f"a matrix must have at most 2147483647 columns; got {rows.shape[1]}")
    return Csr(
        np.ascontiguousarray(rows.indptr, dtype=np.int64),
        np.ascontiguousarray(rows.indices, dtype=np.int32),
        np.ascontiguousarray(rows.data, dtype=np.float32),
        rows.shape[1],
    )


def _check_finite(matrix: Csr, what: str) -> None:
    values = matrix.data
    # Both extremes are finite only if every value is, and finding them takes no memory.
    if len(values) == 0 or np.isfinite([values.min(), values.max()]).all():
        return
    entry = int(np.flatnonzero(~np.isfinite(values))[0])
    row = int(np.searchsorted(matrix.indptr, entry, side="right")) - 1
    raise ValueError(
        f"{what} must hold finite numbers, not NaN or inf; got {values[entry]} in row {row}"
    )

"""Sparse rows: what helps with them equals plain loops over them."""

from dataclasses import replace
from unittest.mock import patch

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from matchset import matrices
from matchset.matrices import Csr, offsets_of, positions_of, rows_of, take_entries
from matchset.storage.codec import ArrayPieces

SIZES = st.lists(st.integers(0, 4), max_size=8)


def rows_of_sizes(sizes):
    """Rows of these sizes; each value tells its entry."""
    indices = [column for size in sizes for column in range(size)]
    values = np.arange(len(indices), dtype=np.float32)
    return Csr(offsets_of(sizes), np.array(indices, dtype=np.int32), values, 4)


@given(SIZES)
def test_offsets_are_sums_of_the_sizes_before(sizes):
    offsets = offsets_of(sizes)
    assert offsets.dtype == np.int64
    assert offsets.tolist() == [sum(sizes[:n]) for n in range(len(sizes) + 1)]
    assert offsets_of(np.array(sizes) > 0).tolist()[-1] == sum(size > 0 for size in sizes)


@given(SIZES)
def test_every_entry_knows_its_row_and_its_position_in_it(sizes):
    pairs = [(row, position) for row, size in enumerate(sizes) for position in range(size)]
    csr = rows_of_sizes(sizes)
    assert list(zip(csr.row_of_entry, csr.position_in_row, strict=True)) == pairs
    assert np.array_equal(rows_of(csr.indptr), csr.row_of_entry)
    assert np.array_equal(positions_of(csr.indptr), csr.position_in_row)


@given(SIZES.filter(bool), st.data())
def test_taking_rows_equals_taking_them_with_scipy(sizes, data):
    csr = rows_of_sizes(sizes)
    rows = np.array(data.draw(st.lists(st.integers(0, len(sizes) - 1), max_size=9)), dtype=np.int64)
    taken, wanted = csr.take(rows), csr.to_scipy()[rows]
    assert np.array_equal(taken.indptr, wanted.indptr)
    assert np.array_equal(taken.indices, wanted.indices)
    assert np.array_equal(taken.data, wanted.data)
    assert (len(taken), taken.n_cols) == (len(rows), csr.n_cols)
    assert np.array_equal(take_entries(csr.indptr, rows)[0], taken.data)


def test_sparse_rows_print_their_size_and_no_arrays():
    rows = rows_of_sizes([2, 0, 1_000])
    assert repr(rows) == "Csr(3 x 4, 1,002 entries)"
    joined = replace(rows, indices=ArrayPieces([rows.indices]), data=ArrayPieces([rows.data]))
    assert repr(joined) == repr(rows)  # also those that are only to be written


@given(SIZES, st.integers(0, 4), st.integers(0, 4), st.integers(1, 5))
def test_some_columns_as_rows_are_those_of_the_whole_transposed(sizes, begin, n, block):
    csr, columns = rows_of_sizes(sizes), range(begin, min(4, begin + n))
    with patch.object(matrices, "_BLOCK", block):
        found = csr.transposed_columns(columns)
    wanted = csr.transposed().slice(columns.start, columns.stop)
    for own, other in zip(found.arrays, wanted.arrays, strict=True):
        assert np.array_equal(own, other)
        assert own.dtype == other.dtype
    assert found.n_cols == wanted.n_cols

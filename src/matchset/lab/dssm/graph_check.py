"""Graph check: can a saved HNSW graph be given to usearch, which trusts its bytes?

usearch's file is, little-endian: the number of rows and the bytes of each (uint32); the vectors; a
head of 64 bytes with the kinds of metric, scalar, key and slot; a header of five uint64; the level
of every node (int16); the nodes, one after another. A node is its key (uint64), its level (int16)
and for each level from 0 up the number of its neighbors and their slots (uint32). Everything that
usearch follows is checked here, so that a forged graph can be wrong, but leads nowhere else.
"""

from __future__ import annotations

import struct

import numpy as np
from numpy.typing import NDArray

from matchset.matrices import Ids

_SHAPE = struct.Struct("<II")  # rows, bytes per row
_HEAD = 64
_MAGIC = slice(0, 8)  # "usearch" and the low byte of the major version
_KINDS = slice(13, 17)
_COUNTS = struct.Struct("<QQQ?")  # present, deleted, dimensions, whether keys repeat
_COUNTS_AT = 17
_HEADER = struct.Struct("<QQQQQ")  # nodes, neighbors per level, on the lowest, top level, entry
_FIRST = 8 + 2  # bytes of a node before its neighbors
_AT_ONCE = 1 << 16  # nodes
_BF16_EXPONENT = 0x7F80  # all ones: infinity or not a number

Bytes = NDArray[np.uint8]


def check_graph(data: Bytes, empty: bytes, *, dtype: str, n_vectors: int, dimensions: int) -> Ids:
    """The keys of a graph; a ValueError unless usearch can read all of it safely.

    `empty` is an empty graph of the same settings, as this usearch writes it.
    """
    n_rows, row_bytes = _read(_SHAPE, data, 0)
    itemsize = {"f32": 4, "f16": 2, "bf16": 2, "i8": 1}[dtype]
    if (n_rows, row_bytes) != (n_vectors, dimensions * itemsize):
        raise ValueError(f"a graph must have {n_vectors} vectors of {dimensions}; got others")
    at = _SHAPE.size + n_rows * row_bytes
    if at + _HEAD + _HEADER.size > len(data):
        raise ValueError("a graph must have all its vectors; got fewer bytes")
    _check_vectors(data[_SHAPE.size : at], dtype)
    head, wanted = data[at : at + _HEAD].tobytes(), empty[_SHAPE.size : _SHAPE.size + _HEAD]
    if head[_MAGIC] != wanted[_MAGIC] or head[_KINDS] != wanted[_KINDS]:
        raise ValueError("a graph must be of the same usearch format and dtype; got another")
    if _COUNTS.unpack_from(head, _COUNTS_AT) != (n_vectors, 0, dimensions, False):
        raise ValueError(f"a graph must hold {n_vectors} vectors; got other counts")
    n_nodes, most, most_lowest, top, entry = _read(_HEADER, data, at + _HEAD)
    expected = _HEADER.unpack_from(empty, _SHAPE.size + _HEAD)
    if (n_nodes, most, most_lowest) != (n_vectors, *expected[1:3]):
        raise ValueError("a graph must have a node for each vector; got other settings")
    at += _HEAD + _HEADER.size
    if len(data) - at < (2 + _FIRST) * n_nodes:
        raise ValueError("a graph must have all its nodes; got fewer bytes")
    levels = data[at : at + 2 * n_nodes].view("<i2").astype(np.int64)
    if levels.min() < 0 or levels.max() != top or entry >= n_nodes or levels[entry] != top:
        raise ValueError("the entry of a graph must be on its top level; got another")
    return _check_nodes(data[at + 2 * n_nodes :], levels, most, most_lowest)


def _check_nodes(nodes: Bytes, levels: NDArray[np.int64], most: int, most_lowest: int) -> Ids:
    """The keys of the nodes."""
    lowest, upper = 4 + 4 * most_lowest, 4 + 4 * most  # bytes of the neighbors on a level
    sizes = _FIRST + lowest + levels * upper
    begins = np.cumsum(sizes) - sizes
    if sizes.sum() != len(nodes):
        raise ValueError(f"the nodes of a graph must have {sizes.sum()} bytes; got {len(nodes)}")
    keys = np.empty(len(levels), dtype=np.uint64)
    for first in range(0, len(levels), _AT_ONCE):
        some = slice(first, first + _AT_ONCE)
        starts = _gather(nodes, begins[some], _FIRST)
        keys[some] = starts[:, :8].copy().view("<u8")[:, 0]
        if not np.array_equal(starts[:, 8:].copy().view("<i2")[:, 0], levels[some]):
            raise ValueError("a node must have the level that the graph gives it; got another")
        for level in range(int(levels[some].max()) + 1):
            high = np.flatnonzero(levels[some] >= level) + first
            skipped = _FIRST if level == 0 else _FIRST + lowest + (level - 1) * upper
            size = lowest if level == 0 else upper
            listed = _gather(nodes, begins[high] + skipped, size).view("<u4")
            _check_neighbors(listed[:, 0], listed[:, 1:], levels, level)
    if keys.max() > np.iinfo(np.int32).max:
        raise ValueError("keys of a graph must be labels; got larger numbers")
    return keys.astype(np.int32)


def _check_neighbors(
    counts: NDArray[np.uint32], slots: NDArray[np.uint32], levels: NDArray[np.int64], level: int
) -> None:
    most = slots.shape[1]
    if counts.max() > most:
        raise ValueError(f"a node must have at most {most} neighbors; got {counts.max()}")
    followed = slots[np.arange(most) < counts[:, None]]
    if len(followed) and followed.max() >= len(levels):
        raise ValueError(f"neighbors must be below {len(levels)}; got {followed.max()}")
    if len(followed) and levels[followed].min() < level:
        raise ValueError("neighbors must be on the level that they are reached on; got a lower one")


def _check_vectors(data: Bytes, dtype: str) -> None:
    """Numbers that are not finite compare with nothing, which sorting relies on."""
    if dtype == "bf16":
        is_finite = (data.view("<u2") & _BF16_EXPONENT) != _BF16_EXPONENT
    elif dtype in ("f32", "f16"):
        is_finite = np.isfinite(data.view({"f32": "<f4", "f16": "<f2"}[dtype]))
    else:
        return
    if not is_finite.all():
        raise ValueError("vectors of a graph must be finite; got others")


def _gather(nodes: Bytes, begins: NDArray[np.int64], size: int) -> Bytes:
    """The bytes from each of some places on, (n_places, size)."""
    gathered: Bytes = nodes[begins[:, None] + np.arange(size)]
    return gathered


def _read(struct_: struct.Struct, data: Bytes, at: int) -> tuple[int, ...]:
    if at + struct_.size > len(data):
        raise ValueError(f"a graph must have at least {at + struct_.size} bytes; got {len(data)}")
    return struct_.unpack(data[at : at + struct_.size].tobytes())

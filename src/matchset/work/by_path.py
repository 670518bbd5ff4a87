"""By path: how does a task reach another process without its arrays?

An array that is mapped from a file is pickled as the place of its bytes in that file, and mapped
again by who reads it. So a task is small, and machines need nothing in common but a disk.
"""

from __future__ import annotations

import io
import pickle
from typing import Any

import numpy as np
from numpy.typing import NDArray

SMALL, MOST = 1 << 14, 1 << 20  # bytes of an array that is copied in any case, or not mapped


def dumps(value: object) -> bytes:
    """Pickle a value; `pickle.loads` maps its arrays again."""
    buffer = io.BytesIO()
    _Pickler(buffer, protocol=pickle.HIGHEST_PROTOCOL).dump(value)
    return buffer.getvalue()


class _Pickler(pickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        if not isinstance(value, np.ndarray) or value.nbytes < SMALL:
            return NotImplemented
        place = _find_place(value)
        if place is not None:
            return map_array, (*place, value.dtype.str, value.shape)
        if value.nbytes > MOST:
            raise TypeError(f"a task must get large arrays mapped; got {value.nbytes:,} bytes")
        return NotImplemented


def map_array(file: str, offset: int, dtype: str, shape: tuple[int, ...]) -> NDArray[Any]:
    """Map an array from its place in a file."""
    return np.memmap(file, dtype=dtype, mode="r", offset=offset, shape=shape)


def _find_place(array: NDArray[Any]) -> tuple[str, int] | None:
    """Return the file that holds an array, and where it begins in it; None: not mapped as such."""
    root: Any = array
    while isinstance(root.base, np.ndarray):
        root = root.base
    if not isinstance(root, np.memmap) or root.filename is None or not array.flags.c_contiguous:
        return None
    return str(root.filename), root.offset + array.ctypes.data - root.ctypes.data

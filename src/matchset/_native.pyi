"""Kernels of matchset: plain arrays in, plain arrays out."""

from typing import Annotated, Any

import numpy
import numpy.typing
from numpy.typing import NDArray

def pack_strings(
    texts: object, what: str
) -> tuple[
    Annotated[NDArray[numpy.uint8], dict(shape=(None,))],
    Annotated[NDArray[numpy.int64], dict(shape=(None,))],
]:
    """
    Copy a sequence of str into one UTF-8 buffer with offsets; `what` names it in errors.
    """

def group_strings(
    data: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", writable=False)],
    offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", writable=False)],
) -> tuple[
    Annotated[NDArray[numpy.int32], dict(shape=(None,))],
    Annotated[NDArray[numpy.int64], dict(shape=(None,))],
]:
    """
    Group of each string, numbered by first appearance, and the place of each group's first string.
    """

def find_strings(
    data: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", writable=False)],
    offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", writable=False)],
    wanted_data: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", writable=False)],
    wanted_offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", writable=False)],
) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]:
    """
    Place of each wanted string among distinct strings, -1 where it is not there.
    """

def take_strings(
    data: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", writable=False)],
    offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", writable=False)],
    places: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", writable=False)],
) -> tuple[
    Annotated[NDArray[numpy.uint8], dict(shape=(None,))],
    Annotated[NDArray[numpy.int64], dict(shape=(None,))],
]:
    """The strings at places, in that order."""

def sort_strings(
    data: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", writable=False)],
    offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", writable=False)],
) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]:
    """
    Places of the strings in ascending order of their bytes, equal ones by place.
    """

def read_arrow_stream(
    capsule: object, coded: list[str]
) -> list[tuple[str, Any, numpy.typing.NDArray[numpy.uint8]]]:
    """
    Read an Arrow C stream to its end: (name, values, nulls) of each column; nulls is empty where none is.
    Texts come as (data, offsets), or as (codes, data, offsets) for the columns named in coded.
    """

class SharedArrowStream:
    """An Arrow C stream that can be opened several times and read once."""

    def __init__(self, capsule: object) -> None: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

def export_arrow_table(columns: list[tuple[str, str, Any, Any, Any]], n_rows: int) -> object:
    """
    A capsule of an Arrow C stream of one batch that borrows the arrays of its columns, each
    (name, format, valid bits or None, values or None, (data, offsets) of its texts or None).
    """

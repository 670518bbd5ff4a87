"""Kernels of matchset: plain arrays in, plain arrays out."""

from typing import Annotated

import numpy
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

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

def unicode_version() -> str:
    """Version of the Unicode tables compiled in."""

def normalize(
    data: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", writable=False)],
    offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", writable=False)],
    threads: int,
) -> tuple[
    Annotated[NDArray[numpy.uint8], dict(shape=(None,))],
    Annotated[NDArray[numpy.int64], dict(shape=(None,))],
]:
    """Normalised form of each text."""

"""Storing: how do the parts that matchers share lie in a folder?

Each part is a header of plain values and named arrays; parts are joined into one under their names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matchset.data.catalog import Column
from matchset.errors import ModelFileError
from matchset.features.vectorizer import Vectorizer
from matchset.folders import open_folder, write_folder
from matchset.matrices import Csr
from matchset.model.products import Products
from matchset.strings import Strings

_VECTORIZER = "vectorizer"  # a folder within the folder
_KINDS = {"text": np.int32, "number": np.float64, "boolean": np.int8, "date": np.int32}


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """Values and arrays that are stored under a common name."""

    header: dict[str, Any] = field(default_factory=dict)
    arrays: dict[str, NDArray[Any]] = field(default_factory=dict)

    def get(self, name: str) -> Part:
        """The part that was joined under a name."""
        start = f"{name}_"
        arrays = {
            key.removeprefix(start): array
            for key, array in self.arrays.items()
            if key.startswith(start)
        }
        return Part(self.header[name], arrays)


def join_parts(parts: Mapping[str, Part], header: Mapping[str, Any] | None = None) -> Part:
    """One part of several, with values of its own."""
    headers = {name: part.header for name, part in parts.items()}
    arrays = {
        f"{name}_{key}": array for name, part in parts.items() for key, array in part.arrays.items()
    }
    return Part({**(header or {}), **headers}, arrays)


def write_matcher(
    path: str | Path, kind: str, parts: Mapping[str, Part], vectorizer: Vectorizer | None = None
) -> None:
    """Write a new folder with a matcher's parts and, inside it, its vectorizer's folder."""
    whole = join_parts(parts)
    write_folder(Path(path), kind, header=whole.header, arrays=whole.arrays)
    if vectorizer is not None:
        vectorizer.save(Path(path) / _VECTORIZER)


def open_matcher(path: str | Path, kind: str) -> Part:
    """The parts of a matcher, memory-mapped."""
    return Part(*open_folder(Path(path), kind))


def open_vectorizer(path: str | Path) -> Vectorizer:
    """The vectorizer of a matcher."""
    return Vectorizer.load(Path(path) / _VECTORIZER)


def damaged(path: str | Path, error: Exception) -> ModelFileError:
    """What to raise where the parts of a folder do not fit."""
    found = f"no {error}" if isinstance(error, KeyError) else str(error)
    return ModelFileError(f"{path}: damaged: {found}")


def store_strings(texts: Strings) -> Part:
    """Texts as a part."""
    return Part(arrays={"bytes": texts.used, "offsets": texts.offsets - texts.offsets[0]})


def read_strings(part: Part) -> Strings:
    """Texts of a part; offsets must lie within the bytes."""
    data, offsets = part.arrays["bytes"], part.arrays["offsets"]
    check(data.dtype == np.uint8 and offsets.dtype == np.int64, "texts are bytes with offsets")
    check(len(offsets) > 0 and offsets[0] == 0, "offsets start with 0")
    check(offsets[-1] == len(data) and bool(np.all(np.diff(offsets) >= 0)), "offsets ascend")
    return Strings(data, offsets)


def store_csr(matrix: Csr) -> Part:
    """A sparse matrix as a part."""
    names = ("offsets", "columns", "values")
    return Part({"width": matrix.width}, dict(zip(names, matrix.arrays, strict=True)))


def read_csr(part: Part) -> Csr:
    """A sparse matrix of a part; kernels check rows when they touch them."""
    offsets, columns, values = (part.arrays[name] for name in ("offsets", "columns", "values"))
    check(offsets.dtype == np.int64 and columns.dtype == np.int32, "offsets and columns are ids")
    check(values.dtype == np.float32 and len(values) == len(columns), "each column has a value")
    check(len(offsets) > 0 and offsets[0] == 0 and offsets[-1] == len(columns), "offsets fit")
    return Csr(offsets, columns, values, int(part.header["width"]))


def store_products(products: Products) -> Part:
    """Product ids, titles and attributes as a part."""
    parts = {"ids": store_strings(products.ids)}
    if products.titles is not None:
        parts["titles"] = store_strings(products.titles)
    for place, column in enumerate(products.attributes.values()):
        parts[f"attribute{place}"] = Part(arrays={"values": column.values})
        if column.categories is not None:
            parts[f"categories{place}"] = store_strings(column.categories)
    kinds = [[name, column.kind] for name, column in products.attributes.items()]
    header = {"has_titles": products.titles is not None, "attributes": kinds}
    return join_parts(parts, header)


def read_products(part: Part) -> Products:
    """Products of a part; titles and attributes must be as many as ids."""
    ids = read_strings(part.get("ids"))
    titles = read_strings(part.get("titles")) if part.header["has_titles"] else None
    check(titles is None or len(titles) == len(ids), "each product has a title")
    attributes = {}
    for place, (name, kind) in enumerate(part.header["attributes"]):
        values = part.get(f"attribute{place}").arrays["values"]
        check(values.shape == (len(ids),), f"each product has an attribute {name!r}")
        check(values.dtype == _KINDS[kind], f"attribute {name!r} is a {kind}")
        categories = read_strings(part.get(f"categories{place}")) if kind == "text" else None
        if categories is not None and len(values):
            fits = values.min() >= -1 and values.max() < len(categories)
            check(bool(fits), f"attribute {name!r} is of its categories")
        attributes[name] = Column(kind, values, categories)
    return Products(ids, titles, attributes)


def check(holds: bool, rule: str) -> None:
    """Raise a ValueError, which loading turns into a ModelFileError, unless a rule holds."""
    if not holds:
        raise ValueError(f"{rule}; got something else")

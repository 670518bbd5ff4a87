"""Files: how do trees and products lie in a model folder?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matchset.data.catalog import Column
from matchset.model.packed import PackedTree
from matchset.model.products import Products
from matchset.parts import Part, read_strings, store_strings, under

COLUMN_TYPES = {"text": np.int32, "number": np.float64, "boolean": np.int8, "date": np.int32}


def store_tree(tree: PackedTree) -> Part:
    """A packed tree as a part."""
    header = {
        "sizes": tree.sizes,
        "n_features": tree.n_features,
        "n_labels": tree.n_labels,
        "n_weights": tree.n_weights,
        "precision": tree.precision,
    }
    names = ("labels", "first_block", "blocks", "data")
    return Part(header, {name: getattr(tree, name) for name in names})


def read_tree(part: Part) -> PackedTree:
    """A packed tree from its part: offsets of nodes and blocks are checked."""
    header, arrays = part.header, part.arrays
    return PackedTree(
        labels=arrays["labels"],
        first_block=arrays["first_block"],
        blocks=arrays["blocks"],
        data=arrays["data"],
        sizes=tuple(map(int, header["sizes"])),
        n_features=int(header["n_features"]),
        n_labels=int(header["n_labels"]),
        n_weights=int(header["n_weights"]),
        precision=header["precision"],
    )


def store_products(products: Products) -> Part:
    """Product ids, titles and attributes as a part."""
    arrays = under("ids", store_strings(products.ids))
    if products.titles is not None:
        arrays |= under("titles", store_strings(products.titles))
    columns = []
    for number, (name, column) in enumerate(products.attributes.items()):
        columns.append({"name": name, "kind": column.kind})
        arrays[f"column{number}.values"] = column.values
        if column.categories is not None:
            arrays |= under(f"column{number}.categories", store_strings(column.categories))
    return Part({"has_titles": products.titles is not None, "columns": columns}, arrays)


def read_products(part: Part) -> Products:
    """Products from their part; every array must have one entry per product."""
    ids = read_strings(part.within("ids"))
    titles = read_strings(part.within("titles")) if part.header["has_titles"] else None
    columns = {
        str(stored["name"]): _read_column(stored["kind"], part.within(f"column{number}"))
        for number, stored in enumerate(part.header["columns"])
    }
    lengths = {len(column.values) for column in columns.values()}
    lengths |= {len(ids)} if titles is None else {len(ids), len(titles)}
    if len(lengths) > 1:
        raise ValueError(f"titles and attributes must be as many as ids; got {sorted(lengths)}")
    return Products(ids, titles, columns)


def _read_column(kind: str, arrays: Mapping[str, NDArray[Any]]) -> Column:
    values = arrays["values"]
    if values.dtype != COLUMN_TYPES[kind] or values.ndim != 1:
        raise ValueError(f"{kind} attributes must be {COLUMN_TYPES[kind]}; got {values.dtype}")
    if kind != "text":
        return Column(kind, values)  # type: ignore[arg-type]  # a key of COLUMN_TYPES
    categories = read_strings(Part(arrays=arrays).within("categories"))
    return Column("text", values, categories)

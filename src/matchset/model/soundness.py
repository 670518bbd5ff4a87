"""Soundness: do the rows of a model stay within it?

Opening a model takes milliseconds, as rows are checked where a query comes across them. So a file
with right checksums and wrong rows would answer most queries and fail the others. A server, which
reads every byte of a new model anyhow, reads every row here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import singledispatch
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matchset.data.catalog import Column
from matchset.features.vectorizer import Vectorizer
from matchset.matrices import Csr
from matchset.model.heirs import Heirs
from matchset.model.impact_lists import ImpactLists
from matchset.model.inverted_lists import InvertedLists
from matchset.model.lexical import LexicalIndex
from matchset.model.match_set_model import MatchSetModel
from matchset.model.neighbors import PastQueries
from matchset.model.packed import PackedTree
from matchset.model.towers import TowerIndex
from matchset.storage.codec import join_path
from matchset.strings import Strings

_MADE = ("added", "fresh", "native")


@singledispatch
def check_rows(value: object, at: str = "") -> None:
    """Raise a ValueError that names the field where rows of a value, or of its parts, lead out.

    What was made of products that came after the training is made again, and not checked.
    """
    if hasattr(value, "to_stored"):  # as the codec keeps it
        check_rows(value.to_stored(), at)
    elif is_dataclass(value):
        _check_parts(value, at)
    elif isinstance(value, Mapping):
        for name, part in value.items():
            check_rows(part, join_path(at, name))
    elif isinstance(value, tuple | list):
        for number, part in enumerate(value):
            check_rows(part, join_path(at, number))


@check_rows.register
def _(vectorizer: Vectorizer, at: str) -> None:
    check_rows(vectorizer.vocabulary, at)


@check_rows.register
def _(texts: Strings, at: str) -> None:
    _require_ascending(texts.offsets, len(texts.data), at)


@check_rows.register
def _(rows: Csr, at: str) -> None:
    _require_ascending(rows.indptr, len(rows.indices), f"{at}.indptr")
    _require_within(rows.indices, rows.n_cols, f"{at}.indices")


@check_rows.register
def _(lists: ImpactLists, at: str) -> None:
    _require_ascending(lists.offsets, len(lists.ids), f"{at}.offsets")


@check_rows.register
def _(column: Column, at: str) -> None:
    if column.categories is not None:
        check_rows(column.categories, f"{at}.categories")
        _require_within(column.values, len(column.categories), f"{at}.values", least=-1)


@check_rows.register
def _(tree: PackedTree, at: str) -> None:
    _require_within(tree.labels, tree.n_labels, f"{at}.labels")
    for level, n_parents in enumerate((1, *tree.sizes[:-1])):
        for parent in range(n_parents):
            _ = tree.native.unpack_parent(level, parent)


@check_rows.register
def _(index: LexicalIndex, at: str) -> None:
    _check_parts(index, at)
    _require_within(index.row_of, len(index.words_of), f"{at}.row_of")
    _require_within(index.titles_of.ids, len(index.row_of), f"{at}.titles_of.ids")
    _require_within(index.words_of.ids, len(index.titles_of), f"{at}.words_of.ids")


@check_rows.register
def _(lists: InvertedLists, at: str) -> None:
    _require_ascending(lists.group_offsets, lists.n_lists, f"{at}.group_offsets")
    _require_ascending(lists.list_offsets, len(lists.labels), f"{at}.list_offsets")
    _require_within(lists.labels, lists.n_labels, f"{at}.labels")


@check_rows.register
def _(towers: TowerIndex, at: str) -> None:
    _check_parts(towers, at)
    _require_within(towers.row_of, len(towers.table), f"{at}.row_of", least=-1)
    _require_within(towers.position_of, len(towers.lists.labels), f"{at}.position_of", least=-1)


@check_rows.register
def _(past: PastQueries, at: str) -> None:
    _check_parts(past, at)
    _require_ascending(past.offsets, len(past.products), f"{at}.offsets")
    _require_within(past.by_hash, len(past), f"{at}.by_hash")
    _require_within(past.queries_of.ids, len(past), f"{at}.queries_of.ids")


@check_rows.register
def _(model: MatchSetModel, at: str) -> None:
    _check_parts(model, at)
    n = len(model.popularity)
    if model.neighbors is not None:
        _require_within(model.neighbors.products, n, f"{at}.neighbors.products")
    if isinstance(model.heirs, Heirs):
        _require_within(model.heirs.labels, n, f"{at}.heirs.labels")
        _require_within(model.heirs.lenders, n, f"{at}.heirs.lenders", least=-1)


def _check_parts(value: Any, at: str) -> None:
    for field in fields(value):
        if field.init and field.name not in _MADE:
            check_rows(getattr(value, field.name), join_path(at, field.name))


def _require_ascending(offsets: NDArray[np.integer], end: int, at: str) -> None:
    is_right = len(offsets) > 0 and offsets[0] == 0 and offsets[-1] == end
    if not is_right or (offsets[1:] < offsets[:-1]).any():
        raise ValueError(f"{at} must ascend from 0 to {end:,}")


def _require_within(ids: NDArray[np.integer], n: int, at: str, *, least: int = 0) -> None:
    if len(ids) and not least <= int(ids.min()) <= int(ids.max()) < n:
        found = f"got {ids.min()} to {ids.max()}"
        raise ValueError(f"{at} must be from {least} to below {n:,}; {found}")

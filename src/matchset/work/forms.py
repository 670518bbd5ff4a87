"""Forms: how does a value become arrays and a header, and come back as it was?

A value may be a number, a text, an array, and any tuple, mapping or dataclass of such. Of classes,
only those known here are made again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from matchset.config import NGrams, VectorizerConfig
from matchset.data.catalog import Catalog, CatalogReport, Column
from matchset.data.events import EventRule
from matchset.data.log import Log
from matchset.data.positives import Positives
from matchset.data.read_report import ReadReport
from matchset.features.ngram_counts import NGramCounts
from matchset.features.stems import Stems, WordList
from matchset.features.vectorizer import Vectorizer
from matchset.features.vocabulary import Vocabulary
from matchset.matrices import Csr, from_scipy
from matchset.model.impact_lists import ImpactLists
from matchset.model.inverted_lists import ByteVectors, InvertedLists
from matchset.model.lexical import LexicalIndex
from matchset.model.neighbors import PastQueries
from matchset.model.packed import PackedTree
from matchset.model.products import Products
from matchset.model.reranker import Calibration, Reranker
from matchset.model.towers import TowerIndex
from matchset.model.tree import LabelTree, LayerWeights
from matchset.storage.folders import ArrayPieces
from matchset.strings import Strings

Arrays = dict[str, NDArray[Any] | ArrayPieces]
T = TypeVar("T")
_CLASSES: dict[str, type] = {
    kind.__name__: kind
    for kind in (
        ByteVectors, Calibration, Catalog, CatalogReport, Column, Csr, EventRule, ImpactLists,
        InvertedLists, LabelTree, LayerWeights, LexicalIndex, Log, NGramCounts, NGrams, PackedTree,
        PastQueries, Positives, Products, ReadReport, Reranker, Stems, TowerIndex, VectorizerConfig,
        Vocabulary, WordList,
    )
}  # fmt: skip
# Classes that are no dataclasses of their contents: how each becomes one, and comes back.
_OTHERS: dict[str, tuple[type, Callable[[Any], Any], Callable[[Any], Any]]] = {
    "Vectorizer": (Vectorizer, lambda made: made.vocabulary, Vectorizer.of),
    "Strings": (
        Strings,
        lambda texts: (texts.used, texts.offsets - texts.offsets[0]),
        lambda stored: Strings(*stored),
    ),
    "csr_array": (csr_array, from_scipy, lambda stored: stored.to_scipy()),
}


def keepable(kind: type[T]) -> type[T]:
    """Let a dataclass of another room be part of a result."""
    if kind.__name__ in _CLASSES:
        raise TypeError(f"classes of results must have distinct names; got {kind.__name__} twice")
    _CLASSES[kind.__name__] = kind
    return kind


def encode(values: Mapping[str, Any]) -> tuple[dict[str, Any], Arrays]:
    """Values by name as a header and arrays."""
    arrays: Arrays = {}
    return {"values": {name: _encode(value, arrays) for name, value in values.items()}}, arrays


def decode(header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], name: str) -> Any:
    """One of the values."""
    return _decode(header["values"][name], arrays)


def _encode(value: Any, arrays: Arrays) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray | ArrayPieces):
        name = f"array{len(arrays)}"
        arrays[name] = value
        return {"array": name}
    if isinstance(value, tuple | list):
        kind = "tuple" if isinstance(value, tuple) else "list"
        return {kind: [_encode(item, arrays) for item in value]}
    if isinstance(value, Mapping):
        return {"mapping": [[key, _encode(item, arrays)] for key, item in value.items()]}
    for other, (known, take_apart, _) in _OTHERS.items():
        if isinstance(value, known):
            return {"class": other, "value": _encode(take_apart(value), arrays)}
    if not is_dataclass(value) or _CLASSES.get(type(value).__name__) is not type(value):
        raise TypeError(f"a result must be of arrays and known classes; got {type(value)}")
    stored = {f.name: _encode(getattr(value, f.name), arrays) for f in fields(value) if f.init}
    return {"class": type(value).__name__, "fields": stored}


def _decode(stored: Any, arrays: Mapping[str, NDArray[Any]]) -> Any:
    if not isinstance(stored, dict):
        return stored
    if "array" in stored:
        return np.asarray(arrays[stored["array"]])
    if "tuple" in stored:
        return tuple(_decode(item, arrays) for item in stored["tuple"])
    if "list" in stored:
        return [_decode(item, arrays) for item in stored["list"]]
    if "mapping" in stored:
        return {key: _decode(item, arrays) for key, item in stored["mapping"]}
    if stored["class"] in _OTHERS:
        return _OTHERS[stored["class"]][2](_decode(stored["value"], arrays))
    kind = _CLASSES[stored["class"]]
    return kind(**{name: _decode(item, arrays) for name, item in stored["fields"].items()})

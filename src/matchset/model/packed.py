"""Packed tree: how is a model stored compactly, mapped from disk, and searched in microseconds?

native/packed.hpp describes the layout of the bytes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from matchset import _native
from matchset.config import Precision
from matchset.matrices import Csr, Floats, Ids, Offsets, offsets_of
from matchset.model.tree import LabelTree, LayerPart, LayerWeights, TreeModel
from matchset.storage.codec import Picklable
from matchset.strings import Strings

# First block of each parent and the end, blocks, data.
PackedArrays = tuple[NDArray[np.uint32], NDArray[np.uint8], NDArray[np.uint8]]
_ALIGN = 64  # bytes: every block starts at a multiple
WEIGHT_BYTES: dict[Precision, int] = {"int8": 1, "float32": 4}


@dataclass(frozen=True, slots=True, eq=False)
class PackedTree(Picklable):
    """A model in the form that is searched and saved.

    The arrays may be memory-mapped and are never trusted: the constructor checks that every block
    is inside the data and every node has one parent; the contents of a block are checked or clamped
    when they are read. Any number of threads may search at once.
    """

    labels: Ids  # label at each leaf position, (n_positions,)
    first_block: NDArray[np.uint32]  # of each parent, level by level, and the end, (n_parents + 1,)
    blocks: NDArray[np.uint8]  # 12 bytes a block, and the end
    data: NDArray[np.uint8]
    sizes: tuple[int, ...]  # nodes below the root per level; the last are the leaf positions
    n_features: int
    n_labels: int
    n_weights: int
    precision: Precision
    native: _native.PackedTree = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.precision not in WEIGHT_BYTES:
            raise ValueError(f"precision must be 'int8' or 'float32'; got {self.precision!r}")
        native = _native.PackedTree(
            self.first_block,
            self.blocks,
            self.data,
            self.labels,
            sizes=list(self.sizes),
            n_features=self.n_features,
            n_labels=self.n_labels,
            weight_bytes=WEIGHT_BYTES[self.precision],
        )
        object.__setattr__(self, "native", native)

    @property
    def n_bytes(self) -> int:
        """Size of tree, weights and index."""
        return sum(a.nbytes for a in (self.labels, self.first_block, self.blocks, self.data))

    def allow(self, is_allowed: NDArray[np.bool_]) -> _native.Allowed:
        """Return a filter from one boolean per label, (n_labels,), for any number of searches."""
        return self.native.allow(np.ascontiguousarray(is_allowed, dtype=np.bool_))

    def search_text(
        self,
        vocabulary: _native.Vocabulary,
        text: str,
        rule: _native.SearchRule,
        allowed: _native.Allowed | None = None,
    ) -> tuple[Ids, Floats]:
        """Labels and scores of one text, best first; none where no n-gram is known."""
        return self.native.search_text(vocabulary, text, rule, allowed)

    def search_texts(
        self,
        vocabulary: _native.Vocabulary,
        texts: Strings,
        rule: _native.SearchRule,
        allowed: _native.Allowed | None = None,
        *,
        threads: int = 1,
    ) -> Csr:
        """Labels and scores of each text, best first."""
        found = self.native.search_texts(
            vocabulary, texts.data, texts.offsets, rule, allowed, threads=threads
        )
        return Csr(*found, self.n_labels)

    def search_row(
        self,
        ids: Ids,
        values: Floats,
        rule: _native.SearchRule,
        allowed: _native.Allowed | None = None,
    ) -> tuple[Ids, Floats]:
        """Labels and scores of one sparse vector, best first."""
        return self.native.search_row(ids, values, rule, allowed)

    def search_rows(
        self,
        X: Csr,
        rule: _native.SearchRule,
        allowed: _native.Allowed | None = None,
        *,
        threads: int = 1,
    ) -> Csr:
        """Labels and scores of each row of X, best first."""
        if X.n_cols != self.n_features:
            raise ValueError(f"X must have {self.n_features} features; got {X.n_cols}")
        found = self.native.search_rows(X.arrays, rule, allowed, threads=threads)
        return Csr(*found, self.n_labels)


def pack(model: TreeModel, *, precision: Precision = "int8", threads: int = 1) -> PackedTree:
    """Return the packed form of a trained model; float32 preserves its weights exactly."""
    return pack_layers(
        model.tree, [[layer.part] for layer in model.layers], model.n_features, model.n_labels,
        precision=precision, threads=threads,
    )  # fmt: skip


def pack_layers(
    tree: LabelTree,
    layers: Sequence[Sequence[LayerPart]],
    n_features: int,
    n_labels: int,
    *,
    precision: Precision,
    threads: int,
) -> PackedTree:
    """Return the packed form of a tree, or of its top with the nodes of the last level as labels.

    The parts of a layer have its parents one after another.
    """
    arrays = list(zip(tree.offsets, layers, strict=True))
    packed = pack_parents(arrays, n_features, precision=precision, threads=threads)
    n_weights = sum(len(weights) for parts in layers for *_, weights, _ in parts)
    return PackedTree(
        tree.labels, *packed, tree.sizes, n_features, n_labels, n_weights, precision
    )  # fmt: skip


def pack_parents(
    layers: Sequence[tuple[Offsets, Sequence[LayerPart]]],
    n_features: int,
    *,
    is_whole: bool = True,
    precision: Precision,
    threads: int,
) -> PackedArrays:
    """Parents of some layers in packed form: of a whole tree, or of any ranges of its parents.

    Each layer is given by the first child of each parent and the end, and by their weights.
    """
    return _native.pack_layers(
        [(first, list(parts)) for first, parts in layers],
        n_features,
        weight_bytes=WEIGHT_BYTES[precision],
        is_whole=is_whole,
        threads=threads,
    )


def join_packed(parts: Sequence[PackedArrays]) -> PackedArrays:
    """Packed parents, one part after another: what packing all of them at once gives."""
    firsts, blocks, data = [], [], []
    n_blocks = n_units = 0
    for first_block, block_bytes, bytes_of in parts:
        rows = block_bytes.view(np.uint32).reshape(-1, 3)  # the offset comes first
        end = int(rows[-1, 0])  # in units of the alignment, before the slack
        moved = rows.astype(np.int64)
        moved[:, 0] += n_units
        firsts.append(first_block[:-1].astype(np.int64) + n_blocks)
        blocks.append(moved[:-1])
        data.append(bytes_of[: end * _ALIGN])
        n_blocks, n_units = n_blocks + len(rows) - 1, n_units + end
    if n_units >= 2**32:
        raise ValueError("a packed tree must take less than 256 GiB")
    firsts.append(np.array([n_blocks]))
    blocks.append(moved[-1:])
    data.append(bytes_of[end * _ALIGN :])
    return (
        np.concatenate(firsts).astype(np.uint32),
        np.concatenate(blocks).astype(np.uint32).reshape(-1).view(np.uint8),
        np.concatenate(data),
    )


def count_weights(packed: PackedTree) -> tuple[int, ...]:
    """Weights of each layer."""
    return tuple(
        sum(len(packed.native.unpack_parent(level, parent)[3]) for parent in range(n_parents))
        for level, n_parents in enumerate((1, *packed.sizes[:-1]))
    )


def unpack(packed: PackedTree) -> TreeModel:
    """Return the model in a packed tree: exact for float32, else with the quantized weights."""
    offsets, layers = [], []
    for level in range(len(packed.sizes)):
        n_parents = 1 if level == 0 else packed.sizes[level - 1]
        parents = [packed.native.unpack_parent(level, parent) for parent in range(n_parents)]
        features, first_entries, children, weights, bias = zip(*parents, strict=True)
        offsets.append(offsets_of([len(part) for part in bias]))
        n_entries = np.concatenate([np.diff(part) for part in first_entries])
        layers.append(
            LayerWeights(
                offsets_of([len(part) for part in features]),
                np.concatenate(features),
                offsets_of(n_entries),
                np.concatenate(children),
                np.concatenate(weights),
                np.concatenate(bias),
            )
        )
    tree = LabelTree(packed.labels, tuple(offsets))
    return TreeModel(tree, tuple(layers), packed.n_features, packed.n_labels)


def prune(model: TreeModel, threshold: float) -> TreeModel:
    """Return the model without weights of magnitude up to `threshold`.

    With exact weights, it is as if trained with it; 8-bit ones were rounded before.
    """
    if not (threshold >= 0 and math.isfinite(threshold)):
        raise ValueError(f"threshold must be zero or positive, and finite; got {threshold}")
    largest = max((float(np.abs(each.weights).max(initial=0)) for each in model.layers), default=0)
    if 0 < largest <= threshold:
        rule = f"threshold must be below the largest weight's magnitude, {largest:.4g}"
        raise ValueError(f"{rule}, or none is left; got {threshold}")
    layers = tuple(_prune_layer(layer, threshold) for layer in model.layers)
    return TreeModel(model.tree, layers, model.n_features, model.n_labels)


def prune_packed(packed: PackedTree, threshold: float, *, threads: int = 1) -> PackedTree:
    """Return a packed tree without its small weights, in the same precision."""
    return pack(prune(unpack(packed), threshold), precision=packed.precision, threads=threads)


def _prune_layer(layer: LayerWeights, threshold: float) -> LayerWeights:
    is_kept = np.abs(layer.weights) > threshold
    n_entries = np.diff(offsets_of(is_kept)[layer.entry_offsets])  # of each row
    has_entry = n_entries > 0
    return LayerWeights(
        offsets_of(has_entry)[layer.row_offsets],
        layer.features[has_entry],
        offsets_of(n_entries[has_entry]),
        layer.children[is_kept],
        layer.weights[is_kept],
        layer.bias,
    )

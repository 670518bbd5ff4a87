"""Packed trees hold what was packed, and no damage makes them do harm."""

from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from search_oracles import random_model, random_rows

from matchset import _native
from matchset.model.packed import (
    PackedTree,
    pack,
    pack_layers,
    prune,
    prune_packed,
    unpack,
)
from matchset.model.search import search_rule
from matchset.storage.codec import decode, encode
from matchset.storage.file import open_file, write_file

LAYER = ("row_offsets", "features", "entry_offsets", "children", "weights", "bias")
shapes = st.lists(st.sampled_from([1, 2, 5, 9, 40]), min_size=1, max_size=3)


def assert_same_layers(left, right):
    for ours, theirs in zip(left.layers, right.layers, strict=True):
        for name in LAYER:
            np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name), name)


@given(st.integers(0, 2**32 - 1), shapes, st.sampled_from([1, 40, 5000]))
def test_float32_comes_back_exactly(seed, splits, n_features):
    model = random_model(seed, splits=splits, n_features=min(n_features, 60))
    wide = type(model)(model.tree, model.layers, n_features, model.n_labels)
    back = unpack(pack(wide if n_features > 60 else model, precision="float32"))
    assert_same_layers(back, model)
    assert all(map(np.array_equal, back.tree.offsets, model.tree.offsets))


def test_wide_nodes_come_back_exactly():
    model = random_model(1, splits=(2, 900), n_features=30)
    assert_same_layers(unpack(pack(model, precision="float32")), model)


@given(st.integers(0, 2**32 - 1))
def test_8_bit_weights_are_within_a_step_of_their_child(seed):
    model = random_model(seed, splits=(5, 30))
    back = unpack(pack(model, precision="int8"))
    largest = max(abs(layer.weights).max(initial=0) for layer in model.layers)
    for ours, theirs in zip(back.layers, model.layers, strict=True):
        dropped = len(theirs.weights) - len(ours.weights)
        assert dropped == 0  # weights in steps of 1/8 up to 3 do not round to zero
        assert abs(ours.weights - theirs.weights).max(initial=0) <= largest / 127


def test_packing_is_the_same_in_threads():
    model = random_model(2, splits=(9, 9, 9))
    one, three = pack(model), pack(model, threads=3)
    assert one.data.tobytes() == three.data.tobytes()
    assert one.blocks.tobytes() == three.blocks.tobytes()


def pack_parts(model, layers, threads=1):
    return pack_layers(
        model.tree, layers, model.n_features, model.n_labels, precision="int8", threads=threads
    )


def cut_part(part, first_child, at):
    """The parents of a part before one of them, and the others."""
    n_rows, features, n_entries, children, weights, bias = part
    row, child = n_rows[:at].sum(), first_child[at]
    entry = n_entries[:row].sum()
    first = (n_rows[:at], features[:row], n_entries[:row], children[:entry], weights[:entry])
    rest = (n_rows[at:], features[row:], n_entries[row:], children[entry:], weights[entry:])
    return [(*first, bias[:child]), (*rest, bias[child:])]


@pytest.mark.parametrize("threads", [1, 2, 7])
def test_layers_in_parts_are_packed_to_the_same_bytes(threads):
    model = random_model(2, splits=(9, 9, 9))
    whole = [layer.part for layer in model.layers]
    layers = [
        cut_part(part, first_child, len(first_child) // 3)
        for part, first_child in zip(whole, model.tree.offsets, strict=True)
    ]
    one, many = pack(model), pack_parts(model, layers, threads)
    for name in ("first_block", "blocks", "data"):
        assert getattr(one, name).tobytes() == getattr(many, name).tobytes(), name


def test_parts_that_do_not_fit_are_refused():
    model = random_model(2, splits=(9, 9))
    root, (n_rows, features, n_entries, *rest) = (layer.part for layer in model.layers)
    with pytest.raises(ValueError, match="as many parents as the one above has nodes"):
        pack_parts(model, [[root], [(n_rows[1:], features, n_entries, *rest)]])
    with pytest.raises(ValueError, match="counts of a layer must sum to"):
        pack_parts(model, [[root], [(n_rows, features, n_entries - 1, *rest)]])
    with pytest.raises(ValueError, match="must not be negative or too large; got -"):
        pack_parts(model, [[root], [(-n_rows, features, n_entries, *rest)]])
    with pytest.raises(ValueError, match="one child and one weight each"):
        pack_parts(model, [[root], [(n_rows, features, np.pad(n_entries, (0, 1)), *rest)]])
    with pytest.raises(ValueError, match="a bias for each child"):
        pack_parts(model, [[root], [(n_rows, features, n_entries, *rest[:2], rest[2][1:])]])


@pytest.mark.parametrize("begin", [-1, 2**31, 2**63 - 1])
def test_parents_whose_children_are_beyond_any_layer_are_refused(begin):
    model = random_model(2, splits=(9, 9))
    first_child = np.array([begin, begin], dtype=np.int64)
    with pytest.raises(ValueError, match=f"must begin with 0, or inside the layer; got {begin}"):
        _native.pack_layers(
            [(first_child, [model.layers[0].part])], model.n_features,
            weight_bytes=1, is_whole=False, threads=1,
        )  # fmt: skip


def test_pruning_drops_small_weights_and_empty_rows():
    model = random_model(3)
    pruned = prune(model, 1.0)
    for ours, theirs in zip(pruned.layers, model.layers, strict=True):
        is_kept = abs(theirs.weights) > 1
        np.testing.assert_array_equal(ours.weights, theirs.weights[is_kept])
        np.testing.assert_array_equal(ours.children, theirs.children[is_kept])
        row = np.repeat(np.arange(len(theirs.features)), np.diff(theirs.entry_offsets))
        np.testing.assert_array_equal(ours.features, theirs.features[np.unique(row[is_kept])])
    packed = prune_packed(pack(model, precision="float32"), 1.0)
    assert packed.n_weights == pruned.n_weights < model.n_weights
    assert_same_layers(unpack(packed), pruned)
    with pytest.raises(ValueError, match="threshold must be zero or positive"):
        prune(model, -1)


def test_pruning_that_leaves_no_weight_is_refused():
    model = random_model(3)
    largest = max(float(abs(layer.weights).max()) for layer in model.layers)
    rule = f"threshold must be below the largest weight's magnitude, {largest:.4g}, .*; got 100.0"
    with pytest.raises(ValueError, match=rule):
        prune(model, 100.0)
    assert prune(model, 0.99 * largest).n_weights > 0


def remake(packed, **arrays):
    names = [name for name in PackedTree.__slots__ if name != "native"]
    return PackedTree(**{name: getattr(packed, name) for name in names} | arrays)


def use(packed, X):
    """Everything that reads the arrays; ValueError is an answer, a crash is not."""
    for rule in (search_rule(20, 5), search_rule(10**6, 10**6)):
        with suppress(ValueError):  # a label out of range
            found = packed.search_rows(X, rule)
            assert len(found.indices) == 0 or found.indices.max() < packed.n_labels
    with suppress(ValueError):
        unpack(packed)
    ids = np.arange(X.n_cols if X.n_cols < 100 else 40, dtype=np.int32)
    for level, n_nodes in enumerate(packed.sizes):
        for node in range(0, n_nodes, 7):
            for read in (
                lambda at: packed.native.node_weights(*at),
                lambda at: packed.native.node_weights(*at, ids),
                lambda at: packed.native.strongest(*at, 3),
            ):
                with suppress(ValueError):
                    read((level, node))


@pytest.mark.parametrize("precision", ["int8", "float32"])
@pytest.mark.parametrize("name", ["labels", "first_block", "blocks", "data"])
@given(st.data())
def test_no_damage_crashes(precision, name, data):
    seed, n_features = data.draw(st.sampled_from([(1, 40), (2, 2**25)]))
    model = random_model(seed, splits=(4, 30), n_features=40)
    model = type(model)(model.tree, model.layers, n_features, model.n_labels)
    packed = pack(model, precision=precision)
    X = random_rows(seed, n=5)
    X = type(X)(X.indptr, X.indices, X.data, n_features)
    array = np.array(getattr(packed, name))
    raw = array.view(np.uint8)
    for _ in range(data.draw(st.integers(1, 40))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    with suppress(ValueError):
        use(remake(packed, **{name: array}), X)


@pytest.mark.parametrize("precision", ["int8", "float32"])
@given(st.integers(0, 2**32 - 1))
def test_blocks_of_noise_do_not_crash(precision, seed):
    packed = pack(random_model(4, splits=(3, 60)), precision=precision)
    rng = np.random.default_rng(seed)
    noise = rng.integers(0, 256, len(packed.data), dtype=np.uint8)
    noise[rng.random(len(noise)) < rng.random()] = 0
    use(remake(packed, data=noise), random_rows(4, n=5))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"data": np.zeros(10, np.uint8)}, "block 0 must lie inside the data"),
        ({"blocks": np.zeros(13, np.uint8)}, "blocks must be whole"),
        ({"first_block": np.zeros(1, np.uint32)}, "one entry per parent"),
        ({"labels": np.zeros(1, np.int32)}, "labels must have one entry per leaf"),
        ({"sizes": ()}, "at least one level"),
        ({"precision": "int4"}, "precision must be"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        remake(pack(random_model(5)), **change)


def test_a_saved_tree_gives_the_same_answers(tmp_path):
    packed, X = pack(random_model(6)), random_rows(6)
    write_file(tmp_path / "m", "tree", *encode(packed))
    stored = open_file(tmp_path / "m", "tree")
    opened = decode(PackedTree, stored.header.value, stored.arrays)
    assert not opened.data.flags.writeable  # mapped
    for name in ("indices", "data", "indptr"):
        rule = search_rule(7, 3)
        found, expected = opened.search_rows(X, rule), packed.search_rows(X, rule)
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    with pytest.raises(ValueError, match="labels must be the name of an array"):
        decode(PackedTree, stored.header.value, {})

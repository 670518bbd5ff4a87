"""A refresh learns from the log since the training, and keeps all that did not change."""

import dataclasses
import shutil
import tempfile

import numpy as np
import pytest
from contract import CHECKS, Subject, name_of
from fresh_shop import QUERIES, dump, list_goods, make_goods, trained_shop
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from match_sets import make_config, make_shop
from stored import damage, dump_value

import matchset as ms
from matchset.baselines import BM25
from matchset.config import TrainConfig
from matchset.data.arrow import NO_DAY
from matchset.data.log import join_logs
from matchset.data.log import make_log as log_of
from matchset.errors import DataError, ModelFileError
from matchset.learn.refresh_data import find_words
from matchset.matchers import fresh_matcher
from matchset.model.packed import pack, unpack
from matchset.strings import Strings

SINCE = make_shop(60, seed=5)[0]  # the log since the training
IDS = st.lists(st.sampled_from(["p000", "p005", "p159", "n1", "n2"]), max_size=3)
NEW = {"n1": ("red rose zyxo", 5.0, "zeta"), "n2": ("white zyxo vase", 1.0, None)}


@pytest.fixture(scope="module")
def base():
    return trained_shop()


@pytest.fixture(scope="module")
def leafy():
    """A match set whose tree has many leaves."""
    learn = dataclasses.replace(TrainConfig().learn, max_leaf_size=8, branching=4)
    log, _ = make_shop()
    return ms.train(log, make_goods(list_goods()), make_config(tune=False, learn=learn))


def make_log(*rows, events=None):
    """A log of (query, product, count), and of the event of each row if there are some."""
    texts, products, counts = zip(*rows, strict=True)
    names = [""] if events is None else sorted(set(events))
    known = sorted(set(products))
    return log_of(
        queries=Strings.of(texts),
        products=Strings.of(known),
        events=names,
        query=range(len(rows)),
        product=[known.index(product) for product in products],
        event=[0] * len(rows) if events is None else [names.index(event) for event in events],
        day=[NO_DAY] * len(rows),
        count=counts,
    )


def list_arrays(matcher):
    """All that is saved, but for when and how it was made."""
    header, arrays = dump_value(matcher)
    told = {**header["fields"], "provenance": None, "changes": None}
    return told, {name: a for name, a in arrays.items() if not name.startswith("changes.")}


def list_leaves(matcher):
    """Products of each leaf of the tree, and the weights of each by feature hash and product."""
    model = unpack(matcher.model.tree)
    labels, ids = model.tree.labels, list(matcher.products.ids)
    return [
        tuple(ids[label] for label in labels[begin:end])
        for begin, end in zip(model.tree.offsets[-1][:-1], model.tree.offsets[-1][1:], strict=True)
    ]


@pytest.mark.parametrize("check", CHECKS, ids=name_of)
def test_a_refreshed_match_set_keeps_the_contract(check, base):
    refreshed = base.add(make_goods(NEW)).remove(["p000"]).refresh(SINCE)
    check(Subject(refreshed, QUERIES, list(refreshed.products.ids)))


def test_what_customers_chose_since_then_is_found(base):
    log = make_log(("blue soap", "p159", 9), ("zyxo thing", "n1", 9))
    before = base.add(make_goods(NEW))
    after = before.refresh(log)
    assert "p159" not in before.match("blue soap", 10).ids
    assert "p159" in after.match("blue soap", 10).ids
    assert after.match("zyxo thing", 1).ids == ("n1",)
    assert "n1" in after.part("neighbors").match("zyxo thing").ids
    assert "n1" in after.part("tree").match("zyxo thing").ids
    label = after.products.index_of(["n1", "p159"])
    assert (after.n_queries_of[label] == 1 + before.n_queries_of[label]).all()
    assert after.training.is_seen(Strings.of(["blue soap", "zyxo thing", "never"])).tolist() == [
        True,
        True,
        False,
    ]


def test_old_pairs_from_the_model_or_from_the_old_log_give_the_same_bytes(base):
    old, _ = make_shop()
    changed = base.add(make_goods(NEW)).remove(["p000"])
    first, second = changed.refresh(SINCE), changed.refresh(SINCE, old)
    assert list_arrays(first) == list_arrays(second)
    assert (first.refreshed.from_old_log, second.refreshed.from_old_log) == (False, True)
    assert first.refreshed.new_pairs == second.refreshed.new_pairs > 50


def test_pairs_that_only_both_logs_together_make_positive_need_the_old_log():
    goods = make_goods(list_goods())
    old = make_log(*((f"{c} rose", "p001", 2) for c in ("red", "blue")), ("mug", "p002", 1))
    since = make_log(("mug", "p002", 1), ("red rose", "p003", 2))
    matcher = ms.train(old, goods, make_config(tune=False, min_count=2.0))
    label = matcher.products.index_of(["p002"])[0]
    assert matcher.refresh(since).n_queries_of[label] == 0
    assert matcher.refresh(since, old).n_queries_of[label] == 1


def test_what_was_removed_before_a_refresh_is_shown_by_no_other_matcher(base, tmp_path):
    words = BM25.from_catalog(make_goods(list_goods()))
    after = base.remove(["p001", "p000"]).refresh(SINCE).remove(["p009"])
    after.save(tmp_path / "model")
    for matcher in (after, ms.load(tmp_path / "model"), after.refresh(SINCE)):
        assert sorted(matcher.removed) == ["p000", "p001", "p009"]
        fused = ms.Fusion([matcher, words])
        assert not {"p000", "p001", "p009"} & set(fused.match("red rose small", 160).ids)
    with ms.open_writer(tmp_path / "model") as writer:
        again = writer.add(make_goods({"p000": list_goods()["p000"]}))
    for matcher in (again, ms.load(tmp_path / "model"), again.refresh(SINCE)):
        assert sorted(matcher.removed) == ["p001", "p009"]
        assert "p000" in ms.Fusion([matcher, words]).match("red rose small", 160).ids
    assert sorted(again.remove(["p000"]).removed) == ["p000", "p001", "p009"]


def test_a_product_that_was_removed_or_renamed_does_not_come_back(base):
    changed = base.remove(["p000"]).update(make_goods({"p001": ("zyxo tent", 1.0, None)}))
    log = make_log(("red rose", "p000", 50), ("red rose small", "p002", 3))
    after = changed.refresh(log)
    assert "p000" not in after.products.ids
    assert after.refreshed.unknown_products == 1
    for match in after.match([*QUERIES, "red rose small"], 200):
        assert "p000" not in match.ids
    assert after.n_queries_of[after.products.index_of(["p001"])[0]] == 0
    assert after.match("zyxo", 1).ids == ("p001",)
    assert after.products.titles_of(["p001"]) == ["zyxo tent"]


def test_leaves_without_a_new_pair_keep_every_weight(leafy):
    after = leafy.refresh(make_log(("small red rose please", "p000", 1)))
    assert (after.refreshed.solved_leaves, after.refreshed.new_pairs) == (1, 1)
    assert after.refreshed.leaves > 10
    old, new = unpack(leafy.model.tree), unpack(after.model.tree)
    shift = after.vectorizer.n_features - leafy.vectorizer.n_features
    assert shift > 0  # "please" is new
    for level in range(old.tree.depth):
        n_same = 0
        for parent in range(len(old.tree.offsets[level]) - 1):
            a = leafy.model.tree.native.unpack_parent(level, parent)
            b = after.model.tree.native.unpack_parent(level, parent)
            n_same += all(x.tobytes() == y.tobytes() for x, y in zip(a[1:], b[1:], strict=True))
        n_parents = len(old.tree.offsets[level]) - 1
        assert n_same == n_parents - (level == old.tree.depth - 1)
    assert new.tree.labels.tolist() == old.tree.labels.tolist()


def test_a_log_that_tells_nothing_new_changes_no_answer(leafy):
    log, _ = make_shop()
    after = leafy.refresh(log, log)
    assert after.refreshed.solved_leaves == after.refreshed.new_pairs == 0
    assert [m.ids for m in after.part("tree").match(QUERIES)] == [
        m.ids for m in leafy.part("tree").match(QUERIES)
    ]
    assert (after.n_queries_of == leafy.n_queries_of).all()


def test_packing_what_was_unpacked_changes_no_byte(leafy):
    tree = leafy.model.tree
    again = pack(unpack(tree), precision=tree.precision)
    assert again.data.tobytes() == tree.data.tobytes()
    assert again.blocks.tobytes() == tree.blocks.tobytes()


def test_a_leaf_that_grew_too_large_is_split(leafy):
    titles = {f"x{i:02}": (f"red rose number{i}", 1.0, None) for i in range(30)}
    log = make_log(*((f"red rose number{i}", f"x{i:02}", 3) for i in range(30)))
    after = leafy.add(make_goods(titles)).refresh(log)
    assert after.refreshed.split_leaves >= 1
    leaves = list_leaves(after)
    assert max(map(len, leaves)) <= 1.5 * 8
    in_tree = [product for leaf in leaves for product in leaf]
    assert len(set(in_tree)) == len(in_tree)
    assert set(titles) <= set(in_tree)
    for i in range(30):
        assert f"x{i:02}" in after.part("tree").match(f"red rose number{i}", 10).ids


def test_a_leaf_without_products_is_gone(leafy):
    leaf = max(list_leaves(leafy), key=len)
    after = leafy.remove(leaf).refresh(SINCE)
    assert len(list_leaves(after)) == len(list_leaves(leafy)) - 1
    assert not set(leaf) & {product for leaf in list_leaves(after) for product in leaf}


def test_a_tree_of_one_leaf_is_built_anew_when_it_grows():
    goods = {f"q{i:03}": (f"lamp number{i}", 1.0, None) for i in range(100)}
    small = make_log(*((f"number{i}", f"q{i:03}", 2) for i in range(20)))
    since = make_log(*((f"number{i}", f"q{i:03}", 2) for i in range(20, 100)))
    matcher = ms.train(small, make_goods(goods), make_config(tune=False))
    assert len(matcher.model.tree.sizes) == 1
    after = matcher.refresh(since)
    assert len(after.model.tree.sizes) == 2
    for i in range(0, 100, 7):
        assert after.part("tree").match(f"number{i}", 3).ids[0] == f"q{i:03}"


def test_a_tree_without_towers_learns_from_titles_again():
    log, _ = make_shop()
    config = make_config(tune=False, parts=("tree", "lexical", "neighbors"))
    matcher = ms.train(log, make_goods(list_goods()), config)
    after = matcher.add(make_goods(NEW)).refresh(SINCE)
    assert "n1" in after.part("tree").match("red rose zyxo", 10).ids


@pytest.mark.parametrize("n", [2, 7])
def test_threads_do_not_change_a_byte(leafy, n):
    def refresh(threads):
        learn = dataclasses.replace(leafy.config.learn, threads=threads)
        config = dataclasses.replace(leafy.config, learn=learn)
        matcher = dataclasses.replace(leafy, config=config)
        after = matcher.add(make_goods(NEW)).remove(["p005"]).refresh(SINCE)
        return list_arrays(dataclasses.replace(after, config=leafy.config))

    assert refresh(1) == refresh(n)


def test_words_of_rare_queries_are_forgotten(base):
    log = make_log(
        ("red rose jane.doe@example.org", "p001", 1),
        ("red rose 5550123", "p001", 2),
        ("red rose sneekers", "p002", 5),
        ("kitchn mug", "p003", 3),
        ("kitchn lamp", "p004", 3),
    )
    after = base.refresh(log)
    for text, is_known in [("jane", False), ("example", False), ("5550123", False),
                           ("sneekers", True), ("kitchn", True)]:  # fmt: skip
        _, features = find_words(Strings.of([text]), after.vectorizer)
        assert (features >= 0).tolist() == [is_known], text


def test_a_word_that_the_model_has_learned_is_not_private(base):
    log, _ = make_shop(more=[("sneekers", 1, 9)])
    matcher = ms.train(log, make_goods(list_goods()), make_config(tune=False))
    after = matcher.refresh(make_log(("white sneekers", "p002", 1)))
    assert "p002" in after.part("neighbors").match("sneekers", 5).ids


@pytest.mark.parametrize("language", ["cjk", "en"])
def test_a_word_without_spaces_that_the_model_has_learned_is_not_private(language):
    log, _ = make_shop(more=[("赤外線 椅子", 1, 9)])
    config = make_config(tune=False, language=language)
    matcher = ms.train(log, make_goods(list_goods()), config)
    after = matcher.refresh(make_log(("赤外線 white", "p002", 1)))
    assert "p002" in after.part("neighbors").match("赤外線", 5).ids


def test_refreshes_and_changes_in_turns_are_the_same_as_of_a_writer(base, tmp_path):
    more, _ = make_shop(40, seed=9)

    in_memory = dataclasses.replace(base)
    in_memory.save(tmp_path / "model")
    writer = ms.open_writer(tmp_path / "model")
    for step in (
        lambda taker: taker.add(make_goods(NEW)),
        lambda taker: taker.remove(["p000"]),
        lambda taker: taker.refresh(SINCE),
        lambda taker: taker.update(make_goods({"n2": ("zyxo chair", 2.0, "acme")})),
        lambda taker: taker.add(make_goods({"n3": ("purple zyxo", 2.0, "acme")})),
        lambda taker: taker.remove(["n1"]),
        lambda taker: taker.refresh(more),
    ):
        in_memory, on_disk = step(in_memory), step(writer)
    assert list_arrays(in_memory) == list_arrays(on_disk)
    assert dump(ms.load(tmp_path / "model")) == dump(on_disk) == dump(in_memory)
    assert {"n2", "n3"} <= set(in_memory.products.ids)
    assert not {"n1", "p000"} & set(in_memory.products.ids)
    assert in_memory.refreshed.refreshes == 2
    assert in_memory.refreshed.new_products == 4  # n2 came twice: with another title
    assert (in_memory.freshness.added, in_memory.freshness.removed) == (0, 0)
    ms.verify(tmp_path / "model")


class Nights(RuleBasedStateMachine):
    """Days and nights of a shop: a file holds what memory does, and the products of now."""

    @initialize()
    def begin(self):
        self.folder = tempfile.mkdtemp()
        self.memory, on_disk = trained_shop(), trained_shop()
        on_disk.save(f"{self.folder}/model")
        self.goods, self.n_refreshed = list_goods(), 0

    def step(self, change):
        self.memory = change(self.memory)
        with ms.open_writer(f"{self.folder}/model") as writer:
            change(writer)

    @rule(ids=IDS, title=st.sampled_from(["red rose zyxo", "mug", "qux lamp"]))
    def add(self, ids, title):
        rows = {product: (f"{title} {product}", 1.0, None) for product in ids}
        self.step(lambda matcher: matcher.add(make_goods(rows)))
        self.goods |= rows

    @rule(ids=IDS)
    def remove(self, ids):
        self.step(lambda matcher: matcher.remove(ids))
        for product in ids:
            self.goods.pop(product, None)

    @rule(seed=st.integers(0, 3))
    def refresh(self, seed):
        log, _ = make_shop(15, seed=seed)
        self.step(lambda matcher: matcher.refresh(log))
        self.n_refreshed += 1

    def teardown(self):
        if not hasattr(self, "folder"):
            return
        found = ms.load(f"{self.folder}/model")
        assert dump(found) == dump(self.memory)
        titles = dict(zip(found.products.ids, found.products.titles, strict=True))
        assert titles == {product: row[0] for product, row in self.goods.items()}
        assert (0 if found.refreshed is None else found.refreshed.refreshes) == self.n_refreshed
        shutil.rmtree(self.folder)


TestNights = Nights.TestCase
TestNights.settings = settings(max_examples=5, stateful_step_count=6, deadline=None)


def test_versions_are_remembered(base):
    changed = base.add(make_goods(NEW), version=7).remove(["p000"], version=8)
    after = changed.refresh(SINCE)
    assert (after.freshness.added, after.freshness.updated, after.freshness.removed) == (0, 0, 0)
    late = after.add(
        make_goods({"n1": ("late", 1.0, None), "p000": ("late", 1.0, None)}), version=7
    )
    assert dump(late) == dump(after)
    assert "p000" in after.add(make_goods({"p000": ("late", 1.0, None)}), version=9).products.ids


def test_changes_during_a_refresh_are_kept(base, tmp_path, monkeypatch):
    dataclasses.replace(base).save(tmp_path / "model")
    learn = fresh_matcher.refresh_match_set

    def meanwhile(*arguments, **settings):
        with ms.open_writer(tmp_path / "model") as other:
            other.add(make_goods({"n9": ("zyxo table", 9.0, None)}))
            other.remove(["n1", "p005"])
        return learn(*arguments, **settings)

    with ms.open_writer(tmp_path / "model") as writer:
        writer.add(make_goods(NEW))
        monkeypatch.setattr(fresh_matcher, "refresh_match_set", meanwhile)
        after = writer.refresh(SINCE)
    assert {"n2", "n9"} <= set(after.products.ids)
    assert not {"n1", "p005"} & set(after.products.ids)
    assert (after.freshness.added, after.freshness.removed) == (1, 2)
    assert set(after.match("zyxo", 2).ids) == {"n2", "n9"}
    assert dump(ms.load(tmp_path / "model")) == dump(after)


def test_a_damaged_model_is_not_refreshed(base, tmp_path):
    path = tmp_path / "model"
    dataclasses.replace(base).save(path)
    damage(path, path.stat().st_size // 2)
    with ms.open_writer(path) as writer, pytest.raises(ModelFileError, match="checksum of"):
        writer.refresh(SINCE)


def test_events_weigh_what_they_did_in_the_training():
    rows = ("red rose", "p001", 1), ("red rose", "p001", 1), ("mug", "p002", 1)
    log = make_log(*rows, events=["purchase", "click", "purchase"])
    matcher = ms.train(log, make_goods(list_goods()), make_config(tune=False))
    clicks = make_log(("mug", "p003", 1), ("mug", "p004", 5), events=["click"] * 2)
    after = matcher.refresh(clicks)  # five clicks are a purchase, one is not
    assert after.n_queries_of[after.products.index_of(["p003", "p004"])].tolist() == [0, 1]


def test_what_cannot_be_refreshed_says_why(base):
    log, _ = make_shop(60)
    plain = ms.train(log, None, TrainConfig(tune=False))
    with pytest.raises(ValueError, match="must be trained with a catalog; got one without"):
        plain.refresh(SINCE)
    strangers = make_log(("red rose", "unknown", 3))
    with pytest.raises(DataError, match="of a product that the model has; got none in 1 rows"):
        base.refresh(strangers)
    with pytest.raises(DataError, match="got none in 0 rows"):
        base.refresh(SINCE.select(np.zeros(len(SINCE), dtype=bool)))
    forgetful = base.prune(drop=["neighbors"])
    with pytest.raises(ValueError, match="must get the old log again; got none"):
        forgetful.refresh(SINCE)
    assert forgetful.refresh(SINCE, log).refreshed.solved_leaves > 0


def test_a_refresh_says_when_a_full_training_is_due(base):
    after = base.refresh(SINCE)
    assert after.refreshed.due == ()
    assert after.refreshed.advice == "no full training is due"
    goods = {f"y{i}": (f"yellow qux{i}", 1.0, None) for i in range(20)}
    log = make_log(*((f"qux{i}", f"y{i}", 9) for i in range(20)))
    due = after.add(make_goods(goods)).refresh(log).refreshed
    assert due.share_unknown_words == 1.0
    assert "11.1% of the products came since the training, more than 10%" in due.due[0]
    assert "100.0% of the words in queries have no embedding, more than 10%" in due.due[1]
    lost = dataclasses.replace(due, recall_trained=(0.5, 0.9, 0.98), recall=(0.4, 0.8, 0.91))
    assert "Recall@100 fell from 98.0% at the training to 91.0%, by more" in lost.due[-1]
    assert str(lost).endswith(lost.advice)


def test_joined_logs_hold_the_rows_of_all():
    log, _ = make_shop(50)
    half = np.arange(len(log)) % 2 == 0
    assert join_logs([log.select(half), log.select(~half)]) == log
    doubled = join_logs([log, log])
    assert (doubled.count == 2 * log.count).all()
    assert dataclasses.replace(doubled, count=log.count) == log

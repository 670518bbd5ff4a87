"""A tree alone, of texts without a language, has the bytes that it always had."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from digests import digests
from word_shop import COLORS, EXTRA, THINGS

import matchset as ms
from matchset.data.arrow import NO_DAY
from matchset.data.catalog import Catalog
from matchset.data.log import make_log
from matchset.strings import Strings

EXPECTED = {
    "vectorizer": "2093e061f9100cbfe0c7c70e2127b7e3757a5f08dbee185442cfe6d5d46a4b40",
    "answers": "cef7b69787d74a74a24d495d11b4a6ebbf5ed9fa6d00a6ba9ffa83c7f27cf86f",
    "tree": "b0edb4d0d69c3e52c0b7178c6e74a18b75bbbd2df9e4fdf5d04a27c581b7789b",
}


def make_shop():
    """A log of 288 queries and a catalog of 160 products; nothing in them is random."""
    words = [(color, thing, extra) for color in COLORS for thing in THINGS for extra in EXTRA]
    ids, n = Strings.of([f"p{i:03}" for i in range(len(words))]), 480
    product = [7 * i % 120 for i in range(n)]  # the rest has a title, and no query
    said = [[word for j, word in enumerate(words[product[i]]) if j != i % 4] for i in range(n)]
    log = make_log(
        queries=Strings.of([" ".join([*some, str(i % 9)]) for i, some in enumerate(said)]),
        products=ids,
        events=[""],
        query=range(n),
        product=product,
        event=[0] * n,
        day=[NO_DAY] * n,
        count=[1 + i % 5 for i in range(n)],
    )
    return log, Catalog(ids, Strings.of([" ".join(three) for three in words]))


def train_digests(threads):
    """Return digests of what a query is answered with, and of answers."""
    config = ms.TrainConfig(parts=("tree",), language=None)
    config = replace(config, learn=replace(config.learn, threads=threads))
    found = digests(ms.train(*make_shop(), config))
    return {name: found[name] for name in EXPECTED}


@pytest.mark.parametrize("threads", [1, 2, 7])
def test_a_tree_alone_has_the_bytes_of_before(threads):
    assert train_digests(threads) == EXPECTED


def test_it_has_them_with_narrow_instructions_too():
    code = "import test_tree_bytes as t; print(t.train_digests(2) == t.EXPECTED)"
    path = os.pathsep.join([str(Path(__file__).parent), str(Path(ms.__file__).parent.parent)])
    run = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"MATCHSET_PLAIN": "1", "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout == "True\n"

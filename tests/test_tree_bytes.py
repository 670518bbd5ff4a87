"""A tree alone, of texts without a language, has the bytes that it always had."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from digests import digest
from match_sets import COLORS, EXTRA, THINGS

import matchset as ms
from matchset.data.arrow import NO_DAY
from matchset.data.catalog import Catalog
from matchset.data.log import make_log
from matchset.storage.sections import Section
from matchset.strings import Strings

EXPECTED = {
    "vectorizer": "02a41bd6af063e7d542df9fe3775f4093d6c95af32c5fe5a6f6c2273cd874e7a",
    "tree": "25492246a93c809bead48271fde9ee77f6680bc14c33665389908fcb1b4ed2e0",
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
    """Of the arrays that a query is answered with."""
    config = ms.TrainConfig(parts=("tree",), language=None)
    config = replace(config, learn=replace(config.learn, threads=threads))
    sections = ms.train(*make_shop(), config)._sections()
    return {name: digest(Section({}, sections[name].arrays)) for name in EXPECTED}


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

"""What a process may own: arrays beyond it are mapped files, and no result depends on it."""

import errno
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from pathlib import Path

import numpy as np
import pytest
from digests import digests
from match_sets import make_config, make_shop

import matchset as ms
from matchset import _native
from matchset.errors import ParameterError
from matchset.memory import current_memory, limit_memory, memory_for_counters, parse_memory


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (3, 3),
        ("3", 3),
        ("3GB", 3 * 10**9),
        ("1.5 gb", 15 * 10**8),
        ("2GiB", 2**31),
        ("10kb", 10**4),
    ],
)
def test_a_size_is_a_number_of_bytes_or_has_a_unit(given, expected):
    assert parse_memory(given) == expected


@pytest.mark.parametrize(
    "given", ["much", "", "3GG", "-3GB", "0", 0, -1, True, 1.5, None, "9" * 30]
)
def test_what_is_no_size_is_refused_with_the_rule_and_the_value(given):
    message = "memory must be a size such as 4GB, or a number of bytes; got "
    with pytest.raises(ParameterError) as error:
        parse_memory(given)
    assert str(error.value) == f"{message}{given!r}"
    with pytest.raises(ParameterError, match=message):
        ms.train(*make_shop(), memory=given)


def test_arrays_beyond_the_limit_are_mapped_and_hold_the_same(tmp_path):
    before = _native.mapped_bytes()
    with limit_memory(1, tmp_path):
        ones, small = np.ones(10**6), np.ones(10)
        zeros = np.zeros(10**6)
        assert _native.mapped_bytes() - before == 16 * 10**6
        ones.resize(2 * 10**6, refcheck=False)
        assert _native.mapped_bytes() - before == 24 * 10**6
        assert list(tmp_path.iterdir()) == []  # nothing would stay after a kill
    assert (ones.sum(), zeros.sum(), small.sum()) == (10**6, 0, 10)
    ones.resize(10**6, refcheck=False)
    assert ones.sum() == 10**6
    del ones, zeros
    assert _native.mapped_bytes() == before


def test_arrays_within_the_limit_are_not_mapped(tmp_path):
    before = _native.mapped_bytes()
    with limit_memory("1TB", tmp_path):
        array = np.ones(10**6)
        array.resize(2 * 10**6, refcheck=False)
    outside = np.ones(10**6)
    assert _native.mapped_bytes() == before
    assert array.sum() == outside.sum() == 10**6


def test_threads_with_the_context_are_limited_too(tmp_path):
    before = _native.mapped_bytes()
    with limit_memory(1, tmp_path), ThreadPoolExecutor(1) as pool:
        array = pool.submit(copy_context().run, np.ones, 10**6).result()
        assert _native.mapped_bytes() - before == array.nbytes


def test_an_inner_limit_ends_where_it_does(tmp_path):
    with limit_memory("8GB", tmp_path):
        with limit_memory("100MB"):
            assert memory_for_counters() == 25 * 10**6
        assert current_memory() == 8 * 10**9
    assert current_memory() == parse_memory("4GB")


def test_a_disk_without_room_is_an_error_that_says_so(tmp_path):
    code = f"""
import resource, numpy
from matchset.memory import limit_memory
resource.setrlimit(resource.RLIMIT_FSIZE, (10**6, 10**6))
with limit_memory(1, {str(tmp_path)!r}):
    numpy.ones(10**6)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    expected = "the disk is full; free some space, or allow more than 1e-09 GB of memory"
    assert f"OSError: [Errno {errno.ENOSPC}] {expected}: {str(tmp_path)!r}" in run.stderr


def test_no_byte_of_a_model_depends_on_memory(tmp_path):
    log, catalog = make_shop(2000, days=60)
    models = [
        ms.train(log, catalog, make_config(), memory=memory, out=tmp_path / str(memory))
        for memory in (1, "4GB")
    ]
    assert digests(models[0]) == digests(models[1])
    assert digests(ms.load(tmp_path / "1")) == digests(models[1])


WORKS = """
import contextlib, resource, sys
from pathlib import Path
import numpy as np
from matchset.features.vectorizer import Vectorizer
from matchset.memory import limit_memory
from matchset.matrices import from_scipy

rng = np.random.default_rng(0)
words = [f"word{i}" for i in range(3000)]
texts = [" ".join(words[i] for i in row) for row in rng.integers(3000, size=(20_000, 8))]
Y = np.arange(20_000, dtype=np.int32) % 500
used = int(Path("/proc/self/status").read_text().partition("VmData:")[2].split()[0]) * 1024
resource.setrlimit(resource.RLIMIT_DATA, (used + 32 * 10**6, used + 32 * 10**6))
is_limited = len(sys.argv) > 1
with limit_memory(sys.argv[1], sys.argv[2]) if is_limited else contextlib.nullcontext():
    X = Vectorizer().fit_transform(texts, threads=1)
    copies = [from_scipy(X).transposed() for _ in range(3)]
print(X.nnz)
"""


MANY_THREADS = """
import resource
from pathlib import Path
import numpy as np
from matchset import _native

n = 64 * 65536
rows = np.zeros(n, np.int32), 1, np.zeros(n, np.uint8), np.ones(n), np.ones(1)
used = int(Path("/proc/self/status").read_text().partition("VmSize:")[2].split()[0]) * 1024
resource.setrlimit(resource.RLIMIT_AS, (used + 150 * 2**20, used + 150 * 2**20))
try:
    _native.sum_products(*rows, np.zeros(n, np.int32), np.ones(1), 0, 64)
except RuntimeError as error:
    print(error)
"""


SEARCHES = """
import gc, resource
from pathlib import Path
from large_match_sets import QUERIES, make_large, make_vectorizer

vectorizer = make_vectorizer()
small, large = (make_large(vectorizer, side) for side in (30, 128))

def ask(model):
    return sum(len(model.search_text(vectorizer.native, query, 100)[0]) for query in QUERIES)

ask(small)  # from here on, there is all memory that the bounds of a search ask for
gc.collect()
taken = [bytearray(10**6) for _ in range(50)]  # what was freed before, so that it hides nothing
used = int(Path("/proc/self/status").read_text().partition("VmData:")[2].split()[0]) * 1024
resource.setrlimit(resource.RLIMIT_DATA, (used + 1500000, used + 1500000))
print(ask(large))
try:
    bytearray(4 * large.n_products)
except MemoryError:
    print("no room for a float per product")
"""


TRAINS = """
import resource, sys
from dataclasses import replace
from pathlib import Path
import numpy as np
import matchset as ms
from match_sets import make_config, make_shop
from matchset.data.arrow import NO_DAY
from matchset.data.catalog import Catalog
from matchset.data.log import make_log
from matchset.strings import Strings

n_products, n_queries, rng = 20_000, 3000, np.random.default_rng(0)
words = np.array([f"word{i}" for i in range(20_000)])
titles = [" ".join(words[row]) for row in rng.integers(len(words), size=(n_products, 40))]
product = rng.integers(n_products, size=n_queries)
ids = Strings.of([f"p{i}" for i in range(n_products)])
log = make_log(
    queries=Strings.of([" ".join(rng.permutation(titles[i].split())[:3]) for i in product]),
    products=ids, events=[""], query=np.arange(n_queries), product=product,
    event=[0] * n_queries, day=[NO_DAY] * n_queries, count=[9] * n_queries,
)
config = make_config(tune=False)
config = replace(config, learn=replace(config.learn, threads=1))
ms.train(*make_shop(), config)  # from here on, all modules and threads are there
used = int(Path("/proc/self/status").read_text().partition("VmData:")[2].split()[0]) * 1024
resource.setrlimit(resource.RLIMIT_DATA, (used + 180 * 10**6, used + 180 * 10**6))
matcher = ms.train(log, Catalog(ids, Strings.of(titles)), config, memory=sys.argv[1])
print(matcher.summary.pairs)
"""


def run_python(code, *given, **variables):
    path = os.pathsep.join([str(Path(__file__).parent), str(Path(ms.__file__).parent.parent)])
    return subprocess.run(
        [sys.executable, "-c", code, *given],
        env=os.environ | {"PYTHONPATH": path} | variables,
        capture_output=True,
        text=True,
        check=False,
    )


def test_data_that_memory_does_not_hold_are_worked_on_all_the_same(tmp_path):
    limited = run_python(WORKS, "1MB", str(tmp_path))
    assert limited.stdout == "993347\n", limited.stderr
    assert "Memory" in run_python(WORKS).stderr  # MemoryError, or Out of Memory


def test_a_query_takes_no_memory_that_grows_with_the_catalog():
    """It searches 2,097,152 products in the memory that a search of 27,000 took, and 1.5 MB."""
    # With this threshold, only small pieces of memory are kept when they are freed.
    ran = run_python(SEARCHES, MALLOC_MMAP_THRESHOLD_="65536")
    assert ran.stdout == "16000\nno room for a float per product\n", ran.stderr


def test_threads_that_cannot_start_are_an_error_and_no_wait_for_ever():
    ran = run_python(MANY_THREADS)
    assert "unavailable" in ran.stdout, ran.stderr


@pytest.mark.slow
def test_a_whole_training_stays_within_memory_that_would_not_hold_it():
    """It owns about 110 MB more than before with a limit, 260 MB without; 180 MB is allowed."""
    limited = run_python(TRAINS, "1MB")
    assert limited.stdout == "3000\n", limited.stderr
    assert "Memory" in run_python(TRAINS, "1TB").stderr

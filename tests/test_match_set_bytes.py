"""The same log gives the same bytes; `make sanitize` also compares builds without clones."""

import pytest
from digests import digests, train


@pytest.fixture(scope="module")
def expected():
    matcher = train(1)
    assert matcher.model.reranker.is_learned
    return digests(matcher)


@pytest.mark.parametrize("threads", [2, 7])
def test_threads_change_no_byte_of_a_match_set(expected, threads):
    assert digests(train(threads)) == expected

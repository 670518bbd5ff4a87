"""The contract holds for a matcher that is right, and notices one that is not."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from contract import (
    CHECKS,
    Subject,
    a_batch_equals_its_queries_one_by_one,
    a_filter_that_allows_all_changes_nothing_and_one_that_allows_none_gives_none,
    an_empty_query_gives_no_products,
    at_most_k_products_are_given_none_twice_all_known,
    name_of,
    only_allowed_products_are_given,
    scores_fall_and_ties_go_to_the_smaller_label,
)
from word_overlap import WordOverlap, make_word_overlap

QUERIES = ["rose", "red pot", "plant"]
IDS = [f"p{i}" for i in range(6)]


@pytest.mark.parametrize("check", CHECKS, ids=name_of)
def test_a_tiny_matcher_keeps_the_contract(check):
    check(Subject(make_word_overlap(), QUERIES, IDS))


@dataclass(frozen=True)
class Broken(WordOverlap):
    """The tiny matcher with one fault."""

    fault: str = ""

    def _search(self, queries, k, where):
        if self.fault == "more than k":
            k += 1
        if self.fault == "ignores where":
            where = None
        found = super()._search(queries, k, where)
        labels, scores = found.indices, found.data
        if self.fault == "twice":
            labels = np.zeros_like(labels)
        if self.fault == "worst first":
            scores = -scores
        if self.fault == "ties by chance":
            labels, scores = labels[::-1].copy(), np.ones_like(scores)
        if self.fault == "batch differs" and len(queries) > 1:
            scores = scores / 2
        return replace(found, indices=labels, data=scores)


@pytest.mark.parametrize(
    ("fault", "check"),
    [
        ("more than k", at_most_k_products_are_given_none_twice_all_known),
        ("twice", at_most_k_products_are_given_none_twice_all_known),
        ("worst first", scores_fall_and_ties_go_to_the_smaller_label),
        ("ties by chance", scores_fall_and_ties_go_to_the_smaller_label),
        ("batch differs", a_batch_equals_its_queries_one_by_one),
        ("ignores where", only_allowed_products_are_given),
        (
            "ignores where",
            a_filter_that_allows_all_changes_nothing_and_one_that_allows_none_gives_none,
        ),
    ],
)
def test_the_contract_notices_a_fault(fault, check):
    subject = Subject(Broken(make_word_overlap().products, fault), QUERIES, IDS)
    with pytest.raises(AssertionError):
        check(subject)


def test_the_contract_notices_products_for_an_empty_query():
    @dataclass(frozen=True)
    class Eager(WordOverlap):
        def _search(self, queries, k, where):
            return super()._search(["rose"] * len(queries), k, where)

    with pytest.raises(AssertionError):
        an_empty_query_gives_no_products(Subject(Eager(make_word_overlap().products), QUERIES, IDS))

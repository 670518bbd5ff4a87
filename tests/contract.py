"""The contract of `matchset.matchers.base.Matcher`, as checks that any matcher can be put to.

@pytest.mark.parametrize("check", CHECKS, ids=name_of)
def test_my_matcher_keeps_the_contract(check):
    check(Subject(my_matcher, queries=["rose"], ids=[...]))
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import pytest

from matchset.filters.filter import Filter, make_filter
from matchset.matchers.base import Retriever
from matchset.matchers.match import Match, Matches

EMPTY_QUERIES = ["", "  ", "\t\n", "!?", "\x00", "\u200b"]


@dataclass(frozen=True)
class Subject:
    """A matcher, queries that it has products for, and its products in the order of labels."""

    matcher: Retriever
    queries: Sequence[str]
    ids: Sequence[str]

    @property
    def all_ks(self):
        return [1, 2, len(self.ids), len(self.ids) + 1, 10**12]

    def ask(self, k=None, **options):
        return self.matcher.match(self.queries, k or len(self.ids), **options)


def one_query_gives_a_match_and_several_give_matches(subject):
    assert isinstance(subject.matcher, Retriever)
    one, several = subject.matcher.match(subject.queries[0]), subject.matcher.match(subject.queries)
    assert isinstance(one, Match)
    assert one.query == subject.queries[0]
    assert isinstance(several, Matches)
    assert [match.query for match in several] == list(subject.queries)
    assert len(subject.matcher.match([])) == 0


def at_most_k_products_are_given_none_twice_all_known(subject):
    for k in subject.all_ks:
        for match in subject.ask(k):
            assert 1 <= len(match) <= k
            assert len(match.scores) == len(match.ids) == len(set(match.ids))
            assert set(match.ids) <= set(subject.ids)


def scores_fall_and_ties_go_to_the_smaller_label(subject):
    for match in subject.ask():
        labels = [subject.ids.index(product) for product in match.ids]
        order = np.lexsort([labels, -np.asarray(match.scores, dtype=np.float64)])
        assert list(order) == list(range(len(match)))
        assert np.isfinite(match.scores).all()


def fewer_products_are_the_first_of_more(subject):
    for where in (None, subject.ids[::2], subject.ids[::3]):
        for most, two in zip(subject.ask(where=where), subject.ask(2, where=where), strict=True):
            assert two == most[:2]


def a_batch_equals_its_queries_one_by_one(subject):
    mixed = [*subject.queries, "", *reversed(subject.queries)]
    allowed = [product for index, product in enumerate(subject.ids) if index % 2]
    for options in ({}, {"k": 1}, {"where": allowed}):
        alone = [subject.matcher.match(query, **options) for query in mixed]
        assert list(subject.matcher.match(mixed, **options)) == alone
        assert list(subject.matcher.match(tuple(mixed), **options)) == alone
        assert list(subject.matcher.match(np.array(mixed, dtype=object), **options)) == alone


def an_empty_query_gives_no_products(subject):
    for query in EMPTY_QUERIES:
        assert len(subject.matcher.match(query)) == 0
    assert [len(match) for match in subject.matcher.match(EMPTY_QUERIES)] == [0] * 6


def a_k_that_is_no_positive_int_is_an_error(subject):
    for k in (0, -1):
        with pytest.raises(ValueError, match=f"k must be at least 1; got {k}"):
            subject.matcher.match(subject.queries[0], k=k)
    for k in (1.5, "3", None, True):
        with pytest.raises(TypeError, match="k must be an int; got"):
            subject.matcher.match(subject.queries, k=k)


def a_query_that_is_not_str_is_an_error_that_names_its_place(subject):
    for wrong in (None, 3, b"rose", ["rose"]):
        with pytest.raises(TypeError, match=r"queries\[1\] must be str; got"):
            subject.matcher.match(["rose", wrong])
    for wrong in (None, 3, b"rose"):
        with pytest.raises(TypeError, match="queries must be str or a sequence of str; got"):
            subject.matcher.match(wrong)


def only_allowed_products_are_given(subject):
    for step in (1, 2, 3, len(subject.ids)):
        allowed = set(subject.ids[::step])
        for where in (allowed, sorted(allowed), [*allowed, "a product that is not there"]):
            for free, bound in zip(subject.ask(), subject.ask(where=where), strict=True):
                assert set(bound.ids) <= allowed
                # What is found among all products is found among fewer.
                assert set(free.ids) & allowed <= set(bound.ids)


def a_filter_can_be_an_array_or_used_again(subject):
    mask = np.arange(len(subject.ids)) % 2 == 0
    by_ids = subject.ask(where=subject.ids[::2])
    assert subject.ask(where=mask) == by_ids
    products = by_ids.products
    reusable = make_filter(products, mask)
    assert isinstance(reusable, Filter)
    assert subject.ask(where=reusable) == by_ids


def a_filter_that_allows_all_changes_nothing_and_one_that_allows_none_gives_none(subject):
    assert subject.ask(where=subject.ids) == subject.ask()
    assert [len(match) for match in subject.ask(where=[])] == [0] * len(subject.queries)


def a_filter_of_other_products_is_an_error(subject):
    mask = np.ones(len(subject.ids) + 1, dtype=np.bool_)
    with pytest.raises(ValueError, match="where must have the shape"):
        subject.ask(where=mask)
    for wrong in (3, 2.5, b"rose"):
        with pytest.raises(TypeError, match="where must be an expression, a filter, product ids"):
            subject.ask(where=wrong)


def a_least_score_leaves_out_what_is_below(subject):
    for free in subject.ask():
        for least in (free.scores[0], free.scores[-1], float(free.scores[0]) + 1):
            bound = subject.matcher.match(free.query, len(subject.ids), min_score=float(least))
            assert bound == free[: np.count_nonzero(free.scores >= least)]
    least = float(np.median([match.scores[0] for match in subject.ask()]))
    alone = [
        subject.matcher.match(query, len(subject.ids), min_score=least) for query in subject.queries
    ]
    assert list(subject.ask(min_score=least)) == alone


def a_relative_least_score_keeps_a_share_of_the_best(subject):
    for free in subject.ask():
        cut = subject.matcher.match(free.query, len(subject.ids), min_relative=0.5)
        whole = subject.matcher.match(free.query, len(subject.ids))
        kept = [h for h in whole if whole[0].score <= 0 or h.score >= whole[0].score * 0.5]
        assert list(cut) == kept
    for share in (-0.1, 1.1, float("nan")):
        with pytest.raises(ValueError, match="min_relative must be from 0 to 1; got"):
            subject.matcher.match(subject.queries, min_relative=share)
    alone = [subject.matcher.match(q, len(subject.ids), min_relative=0.5) for q in subject.queries]
    assert list(subject.matcher.match(subject.queries, len(subject.ids), min_relative=0.5)) == alone


def threads_get_the_answers_that_they_would_get_alone(subject):
    allowed = subject.ids[::2]
    jobs = [(query, where) for query in subject.queries for where in (None, allowed)] * 10
    alone = [subject.matcher.match(query, where=where) for query, where in jobs]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda job: subject.matcher.match(job[0], where=job[1]), jobs))
    assert together == alone


CHECKS = [
    one_query_gives_a_match_and_several_give_matches,
    at_most_k_products_are_given_none_twice_all_known,
    scores_fall_and_ties_go_to_the_smaller_label,
    fewer_products_are_the_first_of_more,
    a_batch_equals_its_queries_one_by_one,
    an_empty_query_gives_no_products,
    a_k_that_is_no_positive_int_is_an_error,
    a_query_that_is_not_str_is_an_error_that_names_its_place,
    only_allowed_products_are_given,
    a_filter_can_be_an_array_or_used_again,
    a_filter_that_allows_all_changes_nothing_and_one_that_allows_none_gives_none,
    a_filter_of_other_products_is_an_error,
    a_least_score_leaves_out_what_is_below,
    a_relative_least_score_keeps_a_share_of_the_best,
    threads_get_the_answers_that_they_would_get_alone,
]


def name_of(check):
    return check.__name__

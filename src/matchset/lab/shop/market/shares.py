"""Shares: which assumptions about sellers and customers is the marketplace made of?

No source gives all of these numbers for one shop. Each has the reason for its size beside it. Only
the numbers marked "fitted" were adjusted, and only to the facts that the paper states of its log
(see `facts.py`) and to the recall of BM25 on it.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Shares:
    """Everything the marketplace assumes; shares are from 0 to 1."""

    # What is on sale.
    categories: float = 0.07  # times the square root of the products; fitted to BM25's recall
    smallest_family: float = 3.0  # listings of one design; a design has variants and sellers
    family_tail: float = 0.7  # power of the tail: families of 9 on average, the largest of 80
    largest_family: int = 80
    mean_age: float = 260.0  # days on sale; fitted to 12 % new products in the last month
    sold_out: float = 0.07  # of the listings, for 60 days on average, as in the shop
    in_packs: float = 0.25  # listings sold in packs of several
    with_year: float = 0.2  # listings that are one of several model years

    # What sellers write. Titles have no field for search words, so sellers stuff them. Fitted to
    # the words and features per title.
    mentioned: float = 0.8  # of the properties of a design or variant, each on its own
    stuffed_name: float = 0.75  # titles that name the thing a second time, in other words
    stuffed_use: float = 0.9  # titles that say what it is good for
    stuffed_gift: float = 0.4  # titles that say for whom it is a gift
    untrue: float = 0.2  # titles that name a property which another product has
    rewritten: float = 0.2  # listings whose seller changes the words of the others
    seller_named: float = 0.15  # titles that name the seller

    # What a listing sells by, among those that agree with a query: parts of the variance of the
    # logarithm of its appeal. None of them is in the title. Assumed: what is sold matters most,
    # then whom others trusted, then the price, then who sells it.
    spread: float = 1.3  # standard deviation of that logarithm: a tenth has half of the sales
    quality: float = 0.4  # of the design; customers hear of it, and see it in pictures
    reviews: float = 0.3  # of the listing; one of several sellers wins most of the sales
    price: float = 0.2  # cheaper than its rivals
    seller: float = 0.1  # reputation and delivery

    # When it sells. Assumed: strong enough that last month differs from the year.
    newness: float = 0.6  # of its sales that a listing lacks on its first day, without reviews
    settling: float = 60.0  # days until it lacks a third of that
    fashion: float = 0.6  # of the sales in the best week that a design loses in the worst
    fashion_weeks: tuple[float, float] = (20.0, 60.0)  # from one best week to the next

    # How customers ask. What remains asks by a name of the thing.
    needed: float = 0.05  # by what it is needed for, as in the shop
    given: float = 0.03  # as a gift, as in the shop
    by_model: float = 0.05  # by model number, where there is one: fewer than in a specialist's shop
    nickname: float = 0.08  # by a nickname that spread among customers; assumed: seen, but rare
    campaign: float = 0.04  # by the word of a campaign; assumed: half as many as nicknames
    campaigns: int = 13  # each runs for a week in every quarter
    plural: float = 0.22  # as in the shop
    misspelt: float = 0.12  # more than a tenth of web searches are (Cucerzan and Brill, 2004)
    filled: float = 0.12  # with words that narrow nothing, before or after
    any_order: float = 0.12  # as in the shop

    # What decides a visit. Of the results that people judged for real shopping queries, about a
    # fifth are substitutes, and a few percent go with what was asked for (Reddy et al., 2022,
    # Shopping Queries Dataset): compromise and substitute sum to 0.22, accessory is 0.03.
    taste: float = 0.5  # visits that keep to the taste that goes with the words; assumed: half
    tastes: int = 5
    compromise: float = 0.16  # visits that give up the property that was asked last
    substitute: float = 0.06  # buyers who take the rival that others chose, where it is on sale
    accessory: float = 0.03  # buyers who take what goes with it instead, from another category
    looks: int = 4  # products that a customer considers at most
    clicks: float = 0.7  # of considered products that suit; others are clicked a quarter as often
    buys: float = 0.35  # of clicked products that suit

    # How much there is.
    queries: float = 2.4  # distinct queries per product: 240 million for 100 million in the paper
    repeats: float = 2.5  # of wordings drawn per distinct query: many say the same
    visits: float = 120.0  # of a query for all of a category, at least; narrower ones have fewer,
    # by the square root of what agrees; fitted to the positives per query
    visit_tail: float = 2.0  # power of the tail: few queries have many visits
    most_visits: float = 40.0  # times the least
    kept_impressions: int = 64  # the log keeps one impression in 64, with a count of 64
    kept_clicks: int = 4  # and one click without a purchase in 4, with a count of 4


SHARES = Shares()

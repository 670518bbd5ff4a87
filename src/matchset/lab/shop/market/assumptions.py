"""Assumptions: which numbers about sellers and customers is the marketplace made of?

No source gives all of these numbers for one shop. Each has the reason for its size beside it. Only
the numbers marked "fitted" were adjusted, and only to the facts that the paper states of its log
(see `facts.py`) and to the recall of BM25 on it. Shares are from 0 to 1.
"""

from __future__ import annotations

from dataclasses import dataclass

# What is on sale.
CATEGORIES = 0.07  # times the square root of the products; fitted to BM25's recall
SMALLEST_FAMILY = 3.0  # listings of one design; a design has variants and sellers
FAMILY_TAIL = 0.7  # power of the tail: families of 9 on average, the largest of 80
LARGEST_FAMILY = 80
IN_PACKS = 0.25  # listings sold in packs of several
WITH_YEAR = 0.2  # listings that are one of several model years

# What sellers write. Titles have no field for search words, so sellers stuff them. Fitted to the
# words and features per title.
MENTIONED = 0.8  # of the properties of a design or variant, each on its own
STUFFED_NAME = 0.75  # titles that name the thing a second time, in other words
STUFFED_USE = 0.9  # titles that say what it is good for
STUFFED_GIFT = 0.4  # titles that say for whom it is a gift
UNTRUE = 0.2  # titles that name a property which another product has
REWRITTEN = 0.2  # listings whose seller changes the words of the others
SELLER_NAMED = 0.15  # titles that name the seller

# What a listing sells by, among those that agree with a query. None of it is in the title.
# Assumed: what is sold matters most, then whom others trusted, then the price, then who sells it.
SPREAD = 1.3  # standard deviation of the logarithm of its appeal: a tenth has half of the sales
APPEAL = {  # parts of the variance of that logarithm
    "quality": 0.4,  # of the design; customers hear of it, and see it in pictures
    "reviews": 0.3,  # of the listing; one of several sellers wins most of the sales
    "price": 0.2,  # cheaper than its rivals
    "seller": 0.1,  # reputation and delivery
}

# When it sells. Assumed: strong enough that last month differs from the year.
SETTLING = 60.0  # days until a new listing lacks a third of the sales that it lacked at first
FASHION_WEEKS = 20.0, 60.0  # from one best week to the next

# How customers ask. What remains asks by a name of the thing.
NEEDED = 0.05  # by what it is needed for, as in the shop
GIVEN = 0.03  # as a gift, as in the shop
BY_MODEL = 0.05  # by model number, where there is one: fewer than in a specialist's shop
NICKNAME = 0.08  # by a nickname that spread among customers; assumed: seen, but rare
CAMPAIGN = 0.04  # by the word of a campaign; assumed: half as many as nicknames
CAMPAIGNS = 13  # each runs for a week in every quarter
PLURAL = 0.22  # as in the shop
FILLED = 0.12  # with words that narrow nothing, before or after
ANY_ORDER = 0.12  # as in the shop

# What decides a visit.
TASTES = 5
LOOKS = 4  # products that a customer considers at most
CLICKS = 0.7  # of considered products that suit; others are clicked a quarter as often
BUYS = 0.35  # of clicked products that suit

# How much there is.
QUERIES = 2.4  # distinct queries per product: 240 million for 100 million in the paper
REPEATS = 2.5  # of wordings drawn per distinct query: many say the same
# Of a query for all of a category, at least; narrower ones have fewer visits, by the square root of
# what agrees; fitted to the positives per query.
VISITS = 120.0
VISIT_TAIL = 2.0  # power of the tail: few queries have many visits
MOST_VISITS = 40.0  # times the least
KEPT_IMPRESSIONS = 64  # the log keeps one impression in 64, with a count of 64
KEPT_CLICKS = 4  # and one click without a purchase in 4, with a count of 4


@dataclass(frozen=True, slots=True)
class Shares:
    """What tests switch off, to see the effect of the rest."""

    mean_age: float = 260.0  # days on sale; fitted to 12 % new products in the last month
    sold_out: float = 0.07  # of the listings, for 60 days on average, as in the shop
    newness: float = 0.6  # of its sales that a listing lacks on its first day, without reviews
    fashion: float = 0.6  # of the sales in the best week that a design loses in the worst
    misspelt: float = 0.12  # more than a tenth of web searches are (Cucerzan and Brill, 2004)
    # Of the results that people judged for real shopping queries, about a fifth are substitutes,
    # and a few percent go with what was asked for (Reddy et al., 2022, Shopping Queries Dataset):
    # compromise and substitute sum to 0.22, accessory is 0.03.
    taste: float = 0.5  # visits that keep to the taste that goes with the words; assumed: half
    compromise: float = 0.16  # visits that give up the property that was asked last
    substitute: float = 0.06  # buyers who take the rival that others chose, where it is on sale
    accessory: float = 0.03  # buyers who take what goes with it instead, from another category


SHARES = Shares()

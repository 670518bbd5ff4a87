"""A simulated marketplace: what if thousands of products agree with a query, and habit decides?

Read `shares.py` first: it holds every assumption about sellers and customers. Then `listings.py`
(what is on sale), `titles.py` (what sellers write), `queries.py` (what customers type) and
`visits.py` (what they buy).
"""

from matchset.lab.shop.market.marketplace import Market, make_market
from matchset.lab.shop.market.shares import SHARES, Shares

__all__ = ["SHARES", "Market", "Shares", "make_market"]

"""A simulated marketplace: what if thousands of products agree with a query, and habit decides?

Read `assumptions.py`: it holds every assumption about sellers and customers. Then `listings.py`
(what is on sale), `titles.py` (what sellers write), `queries.py` (what customers type) and
`buying.py` (what they buy).
"""

from matchset.lab.shop.market.assumptions import SHARES, Shares
from matchset.lab.shop.market.marketplace import Market, make_market

__all__ = ["SHARES", "Market", "Shares", "make_market"]

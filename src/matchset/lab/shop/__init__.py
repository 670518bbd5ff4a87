"""A simulated shop: what would customers do if there were no log to read?"""

from matchset.lab.shop.facts import ShopFacts, describe_shop
from matchset.lab.shop.served import Crowd, Served, make_crowd, serve_crowd
from matchset.lab.shop.served_files import write_served_log, write_served_records
from matchset.lab.shop.simulate import Shop, ShopKind, simulate_shop, stream_shop

__all__ = [
    "Crowd",
    "Served",
    "Shop",
    "ShopFacts",
    "ShopKind",
    "describe_shop",
    "make_crowd",
    "serve_crowd",
    "simulate_shop",
    "stream_shop",
    "write_served_log",
    "write_served_records",
]

"""A simulated shop: what would customers do if there were no log to read?"""

from matchset.lab.shop.facts import ShopFacts, describe_shop
from matchset.lab.shop.simulate import Shop, ShopKind, simulate_shop, stream_shop

__all__ = ["Shop", "ShopFacts", "ShopKind", "describe_shop", "simulate_shop", "stream_shop"]

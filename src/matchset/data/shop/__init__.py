"""A simulated shop: what would customers do if there were no log to read?"""

from matchset.data.shop.facts import ShopFacts, describe_shop
from matchset.data.shop.shop import Shop, simulate_shop

__all__ = ["Shop", "ShopFacts", "describe_shop", "simulate_shop"]

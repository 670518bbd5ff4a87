"""Does `matchset plan` say what a training then takes?

python benchmarks/plan.py --kind shop --products 3000 10000 25000
python benchmarks/plan.py --kind marketplace --products 6000 --parts tree

Prints predicted and measured seconds, memory and size of the model. Use an idle machine.
"""

from __future__ import annotations

import argparse
import itertools

import matchset as ms
from matchset.learn.plan_training import measure, plan_training

ALL = ("tree", "towers", "lexical", "neighbors")


def main() -> None:
    """Plan and train on each shop."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kind", nargs="+", default=["shop"])
    parser.add_argument("--products", type=int, nargs="+", default=[3_000, 10_000])
    parser.add_argument("--parts", nargs="+", default=ALL)
    parser.add_argument("--untuned", action="store_true")
    options = parser.parse_args()
    config = ms.TrainConfig(parts=tuple(options.parts), tune=not options.untuned)
    print("| shop | | predicted | measured | ratio |\n|---|---|---|---|---|")
    for kind, n in itertools.product(options.kind, options.products):
        shop = ms.lab.simulate_shop(kind=kind, products=n, seed=1)
        planned, _ = plan_training(shop.log, shop.catalog, config)
        found = measure(shop.log, shop.catalog, config)
        for name, unit in (("seconds", 1), ("memory", 1e6), ("model", 1e6)):
            one, two = (getattr(cost, name) / unit for cost in (planned, found))
            print(f"| {kind}, {n:,} | {name} | {one:.1f} | {two:.1f} | {one / two:.2f} |")


if __name__ == "__main__":
    main()

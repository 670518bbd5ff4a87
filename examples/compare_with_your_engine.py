"""Does it find more than my engine? Record its answers, and compare on the same test."""

import csv
from pathlib import Path

import matchset as ms

shop = ms.demo_shop(products=640, searches=8_000)
train, test = ms.split_by_time(shop.log, test_days=30)
ours = ms.train(train, shop.catalog)

# Your engine writes a table of its answers to the test's queries: query, product, rank.
engine = ms.baselines.BM25.from_catalog(shop.catalog)  # stands in for it here
with Path("engine.csv").open("w", newline="", encoding="utf-8") as file:
    rows = csv.writer(file)
    rows.writerow(("query", "product_id", "rank"))
    for match in engine.match(list(test.queries), 100):
        rows.writerows((match.query, id, rank) for rank, id in enumerate(match.ids, start=1))

theirs = ms.baselines.read_run("engine.csv")
print(ms.compare_matchers({"match set": ours, "engine": theirs}, test))
print(ms.online.incremental_recall(ours, theirs, test))  # what either finds alone

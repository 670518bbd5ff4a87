"""How do new products and new clicks come in without a retraining?"""

import matchset as ms

shop = ms.demo_shop(products=640, searches=8_000)
train, since = ms.split_by_time(shop.log, test_days=30)
ms.train(train, shop.catalog, out="shop.matchset", overwrite=True)

# A new product is found at once, by its words and by what its title resembles.
new = ms.Upsert("NEW1", "Norvik Nova 100 Trail Running Shoes, Red, Size 42", {"price": 89.0})
with ms.open_writer("shop.matchset") as writer:  # keeps each change beside the model's file
    matcher = writer.upsert([new], remove=["P00001"])
print(matcher.match("jogging shoes red 42", k=3))
assert "NEW1" in matcher.match("norvik nova running shoes", k=10).ids

# The log since the training is learned in a fraction of the time.
with ms.open_writer("shop.matchset") as writer:
    refreshed = writer.refresh(since)
print(refreshed.refreshed)  # what was kept, what was solved again, and whether a training is due

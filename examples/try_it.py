"""What does it do? Learn from a shop's log, and answer queries."""

import matchset as ms

shop = ms.demo_shop(products=640, searches=8_000)  # yours: ms.read_log and ms.read_catalog
train, test = ms.split_by_time(shop.log, test_days=30)
matcher = ms.train(train, shop.catalog)

print(matcher.match("couch", k=3))  # no title says couch; customers who said it chose sofas
print(matcher.match(["hoodie red", "jogging shoes 42"], k=2))  # many queries at once are faster
print(ms.evaluate(matcher, test))

matcher.save("model", overwrite=True)
assert ms.load("model").match("couch") == matcher.match("couch")

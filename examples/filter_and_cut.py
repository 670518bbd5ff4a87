"""How do price and brand restrict the answers, and how is a match set cut by its scores?"""

import matchset as ms

shop = ms.demo_shop(products=640, searches=8_000)
matcher = ms.train(shop.log, shop.catalog)

print(matcher.match("running shoes", k=3, where="price < 100 and brand = 'Norvik'"))

# A filter that many queries share is prepared once; it may also be a list of product ids.
in_stock = matcher.filter(list(shop.catalog.ids)[::2])
print(matcher.match(["sofa", "tent"], k=3, where=in_stock))

# A score is a probability where the log has enough queries; the second rule needs no such scale.
print(matcher.summary)
print(len(matcher.match("sofa", k=100, min_score=0.01)), "products with a score of at least 0.01")
print(len(matcher.match("sofa", k=100, min_relative=0.1)), "with a tenth of the best score")

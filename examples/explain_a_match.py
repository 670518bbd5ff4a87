"""Why does a query get this product, and why not that one?"""

import matchset as ms

shop = ms.demo_shop(products=640, searches=8_000)
matcher = ms.train(shop.log, shop.catalog)

best = matcher.match("couch", k=1).ids[0]
print(matcher.explain("couch", best))  # what each part adds, and which words counted
kettle = next(id for id, title in zip(shop.catalog.ids, shop.catalog.titles) if "Kettle" in title)
print(matcher.explain("couch", kettle))  # why it is not among the answers
print(matcher.part("tree").explain("couch", best))  # the path through the tree

"""How does it stand beside lexical search? Fuse the two rankings, or serve both as one matcher."""

import matchset as ms

shop = ms.demo_shop(products=640, searches=8_000)
train, test = ms.split_by_time(shop.log, test_days=30)
model = ms.train(train, shop.catalog)
lexical = ms.baselines.BM25.from_catalog(shop.catalog)  # or your engine's answers

query = "norvik trainers 42"
print(ms.fuse_matches({"ours": model.match(query), "lexical": lexical.match(query)}, k=5))

both = ms.Fusion([model, lexical], weights=[2, 1])  # is saved, loaded and served like any matcher
print(both.match(query, k=5))
print(ms.compare_matchers({"both": both, "match set": model, "lexical": lexical}, test))

"""What a match set knows of a product for a query, from its parts alone, and how it orders them."""

import math

import numpy as np

from matchset import _native
from matchset.model.impact_lists import LARGEST
from matchset.model.packed import PackedTree
from matchset.model.reranker import DECISIVE, FEATURES, KNOWN_QUERY, NEW_QUERY, NEW_WORD
from matchset.strings import Strings
from matchset.text import normalize_strings


def column(name):
    return FEATURES.index(name)


def oracle(trained, query):
    """Features of every product, and the situation: no bound, no candidate."""
    model, data = trained.model, trained.data
    ids, weights = data.vectorizer.encode(query)
    n = len(data.products)
    found = np.zeros((n, len(FEATURES)))
    found[:, column("constant")] = 1
    found[:, column("popularity")] = np.log1p(data.n_queries_of)
    found[:, column("recent")] = np.log1p(data.recent)
    found[:, column("tree_missed")] = 1
    asked = model.neighbors.queries_of
    was_asked = {i for i in ids.tolist() if i < len(asked) and np.diff(asked.offsets)[i] > 0}
    if was_asked:
        rule = _native.SearchRule(k=n, beam=n, hinge_power=3, is_log=True, min_score=-math.inf)
        labels, logs = PackedTree.search_row(model.tree, ids.astype(np.int32), weights, rule)
        for label, log in inherit(dict(zip(labels, logs, strict=True)), model.heirs).items():
            if log >= -14:
                found[label, column("tree_score")] = math.exp(log)
                found[label, column("tree_log")] = log + 14
                found[label, column("tree_missed")] = 0
    towers = model.towers
    rows = towers.row_of[ids]
    vector = towers.table.to_floats()[rows[rows >= 0]].sum(axis=0)
    vector /= np.linalg.norm(vector) or 1
    found[towers.lists.labels, column("cosine")] = towers.lists.vectors.to_floats() @ vector
    votes, same = count_votes(model.neighbors, ids, weights, query, n)
    is_word = (ids >= model.lexical.first_word) & (ids < model.lexical.first_word + n_words(model))
    said, _ = count_votes(model.neighbors, ids[is_word], weights[is_word], query, n)
    share = votes / (votes.sum() or 1)
    found[:, column("vote_share")] = share
    found[:, column("vote_log")] = np.where(
        votes > 0, np.maximum(np.log(np.maximum(share, 1e-4)) + 9.21034, 0), 0
    )
    found[:, column("same_query")] = same
    words = model.lexical.first_word + np.flatnonzero(np.diff(model.lexical.titles_of.offsets))
    words = np.intersect1d(ids, words)
    is_new = np.array([word not in was_asked for word in words.tolist()], dtype=bool)
    situation = KNOWN_QUERY if same.any() else NEW_WORD if is_new.any() else NEW_QUERY
    codes = list_codes(data.vectorizer.vocabulary)
    has_new_code = bool(codes.intersection(ids.tolist()) - was_asked)
    describe_words(found, model.lexical, words, is_new)
    is_strange = situation == NEW_WORD or (has_new_code and situation == NEW_QUERY)
    decide(found, is_new, is_strange, said + same)
    return found, situation


def inherit(logs, heirs):
    """Log scores of what the tree found, and of products that take the places of these."""
    for heir, lenders in zip(heirs.labels, heirs.lenders, strict=True):
        lent = [logs[label] for label in (*lenders, heir) if label in logs]
        if lent:
            logs = logs | {heir: max(lent)}
    return logs


def list_codes(vocabulary):
    """Features that are several words with a digit, such as model numbers."""
    codes, begin = set(), 0
    for kind, size in zip(vocabulary.config.ngrams, vocabulary.sizes, strict=True):
        if kind.unit == "word" and kind.n > 1:
            each = range(begin, begin + size)
            codes |= {i for i in each if any(map(str.isdigit, vocabulary.names[i]))}
        begin += size
    return codes


def describe_words(found, index, words, is_new):
    """Features of the words of a query that titles have; each counts as much as it is rare."""
    n, lists = len(found), index.words_of
    has, bm25 = np.zeros((n, len(words))), np.zeros(n)
    for label in range(n):
        inside = slice(*lists.offsets[index.row_of[label] :][:2])
        own = lists.ids[inside] + index.first_word
        bm25[label] = lists.impacts[inside][np.isin(own, words)].sum() * index.scale
        has[label] = np.isin(words, own)
    found[:, column("bm25")] = bm25
    found[:, column("bm25_any")] = bm25 > 0
    found[:, column("bm25_share")] = bm25 / (bm25.max() or 1)
    df = has.sum(axis=0)
    rarity = np.log1p((n - df + 0.5) / (df + 0.5))
    share = rarity / (rarity.sum() or 1)
    found[:, column("word_share")] = has @ share
    found[:, column("all_words")] = has.all(axis=1) & (len(words) > 0)
    found[:, column("rarest_word")] = has[:, rarity == rarity.max(initial=0)].any(axis=1)
    found[:, column("new_words")] = has @ (share * is_new)
    found[:, column("new_words_not")] = (1 - has) @ (share * is_new)


def n_words(model):
    return len(model.lexical.titles_of)


def decide(found, is_new, is_strange, said):
    """By how much words decide the order; -1: after the best title with all of them."""
    has_all, share = found[:, column("all_words")], found[:, column("word_share")]
    if is_strange:
        found[:, column("words_decide")] = share if is_new.all() else has_all
    if has_all.any():
        found[(share == 0) & (said == 0), column("words_decide")] = -1


def count_votes(past, ids, weights, query, n):
    similarity = np.zeros(len(past))
    lists = past.queries_of
    for feature, weight in zip(ids, weights, strict=True):
        if feature < len(lists):
            inside = slice(*lists.offsets[feature : feature + 2])
            similarity[lists.ids[inside]] += weight * lists.impacts[inside] / LARGEST
    votes, same = np.zeros(n), np.zeros(n)
    for near in np.flatnonzero(similarity):
        inside = slice(*past.offsets[near : near + 2])
        votes[past.products[inside]] += similarity[near] ** 3
    own = np.flatnonzero(past.hashes == normalize_strings(Strings.of([query])).hashes()[0])
    for at in own:
        inside = slice(*past.offsets[past.by_hash[at] :][:2])
        same[past.products[inside]] = past.counts[inside]
    return votes, same


def count_greater(cosines):
    """How many are in a higher step of 1/128 than each."""
    step = ((1 - cosines) * np.float32(128)).clip(0).astype(int)
    return (step < step[:, None]).sum(axis=1)


def score_linearly(found, weights):
    """Linear scores of described candidates."""
    features = found.features
    is_warm = (features[:, column("popularity")] > 0).astype(int)
    situation = np.repeat(found.situations, np.diff(found.offsets))
    return (features.astype(float) * weights[situation, is_warm]).sum(axis=1)


def lift(found, linear):
    """Scores of one query, in which the best with all words is above all that have none."""
    decides = found.features[:, column("words_decide")]
    has_all = (found.features[:, column("all_words")] > 0) & (decides == 0)
    is_best = has_all & (linear == linear[has_all].max(initial=-np.inf))
    strange = linear[decides < 0].max(initial=-np.inf)
    return np.where(is_best, np.maximum(linear, strange + 1e-6), linear)


def decide_order(found, linear):
    """What the candidates of one query are ordered by."""
    decides = found.features[:, column("words_decide")]
    return lift(found, linear) + DECISIVE * decides.clip(0)

"""Tree explanation: which nodes lead to a product, and which n-grams speak for each?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from matchset.features.query_words import QueryWords, find_query_words
from matchset.features.vectorizer import Vectorizer
from matchset.matchers.explanation import Explanation, ExplanationStep, Weights, show_rank
from matchset.model.explain import LabelPath, Step, strongest
from matchset.model.packed import PackedTree
from matchset.model.products import Products

NAMED_BY = 4  # n-grams that name a node


@dataclass(frozen=True, slots=True, eq=False)
class PathNames:
    """Gives names to the nodes and features of a path through a tree.

    N-grams of the query are always named: who asks knows it. Others are where the vocabulary has
    kept names. Where it has none, words of the query and of the product's title stand for them.
    """

    vectorizer: Vectorizer
    tree: PackedTree
    query_words: QueryWords
    title_words: QueryWords | None = None  # where the vocabulary has no names

    @classmethod
    def of(
        cls, query: str, title: str | None, vectorizer: Vectorizer, tree: PackedTree
    ) -> PathNames:
        """The names that a query and a title give."""
        words = find_query_words(vectorizer, query)
        if len(vectorizer.vocabulary.names.used) > 0:
            return cls(vectorizer, tree, words)
        return cls(vectorizer, tree, words, find_query_words(vectorizer, title or ""))

    def name_steps(self, found: LabelPath, product_name: str) -> tuple[ExplanationStep, ...]:
        """The steps of a path; the last one is the product."""
        last = len(found.steps) - 1
        return tuple(
            self._name_step(step, product_name if step.level == last else self._name_node(step))
            for step in found.steps
        )

    def _name_node(self, step: Step) -> str:
        if self.title_words is None:
            features = strongest(self.tree, step.level, step.node, NAMED_BY).tolist()
            return ", ".join(map(self._name, features))
        known = {**self.title_words.words, **self.query_words.words}
        n_known = self.vectorizer.vocabulary.n_known
        ids = np.array(sorted(each for each in known if each < n_known), dtype=np.int32)
        features, weights, _ = self.tree.native.node_weights(step.level, step.node, ids)
        order = np.argsort(-weights, kind="stable")[: np.count_nonzero(weights > 0)]
        words = dict.fromkeys(word for feature in features[order] for word in known[int(feature)])
        return ", ".join(list(words)[:NAMED_BY]) or f"node {step.node + 1:,}"

    def _name(self, feature: int) -> str:
        return self.query_words.ngrams.get(feature) or self.vectorizer.name(feature)

    def _name_step(self, step: Step, name: str) -> ExplanationStep:
        counted: Weights = tuple(
            (self._name(int(feature)), round(float(value), 4))
            for feature, value in zip(step.features, step.contributions, strict=True)
        )
        if self.title_words is not None:
            counted = self.query_words.fold(step.features, step.contributions)
        return ExplanationStep(
            level=step.level,
            name=name,
            score=step.score,
            rank=step.rank,
            is_kept=step.is_kept,
            counted_for=tuple(pair for pair in counted if pair[1] > 0),
            counted_against=tuple(pair for pair in counted if pair[1] < 0),
            bias=step.bias,
        )


def explain_path(
    found: LabelPath,
    query: str,
    products: Products,
    names: PathNames,
    *,
    rank: int | None,
    is_allowed: bool,
) -> Explanation:
    """The explanation of a tree alone; `rank` is that in the answer."""
    title = None if products.titles is None else products.titles[found.label]
    product = products.ids[found.label]
    steps = names.name_steps(found, title or product)
    lost = next((step for step in steps if not step.is_kept), None)
    verdict = "other products rank higher"
    if not is_allowed:
        verdict = "the filter excludes it"
    elif rank is not None:
        verdict = f"found at rank {rank:,}"
    elif lost is not None:
        verdict = f"lost at level {lost.level + 1} of {len(steps)} ({show_rank(lost)})"
    return Explanation(
        query=query,
        product=product,
        title=title,
        score=found.score,
        rank=rank,
        is_returned=rank is not None,
        verdict=verdict,
        steps=steps,
        is_allowed=is_allowed,
    )

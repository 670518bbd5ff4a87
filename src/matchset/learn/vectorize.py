"""Vectorizing: how do queries and titles become features, in one task or in many?

Up to a limit, one function does it all. More texts are cut into ranges: tasks count their n-grams
and, when the vocabulary is chosen, make their rows. The bytes are the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from matchset.config import TrainConfig, VectorizerConfig
from matchset.features.ngram_counts import NGramCounts, add_counts, count_ngrams
from matchset.features.stems import Stems, WordList, lay_out_stems, list_words, unite_words
from matchset.features.vectorizer import Vectorizer
from matchset.features.vocabulary import (
    Vocabulary,
    count_unknown,
    make_vocabulary,
    weigh_unknown,
)
from matchset.learn.training_data import (
    Features,
    TrainingData,
    TrainingPairs,
    list_texts,
    make_examples,
    make_features,
)
from matchset.matrices import Csr, from_scipy, join_rows
from matchset.strings import Strings
from matchset.text import normalize_strings
from matchset.work.cuts import plan_parts
from matchset.work.steps import Steps


@dataclass(frozen=True, slots=True)
class TextRange:
    """Some of the queries, of the titles or of the texts beside them (see `list_texts`)."""

    kind: str
    begin: int
    end: int


@dataclass(frozen=True, slots=True, eq=False)
class _Texts:
    """All texts of a training, by kind, of which tasks read ranges."""

    by_kind: dict[str, Strings]
    counts: NDArray[np.float64]  # how often each query occurred
    least: float  # count of a query that may be shown to people

    @classmethod
    def of(cls, pairs: TrainingPairs, config: TrainConfig) -> _Texts:
        texts = list_texts(pairs.queries, pairs.products, config)
        return cls(texts, pairs.counts, config.min_query_count)

    def cut(self, most: int) -> list[TextRange]:
        """Return ranges of at most so many bytes; none if all texts together have no more."""
        offsets = {kind: texts.offsets - texts.offsets[0] for kind, texts in self.by_kind.items()}
        if sum(int(each[-1]) for each in offsets.values()) <= most:
            return []
        ranges: list[TextRange] = []
        for kind, each in offsets.items():
            starts = [part.start for part in plan_parts(int(each[-1]), most)]
            cuts = np.unique([*np.searchsorted(each, starts), len(each) - 1]).tolist()
            ranges += [TextRange(kind, begin, end) for begin, end in pairwise(cuts)]
        return ranges

    def read(self, chosen: TextRange) -> tuple[Strings, NDArray[np.bool_]]:
        """Return the texts of a range, and which of them may be shown."""
        texts = self.by_kind[chosen.kind].slice(chosen.begin, chosen.end)
        if chosen.kind == "queries":
            return texts, self.counts[chosen.begin : chosen.end] >= self.least
        return texts, np.ones(len(texts), dtype=np.bool_)


def vectorize(step: Steps, pairs: TrainingPairs, config: TrainConfig) -> TrainingData:
    """Fit the vectorizer, and make the matrices to train on."""
    texts = _Texts.of(pairs, config)
    ranges = texts.cut(step.cuts.text_bytes)
    if ranges:
        features = _vectorize_ranges(step, pairs, texts, ranges, config)
    else:
        features = step("vectorize", make_features, pairs, config, threads=step.threads)
    return TrainingData.of(pairs, features)


def _vectorize_ranges(
    step: Steps,
    pairs: TrainingPairs,
    texts: _Texts,
    ranges: list[TextRange],
    config: TrainConfig,
) -> Features:
    rule, stems = config.vectorizer, None
    if pairs.language is not None:
        list_of = partial(_list_words, texts, pairs.language)
        words = step.map("vectorize.words", list_of, ranges, is_wide=True)
        stems = step("vectorize.stems", _unite_stems, pairs.language, words)
    counts = step.map("vectorize.ngrams", partial(_count, texts, rule, stems), ranges, is_wide=True)
    vocabulary = step(
        "vectorize.vocabulary",
        _choose_ngrams,
        counts,
        rule,
        sum(one.end - one.begin for one in ranges),
        stems,
        threads=step.threads,
    )
    unknown = step.map(
        "vectorize.unknown", partial(_count_unknown, texts, vocabulary), ranges, is_wide=True
    )
    vectorizer = Vectorizer.of(weigh_unknown(vocabulary, np.stack(unknown).sum(axis=0)))
    rows = step.map("vectorize.rows", partial(_vectorize, texts, vectorizer), ranges, is_wide=True)
    X = [part for part, one in zip(rows, ranges, strict=True) if one.kind != "more"]
    more = [part for part, one in zip(rows, ranges, strict=True) if one.kind == "more"]
    return step("vectorize", _join, vectorizer, X, more, pairs, config)


def _list_words(texts: _Texts, language: str, chosen: TextRange, *, threads: int) -> WordList:
    """Return the words of a range with their stems."""
    some, is_shown = texts.read(chosen)
    normalized = normalize_strings(some, threads=threads)
    return list_words(normalized, language, is_shown, threads=threads)


def _unite_stems(language: str, parts: Sequence[WordList]) -> Stems:
    """Return the stems of the words of all ranges."""
    return lay_out_stems(language, unite_words(parts))


def _count(
    texts: _Texts,
    config: VectorizerConfig,
    stems: Stems | None,
    chosen: TextRange,
    *,
    threads: int,
) -> tuple[NGramCounts, ...]:
    """Count all n-grams of a range, of each kind."""
    some, is_shown = texts.read(chosen)
    normalized = normalize_strings(some, threads=threads)
    return tuple(
        count_ngrams(normalized, config, stems, threads=threads, shown=is_shown, is_part=True)
    )


def _choose_ngrams(
    parts: Sequence[Sequence[NGramCounts]],
    config: VectorizerConfig,
    n_texts: int,
    stems: Stems | None,
    *,
    threads: int,
) -> Vocabulary:
    """Choose the vocabulary of all ranges; unknown n-grams do not have their weight yet."""
    kinds = zip(*parts, strict=True)  # the parts of each
    counts = [add_counts(each, kind) for each, kind in zip(kinds, config.ngrams, strict=True)]
    return make_vocabulary(counts, config, n_texts, stems=stems, threads=threads)


def _count_unknown(
    texts: _Texts, vocabulary: Vocabulary, chosen: TextRange, *, threads: int
) -> NDArray[np.int64]:
    """Count the texts of a range that have unknown n-grams."""
    some, _ = texts.read(chosen)
    return count_unknown(vocabulary, some, threads=threads)


def _vectorize(texts: _Texts, vectorizer: Vectorizer, chosen: TextRange, *, threads: int) -> Csr:
    """Return the rows of a range."""
    some, _ = texts.read(chosen)
    return from_scipy(vectorizer.transform(some, threads=threads))


def _join(
    vectorizer: Vectorizer,
    X: Sequence[Csr],
    more: Sequence[Csr],
    pairs: TrainingPairs,
    config: TrainConfig,
) -> Features:
    """Join the rows of all ranges."""
    examples = make_examples(join_rows(X), pairs.positives, config.title_weight)
    return Features(vectorizer, examples, join_rows(more) if more else None)

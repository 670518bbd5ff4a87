"""Tasks of texts: how do queries and titles become features, on one machine or on many?

Up to a limit, one task does it all. More texts are cut into ranges: many machines count their
n-grams and, when the vocabulary is chosen, make their rows. The bytes are the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matchset.config import TrainConfig
from matchset.features.ngram_counts import add_counts, count_ngrams
from matchset.features.stems import lay_out_stems, list_words, unite_words
from matchset.features.vectorizer import Vectorizer
from matchset.features.vocabulary import count_unknown, make_vocabulary, weigh_unknown
from matchset.learn.match_set_tasks import INPUT, PartSource, find_positives, read_pairs
from matchset.learn.training_data import list_texts, make_examples, vectorize_texts
from matchset.matrices import from_scipy
from matchset.strings import Strings
from matchset.text import normalize_strings
from matchset.work.results import join_rows
from matchset.work.tasks import Job, Results, Run, Stage, Task, plan_parts

MOST_BYTES = 1 << 27  # of the texts of a range: some millions of texts


@dataclass(frozen=True, slots=True)
class TextRange:
    """Some of the queries, of the titles or of the texts beside them (see `list_texts`)."""

    kind: str
    begin: int
    end: int

    def __str__(self) -> str:
        return f"{self.kind}-{self.begin}-{self.end}"


@dataclass(frozen=True, slots=True)
class CutTexts:
    """The texts of a training, and how they are cut."""

    source: PartSource
    config: TrainConfig
    ranges: tuple[TextRange, ...]  # in the order of the texts; none if one task does it all

    @classmethod
    def of(cls, results: Results, source: PartSource, config: TrainConfig) -> CutTexts:
        """Cut the texts; nothing but their sizes decides."""
        whole = cls(source, config, ())
        texts = whole.read_all(results)
        offsets = {kind: each.offsets - each.offsets[0] for kind, each in texts.items()}
        if sum(int(each[-1]) for each in offsets.values()) <= MOST_BYTES:
            return whole
        ranges: list[TextRange] = []
        for kind, each in offsets.items():
            starts = [part.start for part in plan_parts(int(each[-1]), MOST_BYTES)]
            cuts = np.unique([*np.searchsorted(each, starts), len(each) - 1]).tolist()
            ranges += [TextRange(kind, begin, end) for begin, end in pairwise(cuts)]
        return cls(source, config, tuple(ranges))

    def read_all(self, results: Results) -> dict[str, Strings]:
        """All texts, by their kind."""
        queries, products = (results.get(self.source.pairs, n) for n in ("queries", "products"))
        return list_texts(queries, products, self.config)

    def read(self, results: Results, chosen: TextRange) -> tuple[Strings, NDArray[np.bool_]]:
        """The texts of a range, and which of them may be shown to people."""
        texts = self.read_all(results)[chosen.kind].slice(chosen.begin, chosen.end)
        if chosen.kind != "queries":
            return texts, np.ones(len(texts), dtype=np.bool_)
        counts = results.get(self.source.pairs, "counts")[chosen.begin : chosen.end]
        return texts, counts >= self.config.min_query_count

    def name(self, step: str, chosen: TextRange | None = None) -> str:
        """The name of the task of a step, or of its task for a range."""
        return f"{self.source.data}.{step}" + ("" if chosen is None else f"/{chosen}")

    def get(self, results: Results, step: str) -> Any:
        """What the task of a step made."""
        return results.get(self.name(step), step)

    def get_parts(self, results: Results, step: str) -> list[Any]:
        """What the tasks of a step made for each range."""
        return [results.get(self.name(step, one), step) for one in self.ranges]


def data_stages(source: PartSource, config: TrainConfig) -> list[Stage]:
    """The stages that end with the training data; where texts are few, most have no tasks."""
    p, pairs = f"{source.data}.", source.pairs
    log = (source.held, INPUT) if source.is_tuning else (INPUT,)
    given = {"source": source, "config": config}

    def stage(step: str, run: Run, *needs: str, is_cut: bool = False) -> Stage:
        plan = partial(_plan_step, step, run, is_cut, given)
        return Stage(p + step, plan, (pairs, *(p + need for need in needs)))

    rows = tuple(p + step for step in ("vocabulary", "unknown", "rows"))
    return [
        Stage.of(Task(pairs, find_positives, given, is_wide=True), *log),
        stage("words", _list_words, is_cut=True),
        stage("stems", _unite_words, "words"),
        stage("ngrams", _count_ngrams, "stems", is_cut=True),
        stage("vocabulary", _choose_ngrams, "stems", "ngrams"),
        stage("unknown", _count_unknown, "vocabulary", is_cut=True),
        stage("rows", _vectorize, "vocabulary", "unknown", is_cut=True),
        Stage(source.data, partial(_plan_data, given), (pairs, *rows)),
    ]


def _plan_step(
    step: str, run: Run, is_cut: bool, given: Mapping[str, Any], results: Results
) -> list[Task]:
    """A task for each range, or one that joins what those made; none if texts are not cut."""
    texts = CutTexts.of(results, **given)
    if not is_cut:
        return [Task(texts.name(step), run, {"texts": texts}, is_wide=True)] if texts.ranges else []
    return [
        Task(texts.name(step, one), run, {"texts": texts, "chosen": one}, is_wide=True)
        for one in texts.ranges
    ]


def _plan_data(given: Mapping[str, Any], results: Results) -> list[Task]:
    texts = CutTexts.of(results, **given)
    return [Task(texts.source.data, _make_data, {"texts": texts}, is_wide=True)]


def _list_words(job: Job, texts: CutTexts, chosen: TextRange) -> Mapping[str, Any]:
    """The words of a range with their stems; None if words are not stemmed."""
    language = job.results.get(texts.source.pairs, "language")
    if language is None:
        return {"words": None}
    own, shown = texts.read(job.results, chosen)
    normalized = normalize_strings(own, threads=job.threads)
    return {"words": list_words(normalized, language, shown, threads=job.threads)}


def _unite_words(job: Job, texts: CutTexts) -> Mapping[str, Any]:
    """The stems of all words."""
    language = job.results.get(texts.source.pairs, "language")
    if language is None:
        return {"stems": None}
    words = unite_words(texts.get_parts(job.results, "words"))
    return {"stems": lay_out_stems(language, words)}


def _count_ngrams(job: Job, texts: CutTexts, chosen: TextRange) -> Mapping[str, Any]:
    """All n-grams of a range."""
    own, shown = texts.read(job.results, chosen)
    counted = count_ngrams(
        normalize_strings(own, threads=job.threads),
        texts.config.vectorizer,
        texts.get(job.results, "stems"),
        threads=job.threads,
        shown=shown,
        is_part=True,
    )
    return {"ngrams": counted}


def _choose_ngrams(job: Job, texts: CutTexts) -> Mapping[str, Any]:
    """The vocabulary of all ranges; unknown n-grams do not have their weight yet."""
    config = texts.config.vectorizer
    kinds = zip(*texts.get_parts(job.results, "ngrams"), strict=True)  # the parts of each
    vocabulary = make_vocabulary(
        [add_counts(parts, kind) for parts, kind in zip(kinds, config.ngrams, strict=True)],
        config,
        sum(one.end - one.begin for one in texts.ranges),
        stems=texts.get(job.results, "stems"),
        threads=job.threads,
    )
    return {"vocabulary": vocabulary}


def _count_unknown(job: Job, texts: CutTexts, chosen: TextRange) -> Mapping[str, Any]:
    """How many texts of a range have unknown n-grams."""
    own, _ = texts.read(job.results, chosen)
    vocabulary = texts.get(job.results, "vocabulary")
    return {"unknown": count_unknown(vocabulary, own, threads=job.threads)}


def _read_vectorizer(results: Results, texts: CutTexts) -> Vectorizer:
    """The vectorizer, in which unknown n-grams have their weight."""
    counts = np.stack(texts.get_parts(results, "unknown")).sum(axis=0)
    return Vectorizer.of(weigh_unknown(texts.get(results, "vocabulary"), counts))


def _vectorize(job: Job, texts: CutTexts, chosen: TextRange) -> Mapping[str, Any]:
    """The rows of a range."""
    own, _ = texts.read(job.results, chosen)
    rows = _read_vectorizer(job.results, texts).transform(own, threads=job.threads)
    return {"rows": from_scipy(rows)}


def _make_data(job: Job, texts: CutTexts) -> Mapping[str, Any]:
    """The vectorizer and the matrices to train on."""
    pairs = read_pairs(job.results, texts.source)
    if texts.ranges:
        vectorizer = _read_vectorizer(job.results, texts)
        more = [texts.name("rows", one) for one in texts.ranges if one.kind == "more"]
        X = [texts.name("rows", one) for one in texts.ranges if one.kind != "more"]
        rows = join_rows(job.results, X, "rows")
        X_more = join_rows(job.results, more, "rows") if more else None
    else:
        vectorizer, rows, X_more = vectorize_texts(pairs, texts.config, threads=job.threads)
    return {
        "n_queries": len(pairs.queries),
        "vectorizer": vectorizer,
        "examples": make_examples(rows, pairs.positives, texts.config.title_weight),
        "X_more": X_more,
    }

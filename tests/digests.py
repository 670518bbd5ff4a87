"""Digests of a trained matcher, to compare threads, builds and versions: `python tests/digests.py`.

They are of what arrays and texts hold, not of how a file stores them: neither the format of a model
nor the names of fields within a part change them.
"""

import hashlib
import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace

import numpy as np
from word_shop import make_config, make_shop

import matchset as ms
from matchset.features.vectorizer import Vectorizer
from matchset.strings import Strings

N_QUERIES = 1000  # of the log, and of those that are answered
DESCRIBES = {"config", "provenance"}  # threads and times: the training, not what was learned


def train(threads):
    """Train a small match set with a learned re-ranker."""
    log, catalog = make_shop(N_QUERIES, days=60)
    config = make_config()
    config = replace(config, learn=replace(config.learn, threads=threads))
    return ms.train(log, catalog, config)


def digests(matcher: ms.Matcher) -> dict[str, str]:
    """Return a digest of each part, of the products, and of answers to the shop's queries."""
    parts = dict(_fields(matcher))
    if "model" in parts:
        parts |= _fields(parts.pop("model"))
    values = {name: sorted(_digests(part)) for name, part in parts.items()}
    found = {name: _join(part) for name, part in values.items() if part}
    return dict(sorted(found.items())) | {"answers": digest_answers(matcher)}


def digest_answers(matcher: ms.Matcher) -> str:
    """Return a digest of ids, titles, and every bit of the scores."""
    log, _ = make_shop(N_QUERIES)
    found = hashlib.sha256()
    for match in matcher.match(list(log.queries), 100):
        titles = match.titles or ()
        found.update("\0".join([match.query, *match.ids, *titles]).encode())
        found.update(match.scores.tobytes())
    return found.hexdigest()


def _digests(value: object) -> Iterator[str]:
    """Find arrays and texts in what a part is made of, however deep; empty ones say nothing."""
    if isinstance(value, np.ndarray):
        if value.size:
            yield _join([f"{value.dtype} {value.shape}", value.tobytes()])
    elif isinstance(value, Strings):
        if len(value):
            yield _join(value)
    else:
        for each in _children(value):
            yield from _digests(each)


def _children(value: object) -> Iterable[object]:
    if isinstance(value, Vectorizer):
        return (value.vocabulary,)
    if is_dataclass(value):
        return (each for _, each in _fields(value))
    if isinstance(value, Mapping):
        return value.values()
    return value if isinstance(value, tuple | list) else ()


def _fields(value: object) -> Iterator[tuple[str, object]]:
    """Fields that say what was learned: no caches, native objects or records of the training."""
    for field in fields(value):
        if field.init and not field.name.startswith("_") and field.name not in DESCRIBES:
            yield field.name, getattr(value, field.name)


def _join(values: Iterable[str | bytes]) -> str:
    found = hashlib.sha256()
    for value in values:
        data = value.encode() if isinstance(value, str) else value
        found.update(len(data).to_bytes(8) + data)
    return found.hexdigest()


if __name__ == "__main__":
    trained = train(int(sys.argv[1]) if len(sys.argv) > 1 else 2)
    assert trained.model.reranker.is_learned
    sys.stdout.write(json.dumps(digests(trained), indent=1) + "\n")

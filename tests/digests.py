"""Digests of a trained match set, to compare threads and builds: `python tests/digests.py`."""

import hashlib
import json
import sys
from dataclasses import replace

from match_sets import make_config, make_shop

import matchset as ms
from matchset.storage.sections import Section

N_QUERIES = 1000  # of the log


def train(threads):
    """A small match set with a learned re-ranker."""
    log, catalog = make_shop(N_QUERIES, days=60)
    config = make_config()
    config = replace(config, learn=replace(config.learn, threads=threads))
    return ms.train(log, catalog, config)


def digest(section: Section) -> str:
    """Of the header and of every array."""
    found = hashlib.sha256(json.dumps(section.header, sort_keys=True).encode())
    for name, array in sorted(section.arrays.items()):
        found.update(f"{name} {array.dtype} {array.shape}".encode())
        found.update(array.tobytes())
    return found.hexdigest()


def digests(matcher: ms.Matcher) -> dict[str, str]:
    """One for each section; of the record of the training its arrays alone, since it has times."""
    sections = dict(matcher._sections())
    sections["training"] = Section({}, sections["training"].arrays)
    return {name: digest(section) for name, section in sections.items()}


if __name__ == "__main__":
    trained = train(int(sys.argv[1]) if len(sys.argv) > 1 else 2)
    assert trained.model.reranker.is_learned
    sys.stdout.write(json.dumps(digests(trained), indent=1) + "\n")

"""The answers of today stay what they are, to the last bit of a score: what every redesign keeps.

After a change that is meant to change answers: `python tests/test_answers_bytes.py`.
"""

import hashlib
import json
from pathlib import Path

import pytest

import matchset as ms

EXPECTED = Path(__file__).parent / "golden" / "answers.json"
KINDS = ("shop", "marketplace")
N_QUERIES = 1000


def digest(values):
    """Of texts or arrays: what they mean, not how they are stored."""
    found = hashlib.sha256()
    for value in values:
        if isinstance(value, str):
            found.update(value.encode() + b"\0")
        else:
            found.update(f"{value.dtype} {value.shape}".encode() + value.tobytes())
    return found.hexdigest()


def digest_shop(kind):
    """Of a simulated shop and of a match set that was trained on it."""
    shop = ms.lab.simulate_shop(kind=kind, products=500, seed=3)
    log, catalog = shop.log, shop.catalog
    matcher = ms.train(log, catalog)
    queries = list(log.queries)[:N_QUERIES]
    matches = matcher.match(queries, 20)
    texts = (text for match in matches for text in (match.query, *match.ids, *match.titles))
    return {
        "log": digest([*log.queries, *log.products, log.query, log.product, log.day, log.count]),
        "catalog": digest([*catalog.ids, *catalog.titles]),
        "products": digest([*matcher.products.ids, *matcher.products.titles]),
        "answers": digest(texts),
        "scores": digest(match.scores for match in matches),
    }


@pytest.mark.parametrize("kind", KINDS)
def test_answers_are_those_of_before(kind):
    assert digest_shop(kind) == json.loads(EXPECTED.read_text())[kind]


if __name__ == "__main__":
    EXPECTED.write_text(json.dumps({kind: digest_shop(kind) for kind in KINDS}, indent=1) + "\n")

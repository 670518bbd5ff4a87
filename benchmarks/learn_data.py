"""Learning problems: which X and Y do the learning benchmarks use?

A generated problem (products with shared attributes, Zipf popularity, misspelt and reordered
queries), and the two real data sets where they are at hand. Needs scikit-learn.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.preprocessing import normalize

SYLLABLES = [c + v + e for c in "bdfgklmnprstvz" for v in "aeiou" for e in ("", "n", "r", "s", "l")]


@dataclass(frozen=True)
class Problem:
    """Training and held-out rows of one problem."""

    X: sp.csr_matrix  # (n_train, n_features)
    Y: sp.csr_matrix  # (n_train, n_labels)
    X_test: sp.csr_matrix
    Y_test: sp.csr_matrix


def generate(n_products: int, n_queries: int, *, seed: int = 0) -> Problem:
    """Make a shop of `n_products`; a query names some attributes, its clicks go to who has them."""
    rng = np.random.default_rng(seed)
    words = _words(rng, 4000 + n_products // 10)
    n_categories = max(8, n_products // 100)
    category = _zipf(rng, n_categories, n_products, 0.5)
    # Words of a product: two of its category, a brand, three attributes, a model number.
    of_category = rng.integers(0, 2000, size=(n_categories, 2))
    brand = 2000 + (category * 7 + rng.integers(0, 12, n_products)) % (len(words) - 2500)
    attributes = len(words) - 500 + _zipf(rng, 500, 3 * n_products, 1.0).reshape(-1, 3)
    model = rng.integers(2000, len(words) - 500, n_products)
    popularity = rng.permutation(1 / np.arange(1, n_products + 1) ** 0.8)

    source = rng.choice(n_products, n_queries, p=popularity / popularity.sum())
    members = np.argsort(category, kind="stable")
    starts = np.searchsorted(category[members], np.arange(n_categories + 1))
    texts, rows, columns = [], [], []
    for query, product in enumerate(source):
        named = [words[w] for w in of_category[category[product]]][: 1 + (rng.random() < 0.5)]
        wants_brand = rng.random() < 0.5
        wanted = attributes[product][: rng.integers(0, 3)]
        if wants_brand:
            named.append(words[brand[product]])
        if is_model := rng.random() < 0.15:
            named.append(words[model[product]])
        named += [words[w] for w in wanted]
        texts.append(_garble(rng, named))
        clicked = {int(product)}
        if not is_model:
            near = members[starts[category[product]] : starts[category[product] + 1]]
            fits = (attributes[near][:, :, None] == wanted).any(1).all(1)
            if wants_brand:
                fits &= brand[near] == brand[product]
            if fits.any():
                n = min(int(fits.sum()), int(rng.geometric(0.25)))
                share = popularity[near] * fits
                clicked |= {int(p) for p in rng.choice(near, n, False, share / share.sum())}
        rows += [query] * len(clicked)
        columns += clicked
    Y = sp.csr_matrix((np.ones(len(rows), np.float32), (rows, columns)), (n_queries, n_products))
    return split(vectorize(texts), Y, n_queries - max(1000, n_queries // 20))


def cooking(folder: Path) -> Problem:
    """Question titles and their tags, on the usual split."""
    pairs = _read(folder / "cooking" / "pairs.tsv")
    texts = {line: text for line, text, _ in pairs}
    Y = _positives([(line, tag) for line, _, tag in pairs], list(texts))
    return split(vectorize(list(texts.values())), Y, 12_404)


def homedepot(folder: Path, *, seed: int = 0) -> Problem:
    """Shopping queries and products judged relevant, split by query, one in five held out."""
    pairs = [p for p in _read(folder / "homedepot" / "pairs.tsv") if float(p[2]) >= 2.33]
    texts = list(dict.fromkeys(text.lower() for text, _, _ in pairs))
    np.random.default_rng(seed).shuffle(texts)
    Y = _positives([(text.lower(), product) for text, product, _ in pairs], texts)
    return split(vectorize(texts), Y, len(texts) * 4 // 5)


def vectorize(texts: list[str]) -> sp.csr_matrix:
    """Word unigrams and bigrams and character trigrams inside words, TF-IDF, rows of length one."""
    word = TfidfVectorizer(ngram_range=(1, 2), token_pattern=r"\S+", dtype=np.float32)
    char = TfidfVectorizer(ngram_range=(3, 3), analyzer="char_wb", dtype=np.float32)
    return normalize(sp.hstack([word.fit_transform(texts), char.fit_transform(texts)], "csr"))


def split(X: sp.csr_matrix, Y: sp.csr_matrix, n_train: int) -> Problem:
    """First rows to train, the rest to test."""
    return Problem(X[:n_train], Y[:n_train], X[n_train:], Y[n_train:])


def save(problem: Problem, folder: Path) -> None:
    """Write the four matrices as .npz files that SciPy and PECOS read."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("X", "Y", "X_test", "Y_test"):
        matrix = sp.csr_matrix(getattr(problem, name), dtype=np.float32)
        matrix.sort_indices()
        sp.save_npz(folder / f"{name}.npz", matrix, compressed=False)


def _words(rng: np.random.Generator, n: int) -> list[str]:
    drawn: dict[str, None] = {}
    while len(drawn) < n:
        drawn["".join(rng.choice(SYLLABLES, rng.integers(2, 4)))] = None
    return list(drawn)


def _zipf(rng: np.random.Generator, n: int, size: int, exponent: float) -> np.ndarray:
    share = 1 / np.arange(1, n + 1) ** exponent
    return rng.choice(n, size, p=share / share.sum())


def _garble(rng: np.random.Generator, named: list[str]) -> str:
    if rng.random() < 0.15:
        rng.shuffle(named)
    text = " ".join(named)
    if rng.random() < 0.1:
        at = rng.integers(0, len(text))
        text = text[:at] + text[at + 1 :]
    return text or named[0]


def _read(path: Path) -> list[list[str]]:
    with path.open(encoding="utf-8", newline="") as lines:
        return list(csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))[1:]


def _positives(pairs: list[tuple[str, str]], queries: list[str]) -> sp.csr_matrix:
    row = {query: i for i, query in enumerate(queries)}
    column: dict[str, int] = {}
    columns = [column.setdefault(product, len(column)) for _, product in pairs]
    ones = np.ones(len(pairs), np.float32)
    Y = sp.csr_matrix((ones, ([row[q] for q, _ in pairs], columns)), (len(row), len(column)))
    Y.data[:] = 1
    return Y

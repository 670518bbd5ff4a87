"""A stand-in for sentence-transformers: words are drawn at random, a text is the sum of its own."""

import sys
import types
import zlib

import numpy as np

DIMENSIONS = 24


class SentenceTransformer:
    """What the real one offers, as far as we use it."""

    def __init__(self, folder, *, local_files_only):
        assert local_files_only  # nothing is ever downloaded
        self.folder = folder

    def encode(self, texts, **options):
        assert options["normalize_embeddings"]
        rows = np.stack([sum(map(draw_word, text.lower().split()), np.zeros(24)) for text in texts])
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        return (rows / np.maximum(lengths, 1e-9)).astype(np.float32)


def draw_word(word):
    return np.random.default_rng(zlib.crc32(word.encode())).normal(size=DIMENSIONS)


def make_encoder(folder, text="{}"):
    """A folder that looks like an encoder's."""
    folder.mkdir()
    (folder / "modules.json").write_text(text)
    return folder


def install_stand_in(monkeypatch):
    """Put the stand-in where the package would be."""
    module = types.ModuleType("sentence_transformers")
    module.SentenceTransformer = SentenceTransformer
    monkeypatch.setitem(sys.modules, "sentence_transformers", module)

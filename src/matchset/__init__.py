"""matchset: learn from a search log which products answer a query."""

from matchset.config import NGrams, VectorizerConfig
from matchset.features.vectorizer import Vectorizer

__all__ = ["NGrams", "Vectorizer", "VectorizerConfig"]

"""matchset: learn from a search log which products answer a query."""

from matchset.config import LearnConfig, NGrams, VectorizerConfig
from matchset.features.vectorizer import Vectorizer
from matchset.matchers.xr_linear import XRLinear

__all__ = ["LearnConfig", "NGrams", "Vectorizer", "VectorizerConfig", "XRLinear"]

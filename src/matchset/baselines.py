"""Baselines: which simple matchers, and which recorded answers, is a match set compared with?"""

from matchset.matchers.bm25 import BM25
from matchset.matchers.nearest_queries import NearestQueries
from matchset.matchers.popularity import Popularity
from matchset.matchers.recorded_run import RecordedRun, read_run, record_run
from matchset.matchers.title_similarity import TitleSimilarity
from matchset.matchers.xr_linear import XRLinearMatcher

__all__ = [
    "BM25",
    "NearestQueries",
    "Popularity",
    "RecordedRun",
    "TitleSimilarity",
    "XRLinearMatcher",
    "read_run",
    "record_run",
]

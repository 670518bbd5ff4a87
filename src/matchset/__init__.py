"""matchset: learn from a search log which products answer a query."""

from matchset.config import LearnConfig, NGrams, TrainConfig, VectorizerConfig
from matchset.data.catalog import Catalog
from matchset.data.catalog_reader import read_catalog
from matchset.data.log import Log
from matchset.data.positives import Positives, positives, relevance
from matchset.data.read import read_log
from matchset.data.shop import Shop, describe_shop, simulate_shop
from matchset.data.split import Split, split_by_query, split_by_time
from matchset.data.ubi import read_ubi
from matchset.errors import DataError, FilterError, ModelFileError
from matchset.evaluate.evaluation import Evaluation, evaluate
from matchset.features.vectorizer import Vectorizer
from matchset.matchers.match import Match, Matches
from matchset.matchers.popularity import Popularity
from matchset.matchers.protocol import Matcher
from matchset.matchers.train import train
from matchset.matchers.tree_matcher import TreeMatcher
from matchset.matchers.xr_linear import XRLinear
from matchset.model.filters import Filter
from matchset.parts import verify

load = TreeMatcher.load

__all__ = [
    "Catalog",
    "DataError",
    "Evaluation",
    "Filter",
    "FilterError",
    "LearnConfig",
    "Log",
    "Match",
    "Matcher",
    "Matches",
    "ModelFileError",
    "NGrams",
    "Popularity",
    "Positives",
    "Shop",
    "Split",
    "TrainConfig",
    "TreeMatcher",
    "Vectorizer",
    "VectorizerConfig",
    "XRLinear",
    "describe_shop",
    "evaluate",
    "load",
    "positives",
    "read_catalog",
    "read_log",
    "read_ubi",
    "relevance",
    "simulate_shop",
    "split_by_query",
    "split_by_time",
    "train",
    "verify",
]

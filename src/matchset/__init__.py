"""matchset: learn from a search log which products answer a query."""

from importlib.metadata import version

from matchset.client.client import Client
from matchset.config import LearnConfig, NGrams, TrainConfig, VectorizerConfig
from matchset.data.catalog import Catalog
from matchset.data.catalog_reader import read_catalog
from matchset.data.log import Log
from matchset.data.log_reader import read_log, read_ubi
from matchset.data.positives import Positives, positives, relevance
from matchset.data.split import Split, split_by_query, split_by_time
from matchset.errors import (
    DataError,
    FilterError,
    InputError,
    ModelFileError,
    ParameterError,
    ServerError,
    TargetExistsError,
    UncertainWriteError,
)
from matchset.evaluate.compare import Comparison, compare_matchers
from matchset.evaluate.evaluation import Evaluation, evaluate
from matchset.evaluate.latency import Latency, measure_latency
from matchset.evaluate.overlap import IncrementalRecall, incremental_recall
from matchset.features.vectorizer import Vectorizer
from matchset.filters.filter import Filter
from matchset.lab.dssm.exact import DSSM
from matchset.lab.dssm.hnsw import DSSMWithHNSW
from matchset.lab.dssm.int8 import DSSMWithInt8
from matchset.lab.dssm.settings import DSSMConfig
from matchset.lab.dssm.training import train_dssm
from matchset.lab.sentence_encoder import SentenceEncoder
from matchset.lab.shop import Shop, describe_shop, simulate_shop, stream_shop
from matchset.matchers.base import Matcher
from matchset.matchers.bm25 import BM25
from matchset.matchers.estimator import XRLinear
from matchset.matchers.fusion import Fusion, fuse_matches
from matchset.matchers.fusion_rules import FusionRule
from matchset.matchers.match import Match, Matches
from matchset.matchers.match_set import MatchSet
from matchset.matchers.nearest_queries import NearestQueries
from matchset.matchers.popularity import Popularity
from matchset.matchers.recorded_run import RecordedRun, read_run, record_run
from matchset.matchers.registry import load
from matchset.matchers.title_similarity import TitleSimilarity
from matchset.matchers.train import train
from matchset.matchers.xr_linear import XRLinearMatcher
from matchset.model.upserts import Upsert
from matchset.storage.sections import verify

__version__ = version("matchset")

__all__ = [
    "BM25",
    "DSSM",
    "Catalog",
    "Client",
    "Comparison",
    "DSSMConfig",
    "DSSMWithHNSW",
    "DSSMWithInt8",
    "DataError",
    "Evaluation",
    "Filter",
    "FilterError",
    "Fusion",
    "FusionRule",
    "IncrementalRecall",
    "InputError",
    "Latency",
    "LearnConfig",
    "Log",
    "Match",
    "MatchSet",
    "Matcher",
    "Matches",
    "ModelFileError",
    "NGrams",
    "NearestQueries",
    "ParameterError",
    "Popularity",
    "Positives",
    "RecordedRun",
    "SentenceEncoder",
    "ServerError",
    "Shop",
    "Split",
    "TargetExistsError",
    "TitleSimilarity",
    "TrainConfig",
    "UncertainWriteError",
    "Upsert",
    "Vectorizer",
    "VectorizerConfig",
    "XRLinear",
    "XRLinearMatcher",
    "compare_matchers",
    "describe_shop",
    "evaluate",
    "fuse_matches",
    "incremental_recall",
    "load",
    "measure_latency",
    "positives",
    "read_catalog",
    "read_log",
    "read_run",
    "read_ubi",
    "record_run",
    "relevance",
    "simulate_shop",
    "split_by_query",
    "split_by_time",
    "stream_shop",
    "train",
    "train_dssm",
    "verify",
]

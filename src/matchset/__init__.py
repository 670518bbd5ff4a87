"""matchset: learn from a search log which products answer a query.

A name is imported when it is first used. Baselines are in `baselines`, settings in `config`, errors
in `errors`, simulated shops and neural matchers in `lab`, what runs beside customers in `online`.
"""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING

from matchset.lazy import offer

if TYPE_CHECKING:
    from matchset import baselines as baselines
    from matchset import config as config
    from matchset import errors as errors
    from matchset import lab as lab
    from matchset import online as online
    from matchset.client.client import Client as Client
    from matchset.config import TrainConfig as TrainConfig
    from matchset.data.catalog import Catalog as Catalog
    from matchset.data.catalog_reader import read_catalog as read_catalog
    from matchset.data.log import Log as Log
    from matchset.data.log_reader import read_log as read_log
    from matchset.data.log_reader import read_ubi as read_ubi
    from matchset.data.positives import positives as positives
    from matchset.data.split import split_by_query as split_by_query
    from matchset.data.split import split_by_time as split_by_time
    from matchset.evaluate.compare import compare_matchers as compare_matchers
    from matchset.evaluate.evaluation import evaluate as evaluate
    from matchset.example_shop import demo_shop as demo_shop
    from matchset.matchers.base import Matcher as Matcher
    from matchset.matchers.estimator import XRLinear as XRLinear
    from matchset.matchers.fusion import Fusion as Fusion
    from matchset.matchers.fusion import fuse_matches as fuse_matches
    from matchset.matchers.match import Match as Match
    from matchset.matchers.match import Matches as Matches
    from matchset.matchers.match_set import MatchSet as MatchSet
    from matchset.matchers.model_writer import open_writer as open_writer
    from matchset.matchers.saved import load as load
    from matchset.matchers.saved import verify as verify
    from matchset.matchers.train import train as train
    from matchset.model.upserts import Upsert as Upsert
else:
    HOMES = {
        "matchset": ("baselines", "config", "errors", "lab", "online"),
        "matchset.client.client": ("Client",),
        "matchset.config": ("TrainConfig",),
        "matchset.data.catalog": ("Catalog",),
        "matchset.data.catalog_reader": ("read_catalog",),
        "matchset.data.log": ("Log",),
        "matchset.data.log_reader": ("read_log", "read_ubi"),
        "matchset.data.positives": ("positives",),
        "matchset.data.split": ("split_by_query", "split_by_time"),
        "matchset.example_shop": ("demo_shop",),
        "matchset.evaluate.compare": ("compare_matchers",),
        "matchset.evaluate.evaluation": ("evaluate",),
        "matchset.matchers.base": ("Matcher",),
        "matchset.matchers.estimator": ("XRLinear",),
        "matchset.matchers.fusion": ("Fusion", "fuse_matches"),
        "matchset.matchers.match": ("Match", "Matches"),
        "matchset.matchers.match_set": ("MatchSet",),
        "matchset.matchers.saved": ("load", "verify"),
        "matchset.matchers.train": ("train",),
        "matchset.matchers.model_writer": ("open_writer",),
        "matchset.model.upserts": ("Upsert",),
    }
    __getattr__, __dir__, __all__ = offer(__name__, HOMES)
    # A room and a function share this name. Once the room is loaded, it cannot hide the function.
    import_module("matchset.evaluate")
    del globals()["evaluate"]

__version__ = version("matchset")

"""What is measured and simulated: a made-up shop, experiments, their report, heavier baselines."""

from typing import TYPE_CHECKING

from matchset.lazy import offer

if TYPE_CHECKING:
    from matchset.evaluate.latency import measure_latency as measure_latency
    from matchset.lab.dssm.exact import DSSM as DSSM
    from matchset.lab.dssm.hnsw import DSSMWithHNSW as DSSMWithHNSW
    from matchset.lab.dssm.int8 import DSSMWithInt8 as DSSMWithInt8
    from matchset.lab.dssm.sentence_encoder import SentenceEncoder as SentenceEncoder
    from matchset.lab.dssm.settings import DSSMConfig as DSSMConfig
    from matchset.lab.dssm.training import train_dssm as train_dssm
    from matchset.lab.shop import Shop as Shop
    from matchset.lab.shop import describe_shop as describe_shop
    from matchset.lab.shop import simulate_shop as simulate_shop
    from matchset.lab.shop import stream_shop as stream_shop
else:
    HOMES = {
        "matchset.evaluate.latency": ("measure_latency",),
        "matchset.lab.dssm.exact": ("DSSM",),
        "matchset.lab.dssm.hnsw": ("DSSMWithHNSW",),
        "matchset.lab.dssm.int8": ("DSSMWithInt8",),
        "matchset.lab.dssm.settings": ("DSSMConfig",),
        "matchset.lab.dssm.training": ("train_dssm",),
        "matchset.lab.dssm.sentence_encoder": ("SentenceEncoder",),
        "matchset.lab.shop": ("Shop", "describe_shop", "simulate_shop", "stream_shop"),
    }
    __getattr__, __dir__, __all__ = offer(__name__, HOMES)

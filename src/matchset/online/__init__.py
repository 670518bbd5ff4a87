"""Online: who sees which matcher in an experiment, and what is recorded of it?"""

from typing import TYPE_CHECKING

from matchset.lazy import offer

if TYPE_CHECKING:
    from matchset.evaluate.overlap import incremental_recall as incremental_recall
    from matchset.online.power import plan_experiment as plan_experiment
    from matchset.online.shadow import measure_shadow as measure_shadow
else:
    HOMES = {
        "matchset.evaluate.overlap": ("incremental_recall",),
        "matchset.online.power": ("plan_experiment",),
        "matchset.online.shadow": ("measure_shadow",),
    }
    __getattr__, __dir__, __all__ = offer(__name__, HOMES)

"""Extra: is what only DSSM needs installed?"""

from __future__ import annotations

from importlib import import_module
from typing import Any


def import_extra(module: str) -> Any:
    """A module of the extra `dssm`; without it, an ImportError that says how to get it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise ImportError(
            f"DSSM must have {module.partition('.')[0]}, an extra; "
            f"get it by: pip install 'matchset[dssm]' ({error})"
        ) from None

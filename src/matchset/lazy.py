"""Lazy names: how does a package offer names that are imported when they are first used?"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module


def offer(
    package: str, homes: Mapping[str, tuple[str, ...]]
) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """Return the `__getattr__`, `__dir__` and `__all__` of a package (PEP 562).

    `homes` lists the names of each module; the package itself is the home of its submodules.
    """
    home_of = {name: home for home, names in homes.items() for name in names}
    offered = sorted(name for name, home in home_of.items() if home != package)

    def find(name: str) -> object:
        home = home_of.get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if home == package:
            return import_module(f"{package}.{name}")
        value: object = getattr(import_module(home), name)
        setattr(sys.modules[package], name, value)  # found at once from now on
        return value

    return find, lambda: sorted(home_of), offered

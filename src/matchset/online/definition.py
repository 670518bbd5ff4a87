"""Definition: what does an experiment compare, and is it well defined?"""

from __future__ import annotations

import math
import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from hashlib import blake2b
from itertools import accumulate
from pathlib import Path
from typing import Any, Literal, Self, TypeAlias, get_args

from matchset.errors import DataError
from matchset.matchers.fusion import DEFAULT_DEPTH
from matchset.matchers.fusion_rules import FusionRule

Mode: TypeAlias = Literal["ab", "union", "team_draft"]
INTERLEAVING: tuple[Mode, ...] = ("union", "team_draft")  # modes that show both arms
INTERLEAVED = "interleaved"  # what records say instead of an arm, where both are shown
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
_RULES = "must have 1 to 63 characters of a-z, 0-9, _ and -, the first a letter or digit"
_MAX_SALT = 256  # characters
_MOST_ARMS = 16
_SUM = 1e-6  # shares such as 0.333333 still add up to 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """What some of the customers see: a matcher, or several that are fused."""

    name: str
    matchers: tuple[str, ...]  # names of the server's matchers
    rule: FusionRule | None = None  # of several matchers
    share: float = 1.0  # of the units; 1 where both arms are shown

    def __post_init__(self) -> None:
        """Check every value against its rule."""
        _check_name("an arm's name", self.name)
        if not self.matchers or len(set(self.matchers)) < len(self.matchers):
            got = list(self.matchers)
            raise ValueError(f"arm {self.name!r}: matchers must be distinct names; got {got}")
        if (self.rule is None) != (len(self.matchers) == 1):
            rule = "several matchers need a rule of fusion, and one has none"
            raise ValueError(f"arm {self.name!r}: {rule}; got {len(self.matchers)} matchers")
        if not 0 < self.share <= 1:
            rule = "share must be above 0 and at most 1"
            raise ValueError(f"arm {self.name!r}: {rule}; got {self.share:g}")
        if self.rule is not None:
            self.rule.weigh(len(self.matchers))


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """Two or more arms, and how they are compared.

    - "ab": each unit (a user, a session) sees one arm, chosen by a salted hash.
    - "union": every unit sees products of both arms, for a ranker to order; a product is credited
      to an arm if the other one does not have it among its first `depth`.
    - "team_draft": every unit sees one list that the arms draft in turn; a product is credited to
      the arm that drafted it, unless the lists had been the same up to there.
    """

    name: str
    salt: str
    arms: tuple[Arm, ...]
    mode: Mode = "ab"
    depth: int = DEFAULT_DEPTH  # products of each arm that are interleaved, or k if that is more

    def __post_init__(self) -> None:
        """Check every value against its rule."""
        _check_name("an experiment's name", self.name)
        if self.mode not in get_args(Mode):
            raise ValueError(f"mode must be one of {', '.join(get_args(Mode))}; got {self.mode!r}")
        if not 0 < len(self.salt) <= _MAX_SALT:
            raise ValueError(f"salt must have 1 to {_MAX_SALT} characters; got {len(self.salt)}")
        if self.depth < 1:
            raise ValueError(f"depth must be at least 1; got {self.depth}")
        names = [arm.name for arm in self.arms]
        if len(set(names)) < len(names) or INTERLEAVED in names:
            raise ValueError(
                f"names of arms must be distinct, and not {INTERLEAVED!r}; got {names}"
            )
        if self.is_interleaved:
            if len(names) != 2:
                raise ValueError(f"mode {self.mode!r} must have two arms; got {len(names)}")
            return
        if not 2 <= len(names) <= _MOST_ARMS:
            raise ValueError(f"there must be 2 to {_MOST_ARMS} arms; got {len(names)}")
        total = math.fsum(arm.share for arm in self.arms)
        if abs(total - 1) > _SUM:
            raise ValueError(f"shares of the arms must add up to 1; got {total:g}")

    @cached_property
    def key(self) -> bytes:
        """What every hash of the experiment is keyed by."""
        return blake2b(f"{self.name}\0{self.salt}".encode(), digest_size=32).digest()

    @cached_property
    def ends(self) -> tuple[float, ...]:
        """Where the share of each arm ends, from 0 to 1, without that of the last."""
        total = math.fsum(arm.share for arm in self.arms)
        return tuple(accumulate(arm.share / total for arm in self.arms[:-1]))

    @property
    def is_interleaved(self) -> bool:
        """Whether every unit sees both arms."""
        return self.mode in INTERLEAVING

    def check_matchers(self, known: Iterable[str]) -> None:
        """Raise an error about an arm whose matcher there is not."""
        names = list(known)
        for arm in self.arms:
            for matcher in arm.matchers:
                if matcher not in names:
                    rule = f"matchers of an arm must be among {', '.join(names)}"
                    raise ValueError(f"arm {arm.name!r}: {rule}; got {matcher!r}")

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON; `from_dict` reads them."""
        arms = [_arm_to_dict(arm, has_share=not self.is_interleaved) for arm in self.arms]
        return {**asdict(self), "arms": arms}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Return an experiment of plain values, as in a TOML file; an error says what is wrong."""
        given = dict(values)
        _check_fields("an experiment", given, {field.name for field in fields(cls)})
        for name, kind in (("name", str), ("salt", str), ("mode", str), ("depth", int)):
            if name in given:
                _check_type(name, given[name], kind)
        arms = given.pop("arms", None)
        if not isinstance(arms, list) or not all(isinstance(arm, dict) for arm in arms):
            raise ValueError("arms must be tables, each below a line [[arms]]; got none")
        for name in ("name", "salt"):
            if name not in given:
                raise ValueError(f"{name} must be given; got none")
        is_ab = given.get("mode", "ab") not in INTERLEAVING
        return cls(arms=tuple(_read_arm(arm, len(arms), is_ab=is_ab) for arm in arms), **given)


def read_experiment(file: str | os.PathLike[str]) -> Experiment:
    """Read `experiment.toml`; a DataError says what is wrong with it."""
    path = Path(file)
    try:
        return Experiment.from_dict(tomllib.loads(path.read_text("utf-8")))
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}", path=path) from None
    except UnicodeDecodeError:
        raise DataError("must be UTF-8; got other bytes", path=path) from None
    except tomllib.TOMLDecodeError as error:
        raise DataError(f"must be TOML; {error}", path=path) from None
    except (TypeError, ValueError) as error:
        raise DataError(str(error), path=path) from None


_RULE_FIELDS = ("method", "weights", "constant")


def _read_arm(given: Mapping[str, Any], n_arms: int, *, is_ab: bool) -> Arm:
    _check_fields("an arm", given, {"name", "matcher", "matchers", "share", *_RULE_FIELDS})
    if "name" not in given:
        raise ValueError("an arm must have a name; got none")
    name = _check_type("an arm's name", given["name"], str)
    if ("matcher" in given) == ("matchers" in given):
        raise ValueError(f"arm {name!r}: must have either matcher or matchers; got both or none")
    if "matcher" in given:
        matchers = (_check_type(f"arm {name!r}: matcher", given["matcher"], str),)
    else:
        listed = _check_type(f"arm {name!r}: matchers", given["matchers"], list)
        matchers = tuple(_check_type(f"arm {name!r}: a matcher", one, str) for one in listed)
    if "share" in given and not is_ab:
        raise ValueError(f"arm {name!r}: share is for mode ab; got {given['share']!r}")
    share = given.get("share", 1 / n_arms) if is_ab else 1.0
    if isinstance(share, bool) or not isinstance(share, int | float):
        raise TypeError(f"arm {name!r}: share must be a number; got {share!r}")
    return Arm(name=name, matchers=matchers, rule=_read_rule(name, given, matchers), share=share)


def _read_rule(name: str, given: Mapping[str, Any], matchers: tuple[str, ...]) -> FusionRule | None:
    values = {field: given[field] for field in _RULE_FIELDS if field in given}
    if len(matchers) == 1:
        if values:
            raise ValueError(f"arm {name!r}: {next(iter(values))} is for several matchers; got one")
        return None
    if isinstance(values.get("weights"), list):
        values["weights"] = tuple(values["weights"])
    try:
        return FusionRule(**values)
    except (TypeError, ValueError) as error:
        raise ValueError(f"arm {name!r}: {error}") from None


def _arm_to_dict(arm: Arm, *, has_share: bool) -> dict[str, Any]:
    """Return an arm as a TOML file has it."""
    named: dict[str, Any] = {"name": arm.name, "matchers": list(arm.matchers)}
    if len(arm.matchers) == 1:
        named = {"name": arm.name, "matcher": arm.matchers[0]}
    rule = {} if arm.rule is None else asdict(arm.rule)
    kept = {field: rule[field] for field in _RULE_FIELDS if rule.get(field) is not None}
    if "weights" in kept:
        kept["weights"] = list(kept["weights"])
    return {**named, **({"share": arm.share} if has_share else {}), **kept}


def _check_name(what: str, name: str) -> None:
    if not _NAME.fullmatch(name):
        raise ValueError(f"{what} {_RULES}; got {name[:80]!r}")


def _check_fields(what: str, given: Mapping[str, Any], known: set[str]) -> None:
    for name in given:
        if name not in known:
            raise ValueError(
                f"a field of {what} must be one of {', '.join(sorted(known))}; got {name!r}"
            )


def _check_type(what: str, value: Any, kind: type) -> Any:
    if not isinstance(value, kind) or isinstance(value, bool):
        names = {str: "a text", int: "an integer", list: "an array"}
        raise TypeError(f"{what} must be {names[kind]}; got {value!r}")
    return value

"""Loaded model: which matchers does a worker have open, and under which names?"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from matchset.errors import ModelFileError
from matchset.filters.filter import Filter, Where
from matchset.matchers.base import Matcher
from matchset.matchers.fusion import Fusion
from matchset.matchers.match_set import MatchSet
from matchset.matchers.registry import MATCH_SET, find_kind, list_kinds
from matchset.matchers.saved import Loaded, load, open_model
from matchset.model.fresh import Freshness, measure
from matchset.model.products import Products
from matchset.online.definition import Arm, Experiment
from matchset.serve.auth import Keys
from matchset.serve.options import ServeConfig
from matchset.serve.request_errors import RequestError, shorten
from matchset.serve.requests import MatchOptions
from matchset.serve.snapshots import snapshot_files
from matchset.storage.change_log import ChangeLog
from matchset.strings import Strings

if TYPE_CHECKING:
    from matchset.serve.retrieval import Search

PARTS = {
    "tree": "Tree",
    "towers": "Two towers",
    "lexical": "Lexical index",
    "neighbors": "Query neighbors",
}  # labels of the parts of a match set
KEYS = "keys"  # in the folder of a model version


@dataclass(frozen=True, slots=True)
class ModelVersion:
    """A verified snapshot that is or was served."""

    number: int
    name: str  # a digest of the files
    kinds: tuple[str, ...] = ()  # of its matchers, the model first
    trained: str = ""  # a digest of what was trained


@dataclass(frozen=True, eq=False)
class LoadedModel:
    """The open matchers of a model version; nothing in it changes but its caches."""

    opened_from: ModelVersion
    # By kind, the model first; then the parts of a match set, and fusions of an experiment.
    matchers: Mapping[str, Matcher]
    keys: Keys | None
    experiment: Experiment | None = None
    searches: dict[MatchOptions, Search] = field(default_factory=dict)  # a cache
    _joined: WeakKeyDictionary[Filter, Filter] = field(
        init=False, repr=False, default_factory=WeakKeyDictionary
    )
    opened_at: str = field(
        default_factory=lambda: datetime.now(UTC).isoformat(timespec="milliseconds")
    )

    @property
    def version(self) -> str:
        """The version that every response names."""
        return self.opened_from.name

    @cached_property
    def default(self) -> str:
        """Name of the model, whose products and titles are those of the server."""
        return next(iter(self.matchers))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names that can be asked for; the one that answers a request that names none first."""
        first = self.default
        if self.experiment is not None:
            first = matcher_of(self.experiment.arms[0])
        return (first, *(name for name in self.matchers if name != first))

    @cached_property
    def with_beam(self) -> frozenset[str]:
        """Names of the matchers that search a tree."""
        return frozenset(name for name, matcher in self.matchers.items() if has_tree(matcher))

    def choose(self, name: str, beam: int | None, new_share: float | None) -> dict[str, Any]:
        """Return those options that a matcher takes."""
        share = new_share if "new_share" in self.find(name).takes else None
        return {"beam": beam if name in self.with_beam else None, "new_share": share}

    def find(self, name: str) -> Matcher:
        """Return a matcher by its name."""
        if name not in self.matchers:  # a part that a new version does not have
            rule = f"matcher must be one of {', '.join(self.matchers)}"
            got = shorten(name)
            raise RequestError("unknown_matcher", f"{rule}; got {got}", parameter="matcher")
        return self.matchers[name]

    def has_filter(self, wanted: str | Sequence[str]) -> bool:
        """Return whether the model's filter for an expression is cached."""
        return isinstance(wanted, str) and self._products.has_filter(wanted)

    @cached_property
    def removed(self) -> frozenset[str]:
        """Ids of products that were removed from the model: no matcher here shows them."""
        return frozenset(self.matchers[self.default].removed)

    @cached_property
    def _present(self) -> dict[str, Filter]:
        """What matchers may show that still have products which the model does not."""
        ids, found = Strings.of(list(self.removed)), {}
        others = {n: one for n, one in self.matchers.items() if one.products is not self._products}
        for name, matcher in others.items():
            gone = matcher.products.index_of(ids)
            if np.any(gone >= 0):
                is_there = np.ones(len(matcher.products), dtype=np.bool_)
                is_there[gone[gone >= 0]] = False
                found[name] = matcher.filter(is_there)
        return found

    def filter_for(self, name: str, wanted: Where | None) -> Filter | None:
        """Return the filter of a matcher, which also leaves out what was removed from the model."""
        chosen = None if wanted is None else self.find(name).filter(wanted)
        if (present := self._present.get(name)) is None or chosen is None:
            return chosen or present
        if (joined := self._joined.get(chosen)) is None:
            joined = self._joined[chosen] = chosen & present
        return joined

    def find_explainer(self, wanted: str | None) -> str:
        """Return the name of the first matcher that can explain, or of the wanted one."""
        names = self.names if wanted is None else (wanted,)
        for name in names:
            if self.find(name).can_explain:
                return name
        raise RequestError("cannot_explain", f"no explanations from {', '.join(names)}")

    def titles_of(self, ids: Sequence[str]) -> list[str]:
        """Title of each id, empty if the model does not know it."""
        return self._products.titles_of(ids)

    def find_allowed(self, ids: Sequence[str], wanted: str | Sequence[str] | None) -> list[str]:
        """Return the ids that a filter allows, and that were not removed from the model.

        An expression allows those that the model does not know.
        """
        ids = [product for product in ids if product not in self.removed]
        if wanted is None:
            return ids
        if not isinstance(wanted, str):
            listed = set(wanted)
            return [product for product in ids if product in listed]
        allowed, labels = self._products.filter(wanted).allowed, self._products.index_of(ids)
        return [
            product
            for product, label in zip(ids, labels.tolist(), strict=True)
            if label < 0 or allowed[label]
        ]

    def find_labels(self, ids: Sequence[str]) -> list[int]:
        """Return the label of each id, -1 if the model does not know it."""
        labels: list[int] = self._products.index_of(list(ids)).tolist()
        return labels

    def require_attributes(self, names: Sequence[str]) -> None:
        """Raise an error about an attribute that the catalog does not have."""
        known = self._products.attributes
        for name in names:
            if name not in known:
                rule = f"attributes must be among {', '.join(known) or 'none at all'}"
                got = shorten(name)
                raise RequestError("bad_parameter", f"{rule}; got {got}", parameter="attributes")

    def attributes_of(self, ids: Sequence[str], names: Sequence[str]) -> list[dict[str, Any]]:
        """Attributes of each id, without those that it does not have."""
        labels = self._products.index_of(ids)
        found: list[dict[str, Any]] = [{} for _ in ids]
        known = np.flatnonzero(labels >= 0)
        for name in names:
            column = self._products.attributes[name]
            values = replace(column, values=column.values[labels[known]]).to_list()
            for index, value in zip(known.tolist(), values, strict=True):
                if value is not None:
                    found[index][name] = value
        return found

    @property
    def freshness(self) -> Freshness:
        """How far the model's products have moved from those that it was trained with."""
        model = self.matchers[self.default]
        return model.freshness if isinstance(model, MatchSet) else measure(None, 0, 0)

    def describe(self) -> dict[str, Any]:
        """Return what `GET /v1/model` says about it."""
        products, training = self._products, self.matchers[self.default].training
        columns = products.attributes
        return {
            "matchers": [self._describe(name) for name in self.names],
            "products": len(products),
            "attributes": [{"name": name, "type": one.kind} for name, one in columns.items()],
            "has_titles": products.titles is not None,
            "freshness": asdict(self.freshness),
            "opened_at": self.opened_at,
            "provenance": {} if training is None else dict(training.provenance),
        }

    def _describe(self, name: str) -> dict[str, Any]:
        is_part = name in PARTS
        return {
            "name": name,
            "label": PARTS[name] if is_part else find_kind(self.matchers[name].kind).label,
            "part_of": MATCH_SET if is_part else None,
            "can_explain": self.matchers[name].can_explain,
            "has_beam": name in self.with_beam,
        }

    @property
    def _products(self) -> Products:
        return self.matchers[self.default].products


def has_tree(matcher: Matcher) -> bool:
    """Return whether a matcher searches a tree, and so takes a beam."""
    return "beam" in matcher.takes and (
        not isinstance(matcher, MatchSet) or "tree" in matcher.model.parts
    )


def matcher_of(arm: Arm) -> str:
    """Return the name of the matcher that answers for an arm; a fusion has the name of its arm."""
    return arm.matchers[0] if arm.rule is None else arm.name


def open_matchers(
    files: Sequence[Path],
    experiment: Experiment | None = None,
    known: Loaded | None = None,
    *,
    new_share: float | None = None,
) -> dict[str, Matcher]:
    """Return the matchers in files, by kind, and the parts of a match set, which share its arrays.

    Arms of an experiment that fuse matchers come last. Where the training of the first file is
    `known`, only what changed since is read. The match set gets the share of new products.
    """
    matchers: dict[str, Matcher] = {}
    for number, file in enumerate(files):
        matcher: Matcher = load(file) if number else open_model(file, known).matcher
        if matcher.kind in matchers:
            rule = f"matchers must be of different kinds; got two {matcher.kind}"
            raise ModelFileError(rule, path=file)
        matchers[matcher.kind] = matcher
    whole = matchers.get(MATCH_SET)
    if new_share is not None:
        if not isinstance(whole, MatchSet):
            raise ValueError(f"new_share is for a match set; got {', '.join(matchers)}")
        whole = matchers[MATCH_SET] = whole.with_new_share(new_share)
    if isinstance(whole, MatchSet) and len(whole.model.parts) > 1:
        matchers |= {name: whole.part(name) for name in whole.model.parts}
    if experiment is not None:
        matchers |= _fuse_arms(experiment, matchers)
    for matcher in matchers.values():
        matcher.match("warm", 1)  # what is made on first use is made here
    return matchers


def _fuse_arms(experiment: Experiment, matchers: Mapping[str, Matcher]) -> dict[str, Matcher]:
    experiment.check_matchers(matchers)
    fused: dict[str, Matcher] = {}
    for arm in experiment.arms:
        if arm.rule is None:
            continue
        if arm.name in {*list_kinds(), *PARTS, *matchers}:
            rule = "the name of an arm that fuses must not be that of a matcher"
            raise ValueError(f"{rule}; got {arm.name!r}")
        parts = [matchers[name] for name in arm.matchers]
        fused[arm.name] = Fusion(parts, names=arm.matchers, **asdict(arm.rule))
    return fused


def open_version(
    folder: Path, version: ModelVersion, config: ServeConfig, before: LoadedModel | None = None
) -> LoadedModel:
    """Open a snapshot, with the API keys that were read when it was made.

    Of the training of a model that was opened `before`, only changes of products are read.
    """
    experiment = _read_running(folder.parent.parent / "experiment")
    is_same = before is not None and version.trained == before.opened_from.trained
    known = None
    if before is not None and is_same:
        known = Loaded(before.matchers[before.default], version.trained, None, ChangeLog())
    files = snapshot_files(folder, sum(1 for each in folder.iterdir() if each.name.isdigit()))
    matchers = open_matchers(files, experiment, known, new_share=config.new_share)
    if config.shadow is not None and config.shadow not in matchers:
        rule = f"shadow must be one of {', '.join(matchers)}"
        raise ValueError(f"{rule}; got {config.shadow!r}")
    keys = None if config.api_key_file is None else Keys.load(folder / KEYS)
    kinds = tuple(name for name, matcher in matchers.items() if matcher.kind == name)
    return LoadedModel(replace(version, kinds=kinds), matchers, keys, experiment)


def _read_running(file: Path) -> Experiment | None:
    """Return the experiment that runs; it is that of the server's start."""
    return Experiment.from_dict(json.loads(file.read_bytes())) if file.exists() else None

"""Loaded model: which matchers does a worker have open, and under which names?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from matchset.errors import ModelFileError
from matchset.filters.filter import Filter
from matchset.matchers.base import Matcher
from matchset.matchers.match import Match
from matchset.matchers.registry import find_kind, load
from matchset.model.products import Products
from matchset.serve.http.auth import Keys
from matchset.serve.http.request_errors import RequestError
from matchset.serve.options import ServeConfig
from matchset.serve.reload.run_folder import ModelVersion, RunFolder
from matchset.serve.reload.snapshots import Sources, snapshot_folders

FUSED = "fused"  # all matchers together
KEYS = "keys"  # in the folder of a model version


@dataclass(frozen=True, eq=False)
class LoadedModel:
    """The open matchers of a model version; nothing in it changes but its cache of filters."""

    opened_from: ModelVersion
    matchers: Mapping[str, Matcher]  # by kind, the model first
    keys: Keys | None
    opened_at: str = field(
        default_factory=lambda: datetime.now(UTC).isoformat(timespec="milliseconds")
    )

    @property
    def version(self) -> str:
        """The version that every response names."""
        return self.opened_from.name

    @cached_property
    def default(self) -> str:
        """Name of the model, which answers unless another matcher is asked for."""
        return next(iter(self.matchers))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names that can be asked for: each matcher, and if there are several, all fused."""
        return (*self.matchers, *((FUSED,) if len(self.matchers) > 1 else ()))

    def match(
        self, name: str, query: str, k: int, *, beam: int | None, where: Filter | None
    ) -> Match:
        """Ask one matcher; the beam is only for those that take one."""
        matcher = self.matchers[name]
        return matcher.match(query, k, where=where, beam=beam if "beam" in matcher.takes else None)

    def filter(self, name: str, wanted: str | Sequence[str]) -> Filter:
        """A filter of a matcher's products; those of expressions are cached."""
        return self.matchers[name].filter(wanted)

    def has_filter(self, wanted: str | Sequence[str]) -> bool:
        """Whether the model's filter for an expression is cached."""
        return isinstance(wanted, str) and self._products.has_filter(wanted)

    def find_explainer(self) -> tuple[str, Matcher]:
        """The first matcher that can explain its results."""
        for name, matcher in self.matchers.items():
            if matcher.can_explain:
                return name, matcher
        raise RequestError("cannot_explain", f"no explanations from {', '.join(self.matchers)}")

    def titles_of(self, ids: Sequence[str]) -> list[str]:
        """Title of each id, empty if the model does not know it."""
        return self._products.titles_of(ids)

    def find_allowed(self, ids: Sequence[str], wanted: str | Sequence[str]) -> list[str]:
        """The ids that a filter allows; an expression allows those that the model does not know."""
        if not isinstance(wanted, str):
            listed = set(wanted)
            return [product for product in ids if product in listed]
        allowed, labels = self.filter(self.default, wanted).allowed, self._products.index_of(ids)
        return [
            product
            for product, label in zip(ids, labels.tolist(), strict=True)
            if label < 0 or allowed[label]
        ]

    def describe(self) -> dict[str, Any]:
        """What `GET /v1/model` says about it."""
        products, training = self._products, self.matchers[self.default].training
        columns = products.attributes
        described = [
            _describe(name, find_kind(name).label, [matcher])
            for name, matcher in self.matchers.items()
        ]
        if FUSED in self.names:
            fused = _describe(FUSED, "Fused", list(self.matchers.values()))
            described.append({**fused, "can_explain": False})
        return {
            "matchers": described,
            "products": len(products),
            "attributes": [{"name": name, "type": one.kind} for name, one in columns.items()],
            "has_titles": products.titles is not None,
            "opened_at": self.opened_at,
            "provenance": {} if training is None else dict(training.provenance),
        }

    @property
    def _products(self) -> Products:
        return self.matchers[self.default].products


def _describe(name: str, label: str, matchers: Sequence[Matcher]) -> dict[str, Any]:
    return {
        "name": name,
        "label": label,
        "can_explain": any(matcher.can_explain for matcher in matchers),
        "has_beam": any("beam" in matcher.takes for matcher in matchers),
    }


def open_matchers(folders: Sequence[Path]) -> dict[str, Matcher]:
    """The matchers in folders, by kind."""
    matchers: dict[str, Matcher] = {}
    for folder in folders:
        matcher = load(folder)
        if matcher.kind in matchers:
            rule = f"matchers must be of different kinds; got two {matcher.kind}"
            raise ModelFileError(rule, path=folder)
        matcher.match("warm", 1)  # what is made on first use is made here
        matchers[matcher.kind] = matcher
    return matchers


def open_version(
    run: RunFolder, version: ModelVersion, sources: Sources, config: ServeConfig
) -> LoadedModel:
    """Open a snapshot, with the API keys that were read when it was made."""
    folder = run.versions / version.folder
    matchers = open_matchers(snapshot_folders(folder, len(sources.folders)))
    keys = None if config.api_key_file is None else Keys.load(folder / KEYS)
    return LoadedModel(version, matchers, keys)

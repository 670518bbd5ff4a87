"""Inspection: what does a saved matcher hold?"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from matchset.cli.console import output, print_facts, print_heading, print_table, print_text
from matchset.learn.fit_reranker import PART_FEATURES
from matchset.matchers.match_set import MatchSet
from matchset.matchers.saved import kind_of, load, read_part
from matchset.matchers.saved import verify as verify_model
from matchset.matchers.trained import TrainedMatcher
from matchset.matchers.xr_linear import XRLinearMatcher
from matchset.model.match_set_model import MatchSetModel
from matchset.model.packed import PackedTree, count_weights
from matchset.model.reranker import SITUATIONS
from matchset.storage.change_log import changes_path


def inspect(model: Path, /, *, verify: bool = False) -> None:
    """Show what a model holds: its parts and their sizes, weights, products, settings, origin.

    Parameters
    ----------
    model
        File of a trained model or any other saved matcher.
    verify
        First compare every byte with its checksum.

    """
    if verify:
        verify_model(model)
        print_text(f"{model}: every byte is as it was written")
    matcher = load(model)
    if not isinstance(matcher, TrainedMatcher):
        facts = {"kind": kind_of(model), "on disk": f"{_count_bytes(model) / 1e6:.1f} MB"}
        print_heading("Matcher")
        print_facts({**facts, "products": repr(matcher.products), "matcher": repr(matcher)})
        return
    read_part(model, "description", lambda: _show_trained(model, matcher))


def _show_trained(model: Path, matcher: TrainedMatcher) -> None:
    print_heading("Training")
    print_text(str(matcher.summary or "unknown"))
    print_heading("Model")
    facts = {
        "kind": matcher.kind,
        "trained": matcher.provenance.get("trained", "unknown"),
        "by matchset": matcher.provenance.get("matchset", "unknown"),
        "on disk": f"{_count_bytes(model) / 1e6:.1f} MB",
        "products": repr(matcher.products),
        "vocabulary": repr(matcher.vectorizer),
    }
    if isinstance(matcher, MatchSet):
        print_facts({**facts, **_describe_match_set(matcher)})
        _show_parts(matcher.model)
    else:
        print_facts(facts)
        if isinstance(matcher, XRLinearMatcher):
            _show_tree(matcher.tree)
    print_heading("Configuration")
    output.print_json(json.dumps(asdict(matcher.config)))


def _describe_match_set(matcher: MatchSet) -> dict[str, str]:
    found, report, model = matcher.freshness, matcher.refreshed, matcher.model
    past = 0 if model.neighbors is None else len(model.neighbors)
    facts = {"past queries": f"{past:,}, as hashes and n-grams", "fresh": "as trained"}
    if found.changed is not None:
        facts |= {"fresh": str(found), "last change": found.changed}
    if report is not None:
        facts["refreshed"] = f"{report.refreshed}; {report.advice}"
    return facts | {"new products among the answers": model.describe_share()}


def _show_parts(model: MatchSetModel) -> None:
    print_heading("Parts")
    print_facts({name: f"{size / 1e6:.1f} MB" for name, size in model.part_bytes().items()})
    if model.tree is not None:
        _show_tree(model.tree)
    _show_weights(model)


def _show_weights(model: MatchSetModel) -> None:
    """Print the re-ranker's weights of features that the parts have."""
    print_heading("Re-ranker: weight of each feature")
    if model.reranker.warning:
        print_text(model.reranker.warning)
    part_of = {name: part for part, names in PART_FEATURES.items() for name in names}
    headers = ("feature", "part", *(f"{each}: new product, other" for each in SITUATIONS))
    rows = []
    for name, weights in model.reranker.table().items():
        if part_of.get(name, model.parts[0]) in model.parts:
            pairs = zip(weights[::2], weights[1::2], strict=True)
            shown = (f"{cold:+.2f} {warm:+.2f}" for cold, warm in pairs)
            rows.append((name, part_of.get(name, "all"), *shown))
    print_table(headers, rows, n_texts=2)


def _show_tree(tree: PackedTree) -> None:
    print_heading("Tree")
    layers: Mapping[str, object] = {
        f"layer {level}": f"{size:,} nodes, {n:,} weights"
        for level, (size, n) in enumerate(zip(tree.sizes, count_weights(tree), strict=True), 1)
    }
    size = f"{tree.n_bytes / 1e6:.1f} MB, {tree.n_bytes / max(1, tree.n_weights):.2f}"
    facts = {"weights": tree.n_weights, "tree and weights": f"{size} bytes per weight"}
    print_facts({**layers, **facts})


def _count_bytes(model: Path) -> int:
    changes = changes_path(model)
    return model.stat().st_size + (changes.stat().st_size if changes.exists() else 0)

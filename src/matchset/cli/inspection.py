"""Inspection: what does a saved matcher hold?"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from matchset.cli.console import output, print_facts, print_heading, print_text
from matchset.learn.fit_reranker import PART_FEATURES
from matchset.matchers.match_set import MatchSet
from matchset.matchers.registry import kind_of, load
from matchset.matchers.trained import TrainedMatcher
from matchset.matchers.xr_linear import XRLinearMatcher
from matchset.model.match_set_model import MatchSetModel
from matchset.model.packed import PackedTree, count_weights
from matchset.model.reranker import SITUATIONS
from matchset.storage.sections import read_section
from matchset.storage.sections import verify as verify_model

SHOWN_NODES = 12  # of the first level
NGRAMS_PER_NODE = 6
_BOUNDS = {
    "tree": ("tree_beam", "tree_products"),
    "towers": ("groups", "lists", "list_products"),
    "lexical": ("lexical_postings", "lexical_products"),
    "neighbors": ("neighbor_postings", "neighbors", "neighbor_products"),
}


def inspect(model: Path, /, *, verify: bool = False) -> None:
    """Show what a model holds: its parts and their sizes, weights, products, settings, origin.

    Parameters
    ----------
    model
        Folder of a trained model or any other saved matcher.
    verify
        First compare every byte with its checksum.

    """
    if verify:
        verify_model(model)
        print_text(f"{model}: every file is as it was written")
    matcher = load(model)
    if not isinstance(matcher, TrainedMatcher):
        facts = {"kind": kind_of(model), "on disk": f"{_count_bytes(model) / 1e6:.1f} MB"}
        print_heading("Matcher")
        print_facts({**facts, "products": repr(matcher.products), "matcher": repr(matcher)})
        return
    read_section(model, "description", lambda: _show_trained(model, matcher))


def _show_trained(model: Path, matcher: TrainedMatcher) -> None:
    _show_model(model, matcher)
    if isinstance(matcher, MatchSet):
        _show_parts(matcher.model)
        _show_reranker(matcher.model)
        if matcher.model.tree is not None:
            _show_tree(matcher.model.tree)
    elif isinstance(matcher, XRLinearMatcher):
        _show_tree(matcher.tree)
        print_heading("Top of the tree: the strongest n-grams of its first nodes")
        nodes = range(min(SHOWN_NODES, matcher.tree.sizes[0]))
        print_facts({f"node {node + 1}": name_node(matcher, node) for node in nodes})
    print_heading("Configuration")
    output.print_json(json.dumps(asdict(matcher.config)))


def name_node(matcher: XRLinearMatcher, node: int) -> str:
    """A node of the first level by its strongest n-grams."""
    features = matcher.tree.native.strongest(0, node, NGRAMS_PER_NODE)
    return ", ".join(matcher.vectorizer.name(int(feature)) for feature in features)


def _show_model(model: Path, matcher: TrainedMatcher) -> None:
    summary = matcher.provenance.get("summary", {})
    past = matcher.model.neighbors if isinstance(matcher, MatchSet) else None
    n_past = "none" if past is None else f"{len(past):,}, as hashes and n-grams"
    print_heading("Model")
    print_facts(
        {
            "kind": matcher.kind,
            "trained": matcher.provenance.get("trained", "unknown"),
            "by matchset": matcher.provenance.get("matchset", "unknown"),
            "from": f"{summary.get('pairs', 0):,} pairs of {summary.get('queries', 0):,} queries",
            **_show_sample(summary),
            "past queries": n_past,
            "on disk": f"{_count_bytes(model) / 1e6:.1f} MB, the whole folder",
            "products": repr(matcher.products),
            **(_show_freshness(matcher) if isinstance(matcher, MatchSet) else {}),
            "vocabulary": repr(matcher.vectorizer),
            "language": matcher.vectorizer.vocabulary.language or "none",
        }
    )


def _show_sample(summary: Mapping[str, Any]) -> dict[str, str]:
    n_pairs = summary.get("sampled_pairs")
    return {} if n_pairs is None else {"towers": f"trained on a sample of {n_pairs:,} pairs"}


def _show_freshness(matcher: MatchSet) -> dict[str, str]:
    found, report = matcher.freshness, matcher.refreshed
    if found.changed is None:
        return {"fresh": "as trained"}
    shown = {"fresh": str(found), "last change": found.changed}
    if report is not None:
        shown["refreshed"] = f"{report.refreshed}; {report.advice}"
    return shown


def _show_parts(model: MatchSetModel) -> None:
    """Size and bounds of each part, and what it was worth on validation queries."""
    recalls = model.reranker.facts.get("recall", {})
    print_heading("Parts")
    worth = "Recall@10 / 50 / 100 in %:"
    headers = ("part", "MB", "bounds of a search", f"{worth} without it", "alone")
    table = _make_table(headers, right=(1, 3, 4))
    bounds = asdict(model.bounds)
    for name, size in model.part_bytes().items():
        limits = ", ".join(
            f"{bound.split('_')[-1]} {bounds[bound]:,}"
            for bound in _BOUNDS[name]
            if bound in bounds
        )
        shown = [_show_recalls(recalls.get(key)) for key in (f"without {name}", f"{name} alone")]
        table.add_row(*map(Text, (name, f"{size / 1e6:.1f}", limits, *shown)))
    if "all" in recalls:
        table.add_row(*map(Text, ("all", "", "", _show_recalls(recalls["all"]), "")))
    output.print(table)


def _show_recalls(recalls: list[float] | None) -> str:
    return "" if recalls is None else " / ".join(f"{100 * value:.1f}" for value in recalls)


def _show_reranker(model: MatchSetModel) -> None:
    """How the weights came about, and the weights of features that the parts have."""
    reranker, facts = model.reranker, model.reranker.facts
    print_heading("Re-ranker: weight of each feature")
    if reranker.is_learned:
        chosen = "the most recent ones" if facts["by_time"] else "chosen by the seed"
        useful = f"{facts['queries_with_positive_candidate']:,} with a positive candidate"
        print_facts({"validation queries": f"{facts['queries']:,}, {chosen}; {useful}"})
        for kind, judged in facts["kinds"].items():
            print_facts({kind: f"{judged['queries']:,}; {_show_recalls(judged['recall'])}"})
    else:
        print_facts({"default weights": facts.get("reason") or "none were learned"})
    if reranker.warning:
        print_text(reranker.warning)
    print_facts({"new products among the answers": model.describe_share()})
    part_of = {name: part for part, names in PART_FEATURES.items() for name in names}
    headers = ("feature", "part", *(f"{each}: new product, other" for each in SITUATIONS))
    table = _make_table(headers, right=(2, 3, 4))
    for name, weights_of in reranker.table().items():
        if part_of.get(name, model.parts[0]) in model.parts:
            pairs = zip(weights_of[::2], weights_of[1::2], strict=True)
            weights = tuple(f"{cold:+.2f} {warm:+.2f}" for cold, warm in pairs)
            table.add_row(*map(Text, (name, part_of.get(name, "all"), *weights)))
    output.print(table)


def _make_table(headers: tuple[str, ...], *, right: tuple[int, ...]) -> Table:
    table = Table(*headers, box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="dim")
    for column in right:
        table.columns[column].justify = "right"
    return table


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
    return sum(file.stat().st_size for file in model.rglob("*") if file.is_file())

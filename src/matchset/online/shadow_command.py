"""Shadowing: what would ours have held of what customers bought, beside theirs?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from matchset.cli.console import print_error, print_heading, print_json, print_table, print_text
from matchset.cli.evaluate import open_matcher
from matchset.data.arrow import NO_DAY
from matchset.data.log import Log
from matchset.data.split import DEFAULT_SAMPLE
from matchset.evaluate.overlap import Share
from matchset.matchers.base import DEFAULT_K, Matcher, Retriever
from matchset.online.experiment_command import VISIT_COLUMNS, VisitColumns
from matchset.online.session_rows import SessionRows, has_visitors
from matchset.online.shadow import Held, Shadow, measure_shadow

LOWER_BOUND = (
    "Customers buy what they are shown, so they rarely bought what theirs could not show. 'Only "
    "ours' is therefore a lower bound of what ours would add, and 'only theirs' an upper bound of "
    "what would be lost."
)
WITHOUT_VISITS = (
    "The log has no users or sessions (--user, --session), so intervals are clustered by query, "
    "and purchases after another query of the same visit are not known."
)
WITHOUT_TIMES = (
    "The log has no times (--timestamp), so purchases after another query of the same visit are "
    "not known."
)
MAY_BE_KNOWN = "must be trained on days before the log; its training days are not known"


def shadow(
    log: list[str],
    /,
    *,
    ours: str,
    theirs: str,
    api_key_file: Path | None = None,
    k: Annotated[int, Parameter(alias="-k")] = DEFAULT_K,
    sample: int = DEFAULT_SAMPLE,
    seed: int = 0,
    events: dict[str, float] | None = None,
    form: Literal["table", "json"] = "table",
    columns: VisitColumns = VISIT_COLUMNS,
) -> None:
    """Show which purchases of a log only your model or only the present search would have found.

    Parameters
    ----------
    log
        A log of days after both were trained: what customers were shown, clicked and bought. With
        a column of users or sessions, purchases after another query count too.
    ours
        File of a model or any other saved matcher.
    theirs
        The present search: a file with its answers, as for --run of `matchset compare`, a saved
        matcher, or the address of a running server.
    api_key_file
        File with the API key of the server; the first key of the file is used.
    k
        Products of a match set.
    sample
        Maximum number of purchases; users are sampled, each with all purchases.
    seed
        Random seed of the sample.
    events
        Weight of each event that counts, such as --events.purchase 1 (default: purchases, else
        clicks).
    form
        A table, or JSON.
    columns
        Columns of the log.

    """
    first, second = open_matcher(ours, None), open_matcher(theirs, api_key_file)
    source = log[0] if len(log) == 1 else log
    is_named = columns.user is not None or columns.session is not None
    has_units = is_named or has_visitors(source, memory=columns.memory)
    rows = columns.read_rows(log) if has_units else columns.read(log)
    measured = measure_shadow(rows, first, second, k=k, sample=sample, seed=seed, events=events)
    warn_if_not_later(rows, {"--ours": first, "--theirs": second})
    if form == "json":
        print_json(measured)
        return
    show_shadow(measured)


def warn_if_not_later(rows: SessionRows | Log, matchers: Mapping[str, Retriever]) -> None:
    """Warn where a matcher may have learned from the log that it is judged by."""
    known = rows.day[rows.day != NO_DAY]
    first = date(1970, 1, 1) + timedelta(int(known.min())) if len(known) else None
    for flag, matcher in matchers.items():
        training = matcher.training if isinstance(matcher, Matcher) else None
        if training is None:
            continue
        last = training.provenance.get("last_day")
        if first is None or last is None:
            print_error(f"{flag} {MAY_BE_KNOWN}")
        elif first <= date.fromisoformat(last):
            print_error(
                f"{flag} was trained on days up to {last}, but the log begins on {first}, so it "
                "already knows what was bought. Give a log of later days."
            )


def show_shadow(shadow: Shadow) -> None:
    """Print what each holds, by segment, and what it means."""
    total, later, what = shadow.direct[0], shadow.later, shadow.what
    also = ""
    if later is not None and later.purchases:
        also = (
            f" Of {later.purchases:,.0f} that came after another query, an earlier query would "
            f"have held {later.only_ours.value:.1%} by ours alone, "
            f"{later.only_theirs.value:.1%} by theirs alone."
        )
    print_text(
        f"Of {total.purchases:,.0f} {what}, ours would have held {total.only_ours.value:.1%} "
        f"that theirs would not, theirs {total.only_theirs.value:.1%} that ours would not, among "
        f"{shadow.k} products.{also}"
    )
    print_heading(f"Share of the {what} after the query itself, in %")
    show_held(shadow.direct)
    if later is not None and later.purchases:
        print_heading(f"Share of the {what} that came after another query of the visit, in %")
        show_held([later])
        print_text("Held means: in the match set of an earlier query of the same visit.")
    disputed = f"For matchset experiment plan: --disputed {total.disputed:.2g}."
    if not total.disputed:
        disputed = f"Neither alone holds any of the {what}: interleaving could not decide."
    print_text(f"95 % intervals, clustered by {shadow.unit_kind}. {disputed}")
    print_text(LOWER_BOUND)
    if later is None:
        print_text(WITHOUT_VISITS if shadow.unit_kind == "query" else WITHOUT_TIMES)
    if shadow.unanswered:
        print_text(
            f"{shadow.unanswered:,.0f} {what} are left out, because their query is not among the "
            "recorded answers."
        )


def show_held(segments: Sequence[Held]) -> None:
    """Print a table of segments; an interval is not known where nothing varies."""

    def write(share: Share) -> str:
        value, low, high = (f"{100 * each:.1f}" for each in share)
        return value if math.isnan(share.low) else f"{value} ({low} to {high})"

    headers = "", "events", "queries", "both", "only ours", "only theirs", "gain"
    rows = []
    for held in segments:
        shares = held.both, held.only_ours, held.only_theirs, held.gain
        counts = f"{held.purchases:,.0f}", f"{held.queries:,}"
        rows.append((held.segment, *counts, *map(write, shares)))
    print_table(headers, rows)

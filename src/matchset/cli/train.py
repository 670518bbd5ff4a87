"""Train: from a log to a model on disk."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from matchset.cli.columns import LogColumns
from matchset.cli.console import say, training_bar
from matchset.cli.settings import Settings, make_config
from matchset.matchers.train import TrainSummary
from matchset.matchers.train import train as train_matcher

COLUMNS, SETTINGS = LogColumns(), Settings()


def train(
    log: list[str],
    /,
    *,
    out: Annotated[Path, Parameter(alias="-o")],
    catalog: Path | None = None,
    config: Path | None = None,
    overwrite: bool = False,
    columns: LogColumns = COLUMNS,
    settings: Annotated[Settings, Parameter(name="*", group="Settings")] = SETTINGS,  # type: ignore[valid-type]
) -> None:
    """Learn from a search log which products answer a query.

    Parameters
    ----------
    log
        Files, globs or folders: Parquet, CSV, TSV or JSON Lines, plain, .gz or .zst.
    out
        Folder for the model.
    catalog
        The products: id, title and attributes. Titles teach too.
    config
        Settings in TOML, named as the flags below; those of the vectorizer stand under
        [vectorizer], those of the solver and the tree under [learn].
    overwrite
        Replace a model that is there.
    columns
        Columns of log and catalogue.
    settings
        Settings, each of which beats the file's.

    """
    chosen = make_config(config, settings)
    with training_bar() as bar:
        read, goods = columns.read(log), columns.read_catalog(catalog)
        matcher = train_matcher(read, goods, chosen, out=out, overwrite=overwrite, progress=bar)
    say(str(TrainSummary(**matcher.provenance["summary"])))
    say(f"saved to {out}")

"""Settings: how is a configuration given on the command line?

The flags are made from the configuration's own fields, so that there is one list of settings and
one place for defaults. A flag beats the file given with --config, which beats the defaults.
"""

from __future__ import annotations

import ast
import inspect
import tomllib
from dataclasses import asdict, fields, make_dataclass
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, get_type_hints

from cyclopts import Parameter

from matchset.cli.console import say, training_bar
from matchset.cli.options import LogColumns
from matchset.config import LearnConfig, TrainConfig, VectorizerConfig, read_config
from matchset.matchers.train import train as train_matcher

# Settings that are tables of their own, and go into a file.
IN_FILES_ONLY = {"vectorizer", "learn", "ngrams"}
WITHIN: dict[str, type[VectorizerConfig | LearnConfig]] = {
    "vectorizer": VectorizerConfig,
    "learn": LearnConfig,
}


def _flags() -> list[tuple[str, Any, Any]]:
    flags: list[tuple[str, Any, Any]] = []
    train = TrainConfig()
    for default in (train, train.vectorizer, train.learn):
        kind = type(default)
        types, told = get_type_hints(kind), _read_docs(kind)
        for name in (field.name for field in fields(kind) if field.name not in IN_FILES_ONLY):
            says = f"{told[name]} [default: {getattr(default, name)}]"
            of = dict[str, float] if name == "events" else types[name]
            shown = Parameter(help=says, show_default=False)
            flags.append((name, Annotated[of | None, shown], None))
    return flags


def _read_docs(kind: type) -> dict[str, str]:
    """The text below each field of a configuration."""
    docs = {}
    for field, text in pairwise(ast.walk(ast.parse(inspect.getsource(kind)))):
        match field, text:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=told)):
                docs[name] = str(told)
    return docs


# Every setting as an optional flag.
Settings = make_dataclass("Settings", _flags(), frozen=True, kw_only=True)
Settings.__module__ = __name__  # Python 3.11 says "types", and cyclopts then sees no fields


def names_of(kind: type[TrainConfig | VectorizerConfig | LearnConfig]) -> set[str]:
    """Names of a configuration's settings."""
    return {field.name for field in fields(kind)}


def make_config(file: Path | None, flags: Any) -> TrainConfig:
    """The configuration: defaults, changed by a TOML file, changed by flags."""
    stored: dict[str, Any] = {}
    if file is not None:
        try:
            stored = tomllib.loads(file.read_text())
        except tomllib.TOMLDecodeError as error:
            raise ValueError(f"{file}: must be TOML; {error}") from None
    for name, value in asdict(flags).items():
        if value is None:
            continue
        section = next((s for s, kind in WITHIN.items() if name in names_of(kind)), None)
        table = stored.setdefault(section, {}) if section else stored
        table[name] = value
    return read_config(stored)


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
    say(matcher.summary)
    say(f"saved to {out}")

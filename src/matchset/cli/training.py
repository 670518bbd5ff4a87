"""Training: how is a model trained, and how are its settings given on the command line?

The flags are made from the fields of the configuration, so that there is one list of settings and
one place for defaults. A flag overrides the file given with --config, which overrides the defaults.
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

from matchset.cli.console import print_text, training_bar
from matchset.cli.options import LogColumns
from matchset.config import LearnConfig, TrainConfig, VectorizerConfig, read_config
from matchset.matchers.train import TrainSummary
from matchset.matchers.train import train as train_matcher

# Settings that are tables, and can be given in a file only.
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
        types, docs = get_type_hints(kind), _read_docs(kind)
        for name in (field.name for field in fields(kind) if field.name not in IN_FILES_ONLY):
            text = f"{docs[name]} [default: {getattr(default, name)}]"
            value_type = dict[str, float] if name == "events" else types[name]
            shown = Parameter(help=text, show_default=False)
            flags.append((name, Annotated[value_type | None, shown], None))
    return flags


def _read_docs(kind: type) -> dict[str, str]:
    """The text below each field of a configuration."""
    docs = {}
    for field, below in pairwise(ast.walk(ast.parse(inspect.getsource(kind)))):
        match field, below:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=text)):
                docs[name] = str(text)
    return docs


# Every setting as an optional flag.
Settings = make_dataclass("Settings", _flags(), frozen=True, kw_only=True)
Settings.__module__ = __name__  # Python 3.11 says "types", and cyclopts then sees no fields


def names_of(kind: type[TrainConfig | VectorizerConfig | LearnConfig]) -> set[str]:
    """Names of a configuration's settings."""
    return {field.name for field in fields(kind)}


def make_config(file: Path | None, flags: Any) -> TrainConfig:
    """The configuration: the defaults, overridden by a TOML file, overridden by flags."""
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
        The products: id, title and attributes; the model also learns from titles.
    config
        TOML file of settings, named as the flags below; those of the vectorizer are under
        [vectorizer], those of the solver and the tree under [learn].
    overwrite
        Replace an existing model.
    columns
        Columns of log and catalog.
    settings
        Settings; each overrides that of the file.

    """
    chosen = make_config(config, settings)
    with training_bar() as bar:
        read, goods = columns.read(log), columns.read_catalog(catalog)
        matcher = train_matcher(read, goods, chosen, out=out, overwrite=overwrite, progress=bar)
    print_text(str(TrainSummary(**matcher.provenance["summary"])))
    print_text(f"saved to {out}")

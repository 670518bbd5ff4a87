"""Flags: which flags do several commands share?

Flags for settings are made from the fields of the configuration, so that there is one list of
settings and one place for defaults. A flag overrides the file given with --config, which overrides
the defaults.
"""

from __future__ import annotations

import ast
import inspect
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, make_dataclass
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

from cyclopts import Group, Parameter

from matchset.config import LearnConfig, TrainConfig, VectorizerConfig, read_config
from matchset.data.catalog import Catalog
from matchset.data.catalog_reader import Duplicates, read_catalog
from matchset.data.columns import ColumnChoice
from matchset.data.log import Log
from matchset.data.log_reader import read_log
from matchset.errors import InputError
from matchset.memory import DEFAULT_MEMORY

# Settings that are tables, and can be given in a file only.
IN_FILES_ONLY = {"vectorizer", "learn", "ngrams"}
# Settings of matrices that a log does not have; they are for `XRLinear`.
MATRICES_ONLY = {"embeddings", "given_share"}
READING = Group("Reading files", sort_key=1)  # the heading of these flags in help
WITHIN: dict[str, type[VectorizerConfig | LearnConfig]] = {
    "vectorizer": VectorizerConfig,
    "learn": LearnConfig,
}


@Parameter(name="*", group=READING)
@dataclass(frozen=True, slots=True, kw_only=True)
class LogColumns:
    """How a log is read; a column that is not named is found by its usual names."""

    query: str | None = None
    "Column of the query; a path such as request.params.q names a nested field."
    product: str | None = None
    "Column of the product id."
    event: str | None = None
    "Column of the event, such as click or purchase; 'none' if the log has no such column."
    timestamp: str | None = None
    "Column of the time; 'none' if the log has no such column."
    count: str | None = None
    "Column of the count of events; 'none' if the log has no such column."
    session: str | None = None
    "Column of the session, which joins clicks without a query to searches before them."
    time_format: str | None = None
    "Format of times that are neither ISO nor numbers, such as '%d.%m.%Y %H:%M'."
    decimal: Literal[".", ","] | None = None
    "Decimal separator of prices and of numbers with a decimal comma."
    encoding: str | None = None
    "Encoding of text files that are not UTF-8, such as cp1252 or utf-16."
    strict: Annotated[bool, Parameter(negative="")] = False
    "Stop at the first row that cannot be used, and show where it is."
    memory: str = DEFAULT_MEMORY
    "Memory that this process may own; anything beyond goes to temporary files."

    def read(self, sources: list[str]) -> Log:
        """Read the log."""
        return read_log(
            sources[0] if len(sources) == 1 else sources,
            query=self.query,
            product=self.product,
            event=choose_column(self.event),
            timestamp=choose_column(self.timestamp),
            count=choose_column(self.count),
            session=choose_column(self.session),
            time_format=self.time_format,
            decimal=self.decimal,
            encoding=self.encoding,
            strict=self.strict,
            memory=self.memory,
        )


@Parameter(name="*", group=READING)
@dataclass(frozen=True, slots=True, kw_only=True)
class Columns(LogColumns):
    """How a log and its catalog are read, for commands that take both."""

    catalog_product: str | None = None
    "Column of the product id in the catalog."
    catalog_title: str | None = None
    "Column of the title in the catalog."
    catalog_description: str | None = None
    "Column of the description in the catalog; 'none' if it has no such column."
    catalog_text: Annotated[tuple[str, ...], Parameter(consume_multiple=True, negative="")] = ()
    "Columns of the catalog to search in addition to the title, such as brand and category."
    duplicates: Duplicates = "error"
    "Which row to keep if the catalog has a product with several titles."

    def read_catalog(self, file: Path | None) -> Catalog | None:
        """Read the catalog, if there is one."""
        if file is None:
            return None
        with _naming_catalog_flags():
            return read_catalog(
                str(file),
                product=self.catalog_product,
                title=self.catalog_title,
                description=choose_column(self.catalog_description),
                text=self.catalog_text,
                duplicates=self.duplicates,
                time_format=self.time_format,
                decimal=self.decimal,
                encoding=self.encoding,
                memory=self.memory,
            )


def choose_column(column: str | None) -> ColumnChoice:
    """Return the column that a flag names; False for 'none'."""
    return False if column == "none" else column


@contextmanager
def _naming_catalog_flags() -> Iterator[None]:
    """Errors name the flags of the catalog: --product is that of the log."""
    try:
        yield
    except InputError as error:
        if error.parameter in ("product", "title", "description", "text"):
            error.parameter = f"catalog_{error.parameter}"
        raise


def _flags() -> list[tuple[str, Any, Any]]:
    flags: list[tuple[str, Any, Any]] = []
    train = TrainConfig()
    for default in (train, train.vectorizer, train.learn):
        kind = type(default)
        types, docs = get_type_hints(kind), _read_docs(kind)
        hidden = IN_FILES_ONLY | MATRICES_ONLY
        for name in (field.name for field in fields(kind) if field.name not in hidden):
            value = getattr(default, name)
            is_list = isinstance(value, tuple)  # --parts tree towers
            text = docs[name].replace("purchase=1 click=0.2", "--events.purchase 1")
            if value is not None:
                text += f" [default: {' '.join(value) if is_list else value}]"
            value_type = dict[str, float] if name == "events" else types[name]
            shown = Parameter(help=text, show_default=False, consume_multiple=is_list)
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
Settings.__module__ = __name__  # it is "types" in Python 3.11, and cyclopts then sees no fields


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

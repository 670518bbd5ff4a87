"""Flags: which flags do several commands share?

A flag overrides the file given with --config, which overrides the defaults.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Group, Parameter

from matchset.config import TrainConfig, read_config
from matchset.data.catalog import Catalog
from matchset.data.catalog_reader import Duplicates, read_catalog
from matchset.data.columns import ColumnChoice
from matchset.data.log import Log
from matchset.data.log_reader import read_log
from matchset.errors import InputError
from matchset.memory import DEFAULT_MEMORY

READING = Group("Reading files", sort_key=1)  # the heading of these flags in help
DEFAULTS = TrainConfig()


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


def show_default(*values: object) -> Parameter:
    """Show the default that a configuration has, for a flag that is None unless it is given."""
    shown = " ".join(map(str, values))
    return Parameter(show_default=lambda _: shown, consume_multiple=len(values) > 1)


@Parameter(name="*", group="Settings")
@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings that shops change; a file can set all of `TrainConfig`."""

    events: dict[str, float] | None = None
    "Weight of each event, such as --events.purchase 1 (default: by the usual names of events)."
    min_count: Annotated[float | None, show_default(DEFAULTS.min_count)] = None
    "A query and a product are a positive pair if their weighted events add up to at least this."
    min_query_count: Annotated[float | None, show_default(DEFAULTS.min_query_count)] = None
    "Never show queries with fewer events than this, nor n-grams that occur only in such queries."
    language: Annotated[str | None, show_default(DEFAULTS.language)] = None
    "Stem words in this language (en, de, ...; cjk: scripts without spaces); auto detects it."
    parts: Annotated[tuple[str, ...] | None, show_default(*DEFAULTS.parts)] = None
    "Parts of the match set; tree alone is XR-Linear."
    new_share: float | None = None
    "Share of new products among the answers (default: as the log tells)."
    seed: Annotated[int | None, show_default(DEFAULTS.learn.seed)] = None
    "Random seed."
    threads: int | None = None
    "Threads (default: one for each core)."


def make_config(file: Path | None, settings: Settings) -> TrainConfig:
    """Make the configuration: flags override a TOML file, which overrides the defaults."""
    stored: dict[str, Any] = {}
    if file is not None:
        try:
            stored = tomllib.loads(file.read_text())
        except tomllib.TOMLDecodeError as error:
            raise ValueError(f"{file}: must be TOML; {error}") from None
    for name, value in asdict(settings).items():
        if value is not None:
            table = stored.setdefault("learn", {}) if name in ("seed", "threads") else stored
            table[name] = value
    return read_config(stored)

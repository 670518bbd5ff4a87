"""Columns: how are the columns of a log named on the command line?"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cyclopts import Parameter

from matchset.data.catalog import Catalog
from matchset.data.catalog_reader import read_catalog
from matchset.data.log import Log
from matchset.data.log_reader import read_log
from matchset.errors import InputError


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class LogColumns:
    """Columns of log and catalogue; one that is not named is found by its usual names."""

    query: str | None = None
    "Column of the query."
    product: str | None = None
    "Column of the product id."
    event: str | None = None
    "Column of the event, such as click or purchase."
    timestamp: str | None = None
    "Column of the time."
    count: str | None = None
    "Column of how often it happened."
    strict: bool = False
    "Stop at the first row that cannot be used, and name it."

    catalog_product: str | None = None
    "Column of the product id in the catalogue."
    catalog_title: str | None = None
    "Column of the title in the catalogue."

    def read_catalog(self, file: Path | None) -> Catalog | None:
        """Read the catalogue, if there is one."""
        if file is None:
            return None
        with _of_the_catalog():
            return read_catalog(str(file), product=self.catalog_product, title=self.catalog_title)

    def read(self, sources: list[str]) -> Log:
        """Read the log."""
        return read_log(
            sources[0] if len(sources) == 1 else sources,
            query=self.query,
            product=self.product,
            event=self.event,
            timestamp=self.timestamp,
            count=self.count,
            strict=self.strict,
        )


@contextmanager
def _of_the_catalog() -> Iterator[None]:
    """Name the flags of the catalog in errors: the log has a --product too."""
    try:
        yield
    except InputError as error:
        if error.parameter in ("product", "title"):
            error.parameter = f"catalog_{error.parameter}"
        raise

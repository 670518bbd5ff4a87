"""Columns: how are the columns of a log named on the command line?"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cyclopts import Parameter

from matchset.data.catalog import Catalog
from matchset.data.catalog_reader import read_catalog
from matchset.data.log import Log
from matchset.data.log_reader import read_log
from matchset.data.tables import LOG_NAMES
from matchset.errors import DataError

_LOG_FLAGS = {role: f"--{role}" for role in LOG_NAMES}
_CATALOG_FLAGS = {"product": "--catalog-product", "title": "--catalog-title"}


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
        with _naming(_CATALOG_FLAGS):
            return read_catalog(str(file), product=self.catalog_product, title=self.catalog_title)

    def read(self, sources: list[str]) -> Log:
        """Read the log."""
        with _naming(_LOG_FLAGS):
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
def _naming(flags: Mapping[str, str]) -> Iterator[None]:
    """Name flags where an error names the parameters of Python that they set."""
    try:
        yield
    except DataError as error:
        parameter = re.compile(rf"^({'|'.join(flags)})=(?='| must) ?")
        raise DataError(parameter.sub(lambda found: f"{flags[found[1]]} ", str(error))) from None

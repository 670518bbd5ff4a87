"""Writer: how do products that a request brings reach the model's folder, and every worker?"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

from matchset.errors import ModelFileError, UncertainWriteError
from matchset.matchers.match_set import MatchSet
from matchset.matchers.registry import load
from matchset.model.upserts import Upsert
from matchset.serve.http.request_errors import RequestError
from matchset.serve.http.requests import ProductsRequest
from matchset.serve.loaded_model import LoadedModel
from matchset.serve.options import ServeConfig
from matchset.serve.reload.run_folder import RunFolder
from matchset.serve.reload.snapshots import Sources
from matchset.serve.reload.switch import reload_for
from matchset.storage.folders import checksum

_NOT_SERVED = "the change is written, but not served yet"


@dataclass(frozen=True, slots=True)
class Written:
    """What is served now."""

    version: str
    generation: int


class Writer:
    """The writer of one worker. Writers of several workers take turns by the folder's lock."""

    def __init__(self, run: RunFolder, sources: Sources, config: ServeConfig) -> None:
        self._run, self._sources, self._config = run, sources, config
        self._lock = threading.Lock()
        self._model: MatchSet | None = None  # as it was after the last write

    def write(self, wanted: ProductsRequest, served: LoadedModel) -> Written:
        """Write products to the model's folder, then serve them in all workers.

        `served` is what this worker has open: what it holds already is not read again.
        """
        if not self._config.writable:
            raise RequestError("read_only", "products need a server started with --writable")
        with self._lock:
            generation = self._write(wanted)
        written = time.monotonic()
        try:
            wrote = checksum(self._sources.model), written
            version = reload_for(self._run, self._sources, self._config, wrote, served)
        except RequestError as error:
            raise RequestError(error.code, f"{_NOT_SERVED}: {error.message}") from None
        except (ModelFileError, OSError) as error:
            raise RequestError("model_rejected", f"{_NOT_SERVED}: {error}") from None
        return Written(version, generation)

    def _write(self, wanted: ProductsRequest) -> int:
        try:
            model = self._model or load(self._sources.model)
            if not isinstance(model, MatchSet):
                rule = f"only a match set can change its products; got a {model.kind} matcher"
                raise RequestError("read_only", rule)
            # Kept whatever comes: on a full disk, each attempt would open some dozens of files,
            # which stay open as long as the traceback of its error.
            self._model = model
            # It looks whether the folder holds something newer.
            self._model = model.upsert(
                [Upsert(one.id, one.title, one.attributes or {}) for one in wanted.products],
                remove=wanted.remove,
                version=wanted.version,
            )
        except UncertainWriteError as error:
            self._model = None
            failure = RequestError("maybe_written", str(error))
        except ModelFileError as error:
            self._model = None
            failure = RequestError("not_written", f"{error}; nothing changed")
        except (OSError, MemoryError) as error:
            failure = RequestError("not_written", f"{error}; nothing changed")
        except ValueError as error:
            failure = RequestError("bad_parameter", str(error))
        else:
            return self._model.freshness.generation
        raise failure  # here, or it would keep the error, and with it what that had opened

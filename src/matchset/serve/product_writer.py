"""Product writer: how do products of requests reach the disk and every worker?"""

from __future__ import annotations

import threading
from concurrent.futures import Future
from dataclasses import dataclass

from matchset.errors import ModelFileError, ParameterError, UncertainWriteError
from matchset.matchers import model_writer
from matchset.model.upserts import Upsert
from matchset.serve.loaded_model import LoadedModel
from matchset.serve.options import ServeConfig
from matchset.serve.request_errors import RequestError
from matchset.serve.requests import ProductsRequest
from matchset.serve.snapshots import Sources
from matchset.serve.versions import RunFolder, publish


@dataclass(frozen=True, slots=True)
class Written:
    """A change that is on disk."""

    version: str
    generation: int


class Writer:
    """The writer of one worker. Writers of several workers take turns by the model's lock.

    Requests that come while one is written wait, and are published together: publishing takes
    longer than writing.
    """

    def __init__(self, run: RunFolder, sources: Sources, config: ServeConfig) -> None:
        self._run, self._sources, self._config = run, sources, config
        self._lock = threading.Lock()
        self._waiting: list[tuple[ProductsRequest, Future[Written]]] = []
        self._writer: model_writer.Writer | None = None

    def write(self, wanted: ProductsRequest, served: LoadedModel) -> Written:
        """Write products to the model and publish it; on disk when it returns.

        `served` is what this worker has open: what it holds already is not read again.
        """
        if not self._config.writable:
            raise RequestError("read_only", "products need a server started with --writable")
        future: Future[Written] = Future()
        self._waiting.append((wanted, future))
        with self._lock:
            if not future.done():
                waiting, self._waiting = self._waiting, []
                self._write_all(waiting, served)
        return future.result()

    def _write_all(
        self, waiting: list[tuple[ProductsRequest, Future[Written]]], served: LoadedModel
    ) -> None:
        written: list[tuple[Future[Written], int]] = []
        for wanted, future in waiting:
            try:
                written.append((future, self._write(wanted)))
            except Exception as error:
                future.set_exception(error)
        if not written:
            return
        try:
            version = publish(self._run, self._sources, self._config, served).version
        except Exception as error:
            failure = RequestError(
                "model_rejected", f"the change is written, but not served yet: {error}"
            )
            for future, _ in written:
                future.set_exception(failure)
        else:
            for future, generation in written:
                future.set_result(Written(version, generation))

    def _write(self, wanted: ProductsRequest) -> int:
        products = [Upsert(one.id, one.title, one.attributes or {}) for one in wanted.products]
        try:
            # Kept whatever comes: on a full disk, each attempt would open the model again, which
            # stays open as long as the traceback of its error.
            self._writer = self._writer or model_writer.open_writer(self._sources.model)
            # It looks whether the file holds something newer.
            model = self._writer.upsert(products, remove=wanted.remove, version=wanted.version)
        except ParameterError as error:
            failure = RequestError("read_only", str(error))
        except UncertainWriteError as error:
            self._writer = None
            failure = RequestError("maybe_written", str(error))
        except ModelFileError as error:
            self._writer = None
            failure = RequestError("not_written", f"{error}; nothing changed")
        except (OSError, MemoryError) as error:
            failure = RequestError("not_written", f"{error}; nothing changed")
        except ValueError as error:
            failure = RequestError("bad_parameter", str(error))
        else:
            return model.freshness.generation
        raise failure  # here, or it would keep the error, and with it what that had opened

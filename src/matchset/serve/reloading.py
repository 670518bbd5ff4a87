"""Reloading: when is the model loaded again, and how is that told?"""

from __future__ import annotations

import logging
import threading
import time

from matchset.errors import ModelFileError
from matchset.serve.loaded_model import LoadedModel
from matchset.serve.options import ServeConfig
from matchset.serve.prometheus import RELOADED, Metrics
from matchset.serve.request_errors import RequestError
from matchset.serve.snapshots import Sources
from matchset.serve.versions import RunFolder, publish

logger = logging.getLogger(__name__)
_POLL_SECONDS = 0.25


def reload(run: RunFolder, sources: Sources, config: ServeConfig, metrics: Metrics) -> LoadedModel:
    """Publish what the sources hold; a RequestError says why the old model stays."""
    try:
        opened = publish(run, sources, config)
    except RequestError as error:
        failure = error
    except (ModelFileError, ValueError, OSError, MemoryError) as error:
        failure = RequestError("model_rejected", f"{error}; still serving the old model")
    else:
        metrics.count_reload(RELOADED)
        logger.info("reloaded", extra={"fields": {"version": opened.version}})
        return opened
    metrics.count_reload(failure.code)
    fields = {"code": failure.code, "reason": failure.message}
    logger.warning("reload failed", extra={"fields": fields})
    raise failure


class Watcher:
    """Reloads in the main process: when a signal asks for it, or the sources have changed."""

    def __init__(
        self, run: RunFolder, sources: Sources, config: ServeConfig, metrics: Metrics
    ) -> None:
        self._given = run, sources, config, metrics
        self._sources, self._watches = sources, config.watch
        self._is_asked = threading.Event()
        self._tried = sources.identity() if config.watch else ""
        threading.Thread(target=self._watch, name="reload watcher", daemon=True).start()

    def ask(self, *_: object) -> None:
        """Reload soon."""
        self._is_asked.set()

    def try_reload(self) -> None:
        """Reload now; a failure is only logged."""
        try:
            reload(*self._given)
        except RequestError:
            return  # already logged
        except Exception:
            logger.exception("a reload failed")

    def _watch(self) -> None:
        before = self._tried
        while True:
            time.sleep(_POLL_SECONDS)
            now = self._sources.identity() if self._watches else ""
            is_settled, before = now == before, now  # a model may still be copied
            if self._is_asked.is_set() or (is_settled and now != self._tried):
                self._is_asked.clear()
                self._tried = now
                self.try_reload()

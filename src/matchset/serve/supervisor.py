"""Supervisor: what happens when a worker dies, or a signal asks for a reload?

A worker that dies is replaced. One that was not killed may have died of its model: files that
changed in place, against the rule, can crash every worker that opens or reads them. So the model
is verified then, and if it is damaged, made again from its folder. If that is not possible, and no
worker is left, the server ends with an error, for whoever supervises it to see.
"""

from __future__ import annotations

import logging
import secrets
import signal
import time
from multiprocessing.process import BaseProcess
from typing import Any

from granian.server.mp import MPServer

from matchset.serve.options import ServeConfig
from matchset.serve.reload.run_folder import RunFolder, read_all_workers
from matchset.serve.reload.snapshots import Sources
from matchset.serve.reload.switch import replace_damaged

logger = logging.getLogger(__name__)
_RESPAWN_SECONDS = 0.5  # between workers that die one after the other
_LONGEST_RESPAWN_SECONDS = 10.0  # where they keep dying before they have opened the model
_MOST_UNOPENED = 6  # workers in a row that died before they had opened the model
_KILLED = (-signal.SIGKILL, -signal.SIGTERM, -signal.SIGINT)


class Supervisor(MPServer):
    """Granian's supervisor, except for reload signals and dying workers."""

    run: RunFolder
    sources: Sources
    config: ServeConfig
    stop_reason: str | None = None  # why it gave up
    _n_unopened = 0

    def signal_handler_reload(self, *_: Any) -> None:
        """Request a reload of the model; granian would restart its workers."""
        try:
            self.run.write_text("requested", secrets.token_hex(8))
        except OSError as error:  # disk full; raised here, it would end the server
            logger.error("cannot request a reload: %s", error)  # noqa: TRY400

    def _respawn_workers(self, workers: list[int], *args: Any, **options: Any) -> None:
        dead = [self.wrks[index].inner for index in workers]
        reason = self._examine(dead)
        if reason is not None:
            self._give_up(reason)
            return
        super()._respawn_workers(workers, *args, **options)
        # Granian gives up when a worker dies twice in a few seconds; we never do.
        self.respawned_wrks.clear()
        time.sleep(min(_RESPAWN_SECONDS * 2**self._n_unopened, _LONGEST_RESPAWN_SECONDS))

    def _examine(self, dead: list[BaseProcess]) -> str | None:
        """Log how workers died, and repair what they died of; a reason to give up, or None."""
        known = read_all_workers(self.run)
        for process in dead:
            fields = {"pid": process.pid, "died_of": _name_exit(process.exitcode)}
            logger.error("a worker died", extra={"fields": fields})
            _, status = known.get(process.pid or 0, (False, None))
            self._n_unopened = 0 if status and status.is_open else self._n_unopened + 1
        if all(process.exitcode in _KILLED for process in dead):
            return None
        reason = replace_damaged(self.run, self.sources, self.config)
        if any(is_live and status and status.is_open for is_live, status in known.values()):
            return None  # the others serve on
        if reason is None and self._n_unopened >= _MOST_UNOPENED:
            return f"{self._n_unopened} workers in a row died before they had opened the model"
        return reason

    def _give_up(self, reason: str) -> None:
        self.stop_reason = reason
        self.signal_handler_interrupt()  # type: ignore[no-untyped-call]


def _name_exit(code: int | None) -> str:
    if code is None or code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"

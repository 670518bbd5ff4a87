"""Interrupts: how does a command end soon after Ctrl-C, whatever native code is doing?

Python handles a signal between two of its own steps. A kernel that solves or indexes for seconds,
with every core, would keep a user waiting for as long.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from matchset.cli.console import print_error
from matchset.data.spill import remove_spilled

STOPPED = "matchset: stopped; nothing was saved"
_SECONDS = 1.0  # for what is running to end by itself


@contextmanager
def ending_soon(stop: Callable[[], None]) -> Iterator[None]:
    """End the process a second after Ctrl-C or SIGTERM, if it has not ended by then.

    Only around what leaves nothing on disk that a killed process may not leave. What is shown
    meanwhile is ended by `stop` first, or it would be shown again below the last line.
    """
    if threading.current_thread() is not threading.main_thread():  # others get no signals
        yield
        return
    seen, sent = socket.socketpair()
    sent.setblocking(False)
    before = signal.set_wakeup_fd(sent.fileno(), warn_on_full_buffer=False)
    watching = threading.Thread(target=_watch, args=(seen, stop), daemon=True)
    watching.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        sent.close()  # ends the thread
        watching.join()
        seen.close()


def _watch(seen: socket.socket, stop: Callable[[], None]) -> None:
    number = b"\0"
    while number and number[0] not in (signal.SIGINT, signal.SIGTERM):
        number = seen.recv(1)
    if not number:
        return
    seen.settimeout(_SECONDS)
    try:
        while seen.recv(1):  # another signal; nothing is the end
            pass
    except TimeoutError:
        stop()
        print_error(STOPPED)
        remove_spilled()
        os._exit(128 + number[0])

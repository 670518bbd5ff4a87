"""Connections: how many does a worker have, and when does the kernel close one?

Granian opens the socket of a worker; its options are set here, through the open files.
"""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Iterator

_FILES = "/proc/self/fd"


def close_unread(seconds: float) -> bool:
    """Make the kernel close connections whose peer takes no byte of what waits for it in time.

    Holds for the connections that there are and for those to come. False: this process does not
    listen yet.
    """
    found = False
    if not hasattr(socket, "TCP_USER_TIMEOUT"):  # not Linux
        return True
    for one in _open_sockets():
        if one.family in (socket.AF_INET, socket.AF_INET6):
            milliseconds = max(1, int(1000 * seconds))
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, milliseconds)
            found = found or _is_listening(one)
    return found


def count_connections() -> int:
    """How many connections this process has."""
    return sum(
        not one.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) for one in _open_sockets()
    )


def _is_listening(one: socket.socket) -> bool:
    return bool(one.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))


def _open_sockets() -> Iterator[socket.socket]:
    """The sockets of this process."""
    for name in os.listdir(_FILES):  # noqa: PTH208  # only the names
        try:
            if not stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                continue
            copy = os.dup(int(name))
        except OSError:  # closed meanwhile
            continue
        with socket.socket(fileno=copy) as one:
            yield one

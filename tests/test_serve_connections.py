"""Idle connections do not keep others out."""

import resource
import socket
from contextlib import ExitStack

from serving import serving

IDLE = 3000


def test_thousands_of_idle_connections_keep_nobody_out(folder):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = min(hard, IDLE + 200)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    try:
        # None is closed for its silence during the test.
        with serving(folder, "--limits.header-seconds", 600) as server:
            with ExitStack() as idle:
                for _ in range(wanted - 200):
                    idle.enter_context(socket.create_connection(("127.0.0.1", server.port), 60))
                assert server.match("sofa").status == 200
            assert server.stop() == 0
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

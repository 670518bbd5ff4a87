"""Worker process: a process that does the tasks it reads from its standard input.

It ends when the input does, that is with the process that started it, whatever it is doing then.
"""

from __future__ import annotations

import os
import pickle
import queue
import sys
import threading
from typing import Any, BinaryIO

from matchset.memory import limit_memory

_LENGTH = 8  # bytes before a message


def send(stream: BinaryIO, message: object) -> None:
    """Write a message."""
    data = pickle.dumps(message)
    stream.write(len(data).to_bytes(_LENGTH, "little") + data)
    stream.flush()


def receive(stream: BinaryIO) -> bytes:
    """Read a message, pickled; an EOFError if there is none, or half of one."""
    length = stream.read(_LENGTH)
    data = stream.read(int.from_bytes(length, "little"))
    if len(length) < _LENGTH or len(data) < int.from_bytes(length, "little"):
        raise EOFError
    return data


def main() -> None:
    """Do tasks until there are no more."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a task prints is no answer
    messages: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(sys.stdin.buffer, messages), daemon=True).start()
    while True:
        send(answers, _do(messages.get(), answers))


def _listen(source: BinaryIO, messages: queue.SimpleQueue[bytes]) -> None:
    while True:
        try:
            messages.put(receive(source))
        except EOFError:
            os._exit(0)


def _do(message: bytes, answers: BinaryIO) -> tuple[str, Any]:
    try:
        task, results, threads, memory = pickle.loads(message)  # noqa: S301 (of our own process)
        with limit_memory(memory, results.path):
            task(results, threads, lambda done, total: send(answers, ("step", (done, total))))
    except Exception as error:
        return "error", error
    return "done", None

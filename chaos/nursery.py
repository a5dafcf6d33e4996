"""Starts `parley worker` processes quickly: everything is imported once, each worker is a fork of that.

An interpreter that imports what a worker needs takes most of a second of CPU; a fork takes milliseconds, and
is a process like any other: own pid, own connections, killed like any other. Only what does not exist before
a worker's command begins is shared, so nothing here opens a connection, a thread or an event loop.

Talks to its starter in JSON lines over a Unix socket (argument 1), and ends with it.
"""

import gc
import json
import os
import select
import signal
import socket
import sys
from contextlib import suppress
from typing import NoReturn

from engine.main import worker_command

REQUEST_BYTES = 4096


def main(address: str) -> None:
    """Until the starter closes the socket: {"start": name} in; {"started": name, "pid"} and
    {"ended": pid, "code"} out, code 128 + n where signal n ended it."""
    starter = socket.socket(socket.AF_UNIX)
    starter.connect(address)
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    gc.collect()
    gc.freeze()
    orders = b""
    while True:
        ready, _, _ = select.select([starter, wake_read], [], [])
        if wake_read in ready:
            os.read(wake_read, REQUEST_BYTES)
            _report_ended(starter)
        if starter in ready:
            received = starter.recv(REQUEST_BYTES)
            if not received:
                return
            *lines, orders = (orders + received).split(b"\n")
            for line in lines:
                name = json.loads(line)["start"]
                pid = _fork(name, [starter.fileno(), wake_read, wake_write])
                _tell(starter, {"started": name, "pid": pid})


def _fork(name: str, ours: list[int]) -> int:
    pid = os.fork()
    if pid:
        return pid
    _become_worker(name, ours)


def _become_worker(name: str, ours: list[int]) -> NoReturn:
    """In the child: as a fresh process would begin."""
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for fd in ours:
            os.close(fd)
        worker_command.main(args=["--name", name], prog_name="parley worker")
    finally:
        os._exit(1)


def _report_ended(starter: socket.socket) -> None:
    with suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            code = os.waitstatus_to_exitcode(status)
            _tell(starter, {"ended": pid, "code": code if code >= 0 else 128 - code})


def _tell(starter: socket.socket, message: dict[str, str | int]) -> None:
    with suppress(BrokenPipeError):
        starter.sendall(json.dumps(message).encode() + b"\n")


if __name__ == "__main__":
    main(sys.argv[1])

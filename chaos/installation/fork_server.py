"""Starts Parley's processes quickly: everything is imported once, each process is a fork of that.

An interpreter that imports what a gateway needs takes over a second of CPU; a fork takes milliseconds, and is
a process like any other: own pid, environment, command line, files and connections, killed like any other.
Only what does not exist before a command begins is shared, so nothing here opens a connection, a thread or an
event loop. Asked by chaos/installation/forked.py; for tests and chaos only, and only on Linux.

Arguments: the listening socket's descriptor, its abstract address, room for a command line. Standard input
ends when its starter does, and so do this process and all that it started.
"""

import gc
import importlib
import json
import os
import select
import signal
import socket
import struct
import sys
from importlib.metadata import entry_points
from typing import Any

from chaos.installation import fork_environment, forked
from core.runtime import leash_main

# What processes of ours import beside their commands: some of it only when they run.
IMPORTED = (
    *("aiosqlite", "alembic.command", "asyncpg", "httptools", "httpx", "multiprocessing", "uvloop"),
    *("sqlalchemy.dialects.postgresql.asyncpg", "sqlalchemy.dialects.sqlite.aiosqlite"),
    *("uvicorn.lifespan.on", "uvicorn.protocols.http.httptools_impl", "websockets"),
    *(
        "core.sql.store_errors",
        "core.runtime.environment",
        "engine.main",
        "chaos.installation.cluster",
        "chaos.run",
    ),
)
COMMANDS = ("parley.commands", "parley.actions")
MESSAGE_BYTES = 65536


def main(listening: int, address: str) -> None:
    """Until standard input ends."""
    for name in IMPORTED:
        importlib.import_module(name)
    for group in COMMANDS:
        for entry in entry_points(group=group):
            entry.load()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for who asked; its end is ours
    assert len(os.listdir("/proc/self/task")) == 1, "a fork has one thread of its parent's"
    gc.collect()
    gc.freeze()
    ForkServer(socket.socket(fileno=listening), address).serve()


class ForkServer:
    """What was forked, and for whom."""

    def __init__(self, server: socket.socket, address: str) -> None:
        self._server = server
        self._address = address
        self._askers: dict[int, socket.socket] = {}  # by the pid of what was started for them
        self._leashes: set[int] = set()  # which end by themselves once who asked is gone
        self._wake = os.pipe()
        for end in self._wake:
            os.set_blocking(end, False)
        signal.set_wakeup_fd(self._wake[1], warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)

    def serve(self) -> None:
        """Until standard input ends; then what is left is killed."""
        wake, stdin = self._wake[0], sys.stdin.fileno()
        while True:
            ready, _, _ = select.select([stdin, self._server, wake, *self._askers.values()], [], [])
            if stdin in ready:
                break
            for pid in [pid for pid, asker in self._askers.items() if asker in ready]:
                self._forget(pid)
            if wake in ready:
                os.read(wake, MESSAGE_BYTES)
                self._report_ended()
            if self._server in ready:
                self._obey()
        for pid in list(self._askers):
            self._forget(pid)

    def _obey(self) -> None:
        asker, _ = self._server.accept()
        try:
            if forked.user_of(asker) != os.getuid():  # its address is no file with a mode
                raise PermissionError
            order, fds = _order(asker)
        except (OSError, ValueError):
            asker.close()
            return
        pid = os.fork()
        if pid == 0:
            self._leave_to_parent()
            fork_environment.run(lambda: _become(order, fds, self._address, asker))
        for fd in fds:
            os.close(fd)
        self._askers[pid] = asker
        if order["leashed"]:
            self._leashes.add(pid)

    def _leave_to_parent(self) -> None:
        """In the child."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for each in (self._server, *self._askers.values()):
            each.close()
        for fd in self._wake:
            os.close(fd)

    def _forget(self, pid: int) -> None:
        """Who asked for it is gone, or wants no more of it."""
        self._askers.pop(pid).close()
        if pid not in self._leashes:
            os.kill(pid, signal.SIGKILL)

    def _report_ended(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            self._leashes.discard(pid)
            if asker := self._askers.pop(pid, None):
                _tell(asker, {"ended": os.waitstatus_to_exitcode(status)})
                asker.close()


def _order(asker: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """What is asked for, and the descriptors that came with it."""
    size, fds, _, _ = socket.recv_fds(asker, 4, forked.DESCRIPTORS_MAX)
    (wanted,) = struct.unpack("!I", size)
    received = b""
    while len(received) < wanted:
        received += (more := asker.recv(wanted - len(received)))
        if not more:
            raise ValueError("who asked is gone")
    return json.loads(received), fds


def _become(order: dict[str, Any], fds: list[int], address: str, asker: socket.socket) -> None:
    """In the child: as a fresh process would begin, then its program."""
    forked.use(lambda: address)  # what it starts is forked, too
    if order["session"]:
        os.setsid()
    os.chdir(order["folder"])
    os.umask(order["umask"])
    fork_environment.limit_files(order["files_max"])
    fork_environment.take_streams(fds[:3])
    argv: list[str] = order["argv"]
    leash = [sys.executable, "-I", "-S", str(leash_main.__file__)] if order["leashed"] else []
    fork_environment.take([*leash, *argv], order["environment"])
    _tell(asker, {"pid": os.getpid()})  # from here on others find it under its name
    asker.close()
    if not leash:
        fork_environment.program(argv)
        return
    held, report = fds[3:]

    def begin(_: str, command: list[str]) -> None:
        os.execvp = execvp
        fork_environment.take(command, order["environment"])
        fork_environment.close_as_exec_does()
        signal.signal(signal.SIGINT, signal.default_int_handler)  # as an interpreter that begins
        fork_environment.run(lambda: fork_environment.program(command))

    execvp, os.execvp = (
        os.execvp,
        begin,
    )  # the leash itself is as it is: only its command needs no new interpreter
    sys.exit(leash_main.main(held, report, argv))


def _tell(asker: socket.socket, message: dict[str, int]) -> None:
    try:
        asker.sendall(json.dumps(message).encode() + b"\n")
    except OSError:
        return  # it has gone, which is seen next


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])

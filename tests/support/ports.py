"""Loopback ports that nobody else takes between the moment they are given out and their use.

Each test process owns a block of ports by a file lock, so that parallel workers and parallel runs never share
one; blocks lie below the range from which the system takes the ports of outgoing connections.
"""

import fcntl
import os
import random
import socket
import stat
import tempfile
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path

FIRST, END = 20_000, 32_000
BLOCK_PORTS = 200  # more than any test uses at once, so a port rests before it is given out again
LOCKS = (
    Path(os.environ.get("PYTEST_DEBUG_TEMPROOT") or tempfile.gettempdir())
    / f"parley-test-ports-{os.getuid()}"
)
EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")

_mine: dict[int, Iterator[int]] = {}


def free_ports(count: int) -> list[int]:
    """Different loopback ports of this process's own on which nobody listens."""
    ports = _ports_of_this_process()
    found: list[int] = []
    for _ in range(BLOCK_PORTS):
        if len(found) == count:
            return found
        port = next(ports)
        if _is_free(port):
            found.append(port)
    raise AssertionError(f"of {BLOCK_PORTS} ports less than {count} are free")


def two_free_ports_in_a_row() -> int:
    """The first of two neighbours of this process's own on which nobody listens."""
    [before] = free_ports(1)
    for _ in range(BLOCK_PORTS):
        [port] = free_ports(1)
        if port == before + 1:
            return before
        before = port
    raise AssertionError("no two neighbours are free")


def _ports_of_this_process() -> Iterator[int]:
    if os.getpid() not in _mine:  # a forked child has a block of its own
        first = _locked_block()
        _mine[os.getpid()] = cycle(range(first, first + BLOCK_PORTS))
    return _mine[os.getpid()]


def _locked_block() -> int:
    """The first port of a block that no other process holds. Its lock ends with this process."""
    LOCKS.mkdir(mode=0o700, exist_ok=True)
    found = LOCKS.lstat()  # whose folder it lies in is everybody's
    is_ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o022
    assert is_ours, f"{LOCKS} is somebody else's: remove it"
    blocks = list(range(FIRST, min(END, _ephemeral_from()) - BLOCK_PORTS + 1, BLOCK_PORTS))
    random.Random(os.getpid()).shuffle(blocks)
    for first in blocks:
        lock = os.open(LOCKS / str(first), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            continue
        return first
    raise AssertionError(f"all {len(blocks)} blocks of ports are taken: {LOCKS}, {EPHEMERAL}")


def _ephemeral_from() -> int:
    try:
        return int(EPHEMERAL.read_text().split()[0])
    except OSError:
        return END


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as a server that listens does
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True

"""Which processes this one started, however far off: they descend from it, or carry its mark.

A mark in the environment stays with a process whose parent died first. What is not ours is looked at once, so
that looking after each test costs little.
"""

import os
import signal
import time
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from pathlib import Path

MARK = "PARLEY_TEST_RUN"
COMMAND_CHARACTERS_MAX = 160
EXEC_TRIES, EXEC_SECONDS = 50, 0.001  # how long one that becomes another program has no environment


class ProcessFamily:
    """The living processes of one test process. `mark`: MARK in its environment."""

    def __init__(self, mark: str) -> None:
        self._mark = f"{MARK}={mark}".encode()
        self._seen: dict[int, bool] = {}

    def look(self) -> set[int]:
        """Their ids."""
        living = {int(name) for name in os.listdir("/proc") if name.isdigit()} - {os.getpid()}
        self._seen = {pid: ours for pid, ours in self._seen.items() if pid in living}
        for pid in living - self._seen.keys():
            self._seen[pid] = self._is_ours(pid)
        return {pid for pid, ours in self._seen.items() if ours}

    def left(self, pids: Iterable[int], lasting: set[int]) -> set[int]:
        """Of these those that live, and belong to none of the lasting ones. An id may be another's by now."""
        return {
            pid
            for pid in pids
            if state_of(pid) not in ("", "Z") and self._is_ours(pid) and not lasting & set(ancestors(pid))
        }

    def _is_ours(self, pid: int) -> bool:
        with suppress(OSError):
            if self._mark in environment(pid):
                return True
        return os.getpid() in ancestors(pid)


@contextmanager
def marked_as(mark: str) -> Generator[None]:
    """What is started in this block is another's."""
    ours, os.environ[MARK] = os.environ[MARK], mark
    try:
        yield
    finally:
        os.environ[MARK] = ours


def marked(run: str) -> set[int]:
    """All living processes that carry a mark of this run."""
    beginning, found = f"{MARK}={run}".encode(), set[int]()
    for pid in (int(name) for name in os.listdir("/proc") if name.isdigit()):
        with suppress(OSError):
            is_its = any(each.startswith(beginning) for each in environment(pid))
            if is_its and state_of(pid) not in ("", "Z"):
                found.add(pid)
    return found - {os.getpid()}


def environment(pid: int) -> list[bytes]:
    """Each `NAME=value`. Between one program and the next a process has none: that is waited for. Raises
    OSError where it has ended, or is the kernel's."""
    for _ in range(EXEC_TRIES):
        if found := Path(f"/proc/{pid}/environ").read_bytes():
            return found.split(b"\0")
        time.sleep(EXEC_SECONDS)
    return []


def state_of(pid: int) -> str:
    """S, R, Z …; empty where there is none."""
    return facts[0] if (facts := _facts(pid)) else ""


def ancestors(pid: int) -> list[int]:
    """Its parents, the nearest first."""
    found: list[int] = []
    while pid > 1 and (facts := _facts(pid)):
        pid = int(facts[1])
        found.append(pid)
    return found


def _facts(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def shown(pid: int) -> str:
    """Its id and its command line."""
    try:
        command = (
            Path(f"/proc/{pid}/cmdline")
            .read_bytes()
            .rstrip(b"\0")
            .replace(b"\0", b" ")
            .decode(errors="replace")
        )
    except OSError:
        command = "(gone)"
    return f"process {pid}: {command[:COMMAND_CHARACTERS_MAX]}"


def kill(pids: Iterable[int]) -> None:
    """Those that live still."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)

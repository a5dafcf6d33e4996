"""Tries shapes, each in a process of its own that may be killed: `python -m engine.trials.host FOLDER`.

Reads lines {"n", "shape"} and writes {"n", "problem"}, in any order; without a problem where it could not be
tried in time. Libraries are loaded once; a trial is a fork with 2 s of CPU, a gigabyte more memory than the
host has, and nothing to write to but its pipe. Ends with its standard input.
"""

import json
import os
import resource
import selectors
import signal
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from engine.grammar.response_format import format_of

CPU_SECONDS_MAX = 2.0
WALL_SECONDS_MAX = 40.0  # on an overloaded machine
MEMORY_BYTES_MAX = 1 << 30
NICENESS = 5  # of a trial: a quarter of a core where others want all of it
LOOK_SECONDS = 0.5


@dataclass
class _RunningTrial:
    """One trial: its number, its process, its output so far."""

    number: int
    pid: int
    until: float
    said: bytes = b""


class TrialHost:
    """All trials of this process."""

    def __init__(self, trial: Any, requests: IO[bytes], answers: IO[bytes]) -> None:
        self._trial = trial
        self._answers = answers
        self._requests = requests
        self._selector = selectors.DefaultSelector()
        self._running: dict[int, _RunningTrial] = {}
        self._rest = b""

    def serve(self) -> None:
        """Try shapes until standard input ends."""
        os.set_blocking(self._requests.fileno(), False)
        self._selector.register(self._requests, selectors.EVENT_READ)
        while True:
            for key, _ in self._selector.select(LOOK_SECONDS):
                if key.fileobj is not self._requests:
                    self._hear(key.fd)
                elif not self._take():
                    self._end_all()
                    return
            self._end_late()

    def _take(self) -> bool:
        data = os.read(self._requests.fileno(), 1 << 20)
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            request = json.loads(line)
            self._begin(request["n"], request["shape"])
        return bool(data)

    def _begin(self, number: int, packed: str) -> None:
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            with suppress(BaseException):
                os.close(read)
                os.nice(NICENESS)
                self._try(packed, write)
            os._exit(1)
        os.close(write)
        self._running[read] = _RunningTrial(number, pid, time.monotonic() + WALL_SECONDS_MAX)
        self._selector.register(read, selectors.EVENT_READ)

    def _try(self, packed: str, pipe: int) -> None:
        bound(CPU_SECONDS_MAX)

        def say(place: str) -> None:
            os.write(pipe, f"at {place}\n".encode())

        say("the shape")
        problem = self._trial.problem(format_of(packed), say)
        os.write(pipe, f"is {problem}\n".encode())
        os._exit(0)

    def _hear(self, pipe: int) -> None:
        data = os.read(pipe, 1 << 16)
        self._running[pipe].said += data
        if not data:
            self._over(pipe)

    def _over(self, pipe: int) -> None:
        running = self._running.pop(pipe)
        self._selector.unregister(pipe)
        os.close(pipe)
        _, status = os.waitpid(running.pid, 0)
        problem = _verdict(running.said.decode(), os.waitstatus_to_exitcode(status))
        answer = {"n": running.number} | ({} if problem is None else {"problem": problem})
        self._answers.write(json.dumps(answer).encode() + b"\n")
        self._answers.flush()

    def _end_late(self) -> None:
        for running in self._running.values():
            if time.monotonic() > running.until:
                os.kill(running.pid, signal.SIGKILL)  # its pipe closes, and the loop sees it

    def _end_all(self) -> None:
        for running in self._running.values():
            os.kill(running.pid, signal.SIGKILL)


def _verdict(said: str, code: int) -> str | None:
    """The verdict of an ended trial. None: it does not count."""
    last = said.splitlines()[-1] if said else ""
    if code == 0 and last.startswith("is "):
        return last.removeprefix("is ")
    if code == -signal.SIGKILL or not last:
        return None
    place = last.removeprefix("at ")
    if code == -signal.SIGPROF:
        return f"{place}: too large: not tried within {CPU_SECONDS_MAX:.0f} s of CPU, make it smaller"
    return f"{place}: too large: the grammar compiler fails at it"


def bound(cpu_seconds: float) -> None:
    """Limit this process' CPU time and memory from now on. The signal ends it also in native code."""
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_PROF, cpu_seconds)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    statm = Path("/proc/self/statm")
    if statm.exists():
        size = int(statm.read_text().split()[0]) * resource.getpagesize() + MEMORY_BYTES_MAX
        _, most = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (size if most == resource.RLIM_INFINITY else most, most))


def main() -> None:
    """Load, report readiness, and serve."""
    from engine.trials.trial import ShapeTrial  # torch: only here

    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    sys.stdout = sys.stderr
    host = TrialHost(ShapeTrial(Path(sys.argv[1])), requests, answers)
    answers.write(b'{"ready": true}\n')
    answers.flush()
    host.serve()


if __name__ == "__main__":
    main()

"""Processes of ours that tests start without a leash: forks where they can be (chaos/installation/forked.py).

`finished` is for a command that ends by itself, `begun` for one that the test ends, `piped` for one that it
talks to.
"""

import asyncio
import os
import socket
import subprocess
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from chaos.installation.forked import Forked, forks, start, streams
from tests.support import patience
from tests.support.patience import RUN_SECONDS, watch_until

Pair = tuple[asyncio.StreamReader, asyncio.StreamWriter]
PARLEY = (sys.executable, "-m", "core.cli")


def parley(*arguments: str) -> list[str]:
    """The command line of `parley …`."""
    return [*PARLEY, *arguments]


def finished(
    argv: Sequence[str], environment: Mapping[str, str] | None = None, seconds: float = RUN_SECONDS
) -> "subprocess.CompletedProcess[str]":
    """Run to its end; its exit code and what it said. One that does not end is killed and fails the test."""
    given = dict(os.environ if environment is None else environment)
    if not forks(argv, given):
        return patience.finished(argv, seconds, env=given)
    with TemporaryDirectory() as folder:
        out, error = Path(folder) / "out", Path(folder) / "error"
        with streams(out, error) as three:
            process = start(argv, given, three).begun_here()
        watch_until(lambda: process.poll() is not None, seconds)  # it is killed with its last holder
        assert process.returncode is not None
        return subprocess.CompletedProcess(argv, process.returncode, out.read_text(), error.read_text())


async def begun(
    argv: Sequence[str], environment: Mapping[str, str] | None = None, log: Path | None = None
) -> Forked | Process:
    """A process with its output in `log` (None: ours). The test ends it."""
    given = dict(os.environ if environment is None else environment)
    if not forks(argv, given):
        with streams(log or Path(os.devnull), log or Path(os.devnull)) as (_, output, _):
            where = None if log is None else output
            return await asyncio.create_subprocess_exec(*argv, env=given, stdout=where, stderr=where)
    if log is None:
        return await start(argv, given, (0, 1, 2)).begun()
    with streams(log, log) as three:
        return await start(argv, given, three).begun()


async def piped(
    argv: Sequence[str], environment: Mapping[str, str], stdin: int | None = None
) -> "Piped | Process":
    """A process that the test talks to. `stdin`: a terminal's, say."""
    if not forks(argv, environment):
        given = PIPE if stdin is None else stdin
        return await asyncio.create_subprocess_exec(
            *argv, env=environment, stdin=given, stdout=PIPE, stderr=PIPE
        )
    pairs = [socket.socketpair() for _ in range(3)]
    three = [theirs.fileno() for _, theirs in pairs]
    if stdin is not None:
        three[0] = stdin
    process = await start(argv, environment, three).begun()
    for _, theirs in pairs:
        theirs.close()
    return Piped(process, *[await asyncio.open_connection(sock=ours) for ours, _ in pairs])


class Piped:
    """A fork whose three streams are ours, as asyncio's Process has them."""

    def __init__(self, process: Forked, stdin: Pair, stdout: Pair, stderr: Pair) -> None:
        self._process = process
        self._pairs = stdin, stdout, stderr
        self.stdin, self.stdout, self.stderr = stdin[1], stdout[0], stderr[0]

    @property
    def returncode(self) -> int | None:
        """Once it has ended."""
        return self._process.returncode

    def send_signal(self, number: int) -> None:
        """Unless it has ended."""
        self._process.send_signal(number)

    async def communicate(self, typed: bytes | None = None) -> tuple[bytes, bytes]:
        """Type, hear it out, and let go of it."""
        if typed:
            self.stdin.write(typed)
        self.stdin.close()
        out, error = await asyncio.gather(self.stdout.read(), self.stderr.read())
        await self._process.wait()
        for _, writer in self._pairs:
            writer.close()
        return out, error

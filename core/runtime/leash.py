"""Child processes that never outlive their parent, however it dies (docs/architecture.md, "No orphans").

`spawn` starts `core/runtime/leash_main.py`, which starts the command in its own session and process group
and holds a pipe from here. Our death closes the pipe and the leash kills the group; the leash's death is seen
here and kills the group; the command's exit kills what it left behind. Only a process that leaves its group
escapes.
"""

import asyncio
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, Process
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from core.errors import StartupError

PROGRAM = Path(__file__).with_name("leash_main.py")


class LeashedProcess:
    """One running command. `pid` is the command's, and its process group's id."""

    def __init__(self, pid: int, leash: Process, pipe: int) -> None:
        self.pid = pid
        self.leash_pid = leash.pid
        self.returncode: int | None = None
        self._leash = leash
        self._pipe: int | None = pipe
        self._ended = asyncio.ensure_future(self._watch())

    @property
    def ended(self) -> asyncio.Future[int]:
        """The same exit code as `wait` gives, to wait for among others. Nobody cancels it."""
        return self._ended

    async def wait(self) -> int:
        """The command's exit code, 128 + n where signal n ended it; by then its whole group was killed."""
        return await asyncio.shield(self._ended)

    def terminate(self) -> None:
        """Ask the command to end (SIGTERM)."""
        if self.returncode is None:
            self._leash.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL the command and everything it started."""
        if self.returncode is None:
            _kill_group(self.pid)
            self._let_go()

    async def _watch(self) -> int:
        code = await self._leash.wait()
        if code < 0:  # the leash itself was killed and could not clean up
            _kill_group(self.pid)
            code = 128 - code
        self._let_go()
        self.returncode = code
        return code

    def _let_go(self) -> None:
        if self._pipe is not None:
            os.close(self._pipe)
            self._pipe = None


async def spawn(argv: Sequence[str], env: Mapping[str, str], log_path: Path | None = None) -> LeashedProcess:
    """Start a command under a leash, its output appended to `log_path` (None: ours).

    Raises StartupError where the command or its log cannot be opened.
    """
    held_read, held_write = os.pipe()
    report_read, report_write = os.pipe()
    try:
        leash = await _start(argv, env, log_path, held_read, report_write)
    except BaseException as error:
        os.close(held_write)  # a leash that was started ends by this
        os.close(report_read)
        if isinstance(error, OSError):
            raise StartupError(f"cannot start {argv[0]}: {error.strerror} ({error.filename})") from error
        raise
    finally:
        os.close(held_read)
        os.close(report_write)
    try:
        told = await asyncio.to_thread(_read_all, report_read)
    except BaseException:
        os.close(held_write)
        raise
    pid, _, failure = told.partition("\n")
    if not pid or failure:
        os.close(held_write)
        await leash.wait()
        raise StartupError(f"cannot start {failure or argv[0]}")
    return LeashedProcess(int(pid), leash, held_write)


async def _start(
    argv: Sequence[str], env: Mapping[str, str], log_path: Path | None, held: int, report: int
) -> Process:
    command = [sys.executable, "-I", "-S", str(PROGRAM), str(held), str(report), *argv]
    log = os.open(log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600) if log_path else None
    try:
        return await asyncio.create_subprocess_exec(
            *command,
            env=dict(env),
            stdin=DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=(held, report),
            start_new_session=True,
        )
    finally:
        if log is not None:
            os.close(log)


def _read_all(fd: int) -> str:
    with os.fdopen(fd, "rb") as pipe:
        return pipe.read().decode()


def _kill_group(pid: int) -> None:
    with suppress(ProcessLookupError, PermissionError):  # macOS answers the second for a group of zombies
        os.killpg(pid, signal.SIGKILL)

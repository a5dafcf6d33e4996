"""The processes that `parley up` runs: each on a leash, started again when it dies, stopped in order."""

import asyncio
import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from core.access.processes import ProcessKind
from core.clock import monotonic
from core.errors import StartupError
from core.runtime.environment import child_environment
from core.runtime.leash import LeashedProcess, spawn

LOG_BYTES_MAX = 16 * 1024 * 1024
LOG_CHECK_SECONDS = 30.0
LOG_TAIL_BYTES = 4096
STABLE_SECONDS = 30.0
BACKOFF_SECONDS_MAX = 10.0
STOP_SECONDS_MAX = 8.0

Say = Callable[[str], None]


class ChildProcess:
    """One `parley` command, restarted for as long as `parley up` runs."""

    def __init__(
        self, process: ProcessKind, arguments: Sequence[str], home: Path, env: Mapping[str, str], say: Say
    ) -> None:
        self.name = name = process.name
        self.log = home / "logs" / f"{name}.log"
        self._argv = [sys.executable, "-m", "core.cli", *arguments]
        self.environment = {**child_environment(os.environ, process), **env}
        self._say = say
        self._process: LeashedProcess | None = None
        self._stopping = False

    async def run(self) -> None:
        """Run it, and again whenever it ends, until `stop`. Raises StartupError where it cannot be
        started."""
        failures = 0
        while not self._stopping:
            started = monotonic()
            try:
                self._process = await spawn(self._argv, self.environment, self.log)
            except StartupError as error:
                if self._process is None:  # it never ran, and would not the next time
                    raise
                told = str(error)
            else:
                code = await self._process.wait()
                told = f"{self.name} ended with code {code} and is started again: {self._last_line()}"
            if self._stopping:
                return
            failures = 0 if monotonic() - started > STABLE_SECONDS else failures + 1
            self._say(told)
            await asyncio.sleep(min(BACKOFF_SECONDS_MAX, 0.5 * 2**failures) if failures else 0)

    async def stop(self) -> None:
        """Ask it to end, and kill what has not ended in time."""
        self._stopping = True
        process = self._process
        if process is None or process.returncode is not None:
            return
        process.terminate()
        try:
            async with asyncio.timeout(STOP_SECONDS_MAX):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()

    def _last_line(self) -> str:
        try:
            lines = self.log.read_bytes()[-LOG_TAIL_BYTES:].decode(errors="replace").strip().splitlines()
        except OSError:
            lines = []
        return f"{lines[-1][:300] if lines else 'nothing logged'} (log: {self.log})"


async def rotate_logs(folder: Path) -> None:
    """Keep each log file under LOG_BYTES_MAX, with one older copy. Writers append, so a cut is safe."""
    while True:
        await asyncio.to_thread(rotate_once, folder, LOG_BYTES_MAX)
        await asyncio.sleep(LOG_CHECK_SECONDS)


def rotate_once(folder: Path, bytes_max: int) -> None:
    """Move logs that are too long aside. A full disk leaves the log as it is."""
    for log in folder.glob("*.log"):
        try:
            if log.stat().st_size > bytes_max:
                shutil.copyfile(log, log.with_suffix(".log.1"))
                os.truncate(log, 0)
        except OSError:
            continue

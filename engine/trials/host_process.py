"""One host of trials (engine/trials/host.py), started with the first trial and again where it ended."""

import asyncio
import contextlib
import json
import os
import sys
from asyncio.subprocess import PIPE, Process
from pathlib import Path

from core.observability.telemetry import logger
from engine.backends.environment import QUIET

log = logger(__name__)

HOST = ("-m", "engine.trials.host")
START_SECONDS_MAX = 120.0
TRIAL_SECONDS_MAX = 45.0  # the host itself ends a trial earlier
# Variables that the host needs. No secret and no address: it runs code paths chosen by strangers.
KEPT = ("PATH", "HOME", "LANG", "LD_LIBRARY_PATH", "PYTHONPATH", "VIRTUAL_ENV", "TMPDIR")
SMALL = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}


class TrialRunner:
    """Tries shapes with the vocabulary of the model in `folder`. `log_path` takes the host's stderr."""

    def __init__(self, folder: Path, log_path: Path) -> None:
        self._folder = folder
        self._log_path = log_path
        self._process: Process | None = None
        self._hearing: asyncio.Task[None] | None = None
        self._starting = asyncio.Lock()
        self._waiting: dict[int, asyncio.Future[str | None]] = {}
        self._number = 0

    async def problem(self, packed: str) -> str | None:
        """The problem with a packed shape, empty where there is none; None: no verdict in time."""
        async with self._starting:
            process = await self._running()
        if process is None:
            return None
        assert process.stdin is not None, "it was started with a pipe"
        self._number += 1
        number, waiting = self._number, asyncio.get_running_loop().create_future()
        self._waiting[number] = waiting
        try:
            process.stdin.write(json.dumps({"n": number, "shape": packed}).encode() + b"\n")
            async with asyncio.timeout(TRIAL_SECONDS_MAX):
                await process.stdin.drain()
                return await waiting
        except (TimeoutError, OSError):
            log.warning("trials.process_failed")
            return None
        finally:
            del self._waiting[number]

    async def close(self) -> None:
        """End the host; its trials get no verdict."""
        process, self._process = self._process, None
        if process is not None:
            await _ended(process)
        if self._hearing is not None:
            self._hearing.cancel()
            await asyncio.wait([self._hearing])

    async def _running(self) -> Process | None:
        if self._process is not None and self._process.returncode is None:
            return self._process
        process = await self._begun()
        assert process.stdout is not None, "it was started with a pipe"
        ready = b""
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(START_SECONDS_MAX):
                    ready = await process.stdout.readline()
        finally:  # also where the caller is cancelled: nobody else knows this process yet
            if not ready:
                await _ended(process)
        if not ready:
            log.error("trials.start_failed", log=str(self._log_path))
            return None
        self._process = process
        self._hearing = asyncio.create_task(self._hear(process, process.stdout))
        return process

    async def _begun(self) -> Process:
        environment = {name: os.environ[name] for name in KEPT if name in os.environ} | QUIET | SMALL
        argv = [sys.executable, *HOST, str(self._folder)]
        self._log_path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        errors = os.open(self._log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            return await asyncio.create_subprocess_exec(
                *argv, env=environment, stdin=PIPE, stdout=PIPE, stderr=errors, limit=1 << 20
            )
        finally:
            os.close(errors)

    async def _hear(self, process: Process, answers: asyncio.StreamReader) -> None:
        while line := await answers.readline():
            answer = json.loads(line)
            waiting = self._waiting.get(answer["n"])
            if waiting is not None and not waiting.done():
                waiting.set_result(answer.get("problem"))
        if self._process is process:  # later callers get another host, whether or not this one is seen dead
            self._process = None
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_result(None)
        await _ended(process)


async def _ended(process: Process) -> None:
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()

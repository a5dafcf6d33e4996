"""A supervisor that the controller runs on a leash: it ends with the controller, however that ends."""

import asyncio
import contextlib
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

import msgspec

from core.access.access_folder import FOLDER
from core.access.processes import SUPERVISOR
from core.clock import monotonic, now_ms
from core.configuration.settings import Settings
from core.runtime.environment import child_environment
from core.runtime.leash import LeashedProcess, spawn
from engine.fleet.observed import ChildNow
from engine.node.reports import WorkerCounts

STABLE_SECONDS = 30.0
STOP_SECONDS_MAX = 20.0  # its workers have 15 of them
LOG_TAIL_BYTES = 4096
LINE_MAX = 300
PORTS_AHEAD = 200  # above those of other processes
PORTS_EACH = 65  # a supervisor's and its workers'
PORT_MAX = 65_535


class ChildSupervisor:
    """The supervisor of one pool, one process after the other. `one_user`: it uses our Redis user."""

    def __init__(self, settings: Settings, pool: str, number: int, one_user: bool = False) -> None:
        self.number = number
        self._settings = settings
        self._pool = pool
        self._one_user = one_user
        self._process: LeashedProcess | None = None
        self._workers = self._failures = self._ended_ms = 0
        self._began = 0.0
        self._why = ""
        self._stopping: asyncio.Task[None] | None = None

    @property
    def now(self) -> ChildNow | None:
        """How it is; None: it never ran, or it ended as it was told."""
        process = self._process
        if process is None:
            return None
        if process.returncode is not None:
            self._ended(process.returncode)
            if self._stopping is not None:
                return None
        alive = process.returncode is None
        return ChildNow(process.pid, self._workers, alive, self._failures, self._ended_ms, self._why)

    @property
    def end(self) -> asyncio.Future[int] | None:
        """The end of the process that runs; None: none does."""
        process = self._process
        return None if process is None or process.returncode is not None else process.ended

    async def start(self, counts: WorkerCounts, model: str) -> None:
        """Start it, unless it runs. Raises StartupError where it cannot be started."""
        if self._process is not None and self._process.returncode is None:
            return
        argv = [sys.executable, "-m", "core.cli", "supervisor", "--pool", self._pool]
        self._log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        environment = child_settings(os.environ, self._settings, self._pool, self.number, self._one_user)
        environment["PARLEY_MODEL"] = model
        self._began, self._ended_ms, self._workers = monotonic(), 0, sum(counts.versions.values())
        argv += ["--counts", msgspec.json.encode(counts, order="sorted").decode()]
        self._process = await spawn(argv, environment, self._log)

    def stop(self) -> None:
        """Let its workers drain and end it; asked again it changes nothing."""
        if self._process is not None and self._process.returncode is None and self._stopping is None:
            self._stopping = asyncio.create_task(_end(self._process))

    async def stopped(self) -> None:
        """Wait for the end of one that was told to stop."""
        if self._stopping is not None:
            await self._stopping

    def _ended(self, code: int) -> None:
        """Count an end, once."""
        if not self._ended_ms:
            self._ended_ms = now_ms()
            self._failures = 1 if monotonic() - self._began > STABLE_SECONDS else self._failures + 1
            self._why = f"code {code}: {self._last_line()}"

    @property
    def _log(self) -> Path:
        of_pool = (
            "" if self._pool == Settings.model_fields["pool"].default else f"-{quote(self._pool, safe='')}"
        )
        return self._settings.home / "logs" / f"supervisor{of_pool}.log"

    def _last_line(self) -> str:
        try:
            lines = self._log.read_bytes()[-LOG_TAIL_BYTES:].decode(errors="replace").strip().splitlines()
        except OSError:
            lines = []
        return lines[-1][:LINE_MAX] if lines else f"nothing in {self._log}"


async def _end(process: LeashedProcess) -> None:
    process.terminate()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(STOP_SECONDS_MAX):
            await process.wait()
    process.kill()
    await process.wait()


def child_settings(
    base: Mapping[str, str], settings: Settings, pool: str, number: int, one_user: bool = False
) -> dict[str, str]:
    """A supervisor's environment. Where Redis has users it and its workers come in as their pool's, from the
    files that `parley redis acl` wrote; metrics of later supervisors are on ports further up."""
    environment = child_environment(base, SUPERVISOR)
    if has_users(settings) and not one_user:
        for name, file in (("REDIS_URL", "supervisor"), ("WORKER_REDIS_URL", "worker")):
            environment.pop(f"PARLEY_{name}", None)
            environment[f"PARLEY_{name}_FILE"] = str(user_file(settings, file, pool))
    if settings.metrics_port is not None and number:
        port = settings.metrics_port + PORTS_AHEAD + PORTS_EACH * (number - 1)
        environment.pop("PARLEY_METRICS_PORT", None)
        if port + PORTS_EACH <= PORT_MAX:
            environment["PARLEY_METRICS_PORT"] = str(port)
    return environment


def user_file(settings: Settings, process: str, pool: str) -> Path:
    """The file with the URL of a pool's user."""
    return settings.home / FOLDER / f"parley-{process}-{pool}.url"


def has_users(settings: Settings) -> bool:
    """True where this process comes in to Redis under a name of its own."""
    url = settings.redis_url.get_secret_value() if settings.redis_url else ""
    name = url.partition("://")[2].rpartition("@")[0].partition(":")[0]
    return name not in ("", "default")


def lacking_user(settings: Settings, pool: str) -> str:
    """The two commands that give a pool's processes their Redis users; empty where none is needed, or there
    are such files."""
    files = [user_file(settings, process, pool) for process in ("supervisor", "worker")]
    if not has_users(settings) or all(file.exists() for file in files):
        return ""
    return (
        f"Redis has no users for pool {pool} ({files[0]} is missing): run `parley redis acl --url URL "
        f"--pool {pool}` with all other pools too, then `ACL LOAD` on every node of Redis"
    )

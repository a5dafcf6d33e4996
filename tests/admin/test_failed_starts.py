"""A process whose start fails half way leaves nothing open, and says in one line what to do."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import psutil
import pytest
from redis.exceptions import ResponseError
from sqlalchemy import text

from admin import console
from admin.child_processes import ChildProcess
from admin.own_pool import WantedPool
from admin.up import PlatformStart
from billing.posting import biller
from core.access.processes import BILLER
from core.configuration.settings import Settings
from core.errors import StartupError
from core.runtime import leash
from core.runtime.embedded import RESTORE_MARK
from core.runtime.service import why_it_ended
from core.sql.database import Database
from core.sql.stores import open_stores
from engine.models.known import registered
from engine.node.supervisor import Supervisor
from engine.queue.client import PoolQueue
from server import main as gateway
from tests.support.home import settings_in
from tests.support.patience import soon, wait_until
from tests.support.processes import finished, parley
from tests.support.scripted_redis import scripted_redis

Serve = Callable[[Settings, asyncio.Event], Awaitable[None]]
CANARY = "canary-Zq7x"


async def refused(serve: Serve, settings: Settings) -> str:
    """The one line of a start that fails; nothing is left of it, counted when all that is kept is there."""
    said, files, tasks = "", 0, set[asyncio.Task[object]]()
    for _ in range(2):
        tasks, files = asyncio.all_tasks(), psutil.Process().num_fds()
        with pytest.raises(Exception) as raised:  # noqa: PT011  (whatever it is, the process says one line)
            await serve(settings, asyncio.Event())
        said = why_it_ended(raised.value, settings) or repr(raised.value)
    await wait_until(lambda: asyncio.all_tasks() <= tasks)
    await wait_until(lambda: psutil.Process().num_fds() <= files)
    return said


def _settings(home: Path, redis_url: str, **facts: object) -> Settings:
    return settings_in(home, redis_url=redis_url, port=0, console_port=0, portal_port=0, **facts)


@pytest.mark.parametrize(
    "serve", [gateway.serve, console.serve, biller.main], ids=["gateway", "console", "biller"]
)
async def test_without_tables(serve: Serve, home: Path, redis_url: str):
    assert "parley db migrate" in await refused(serve, _settings(home, redis_url))


async def _a_worker(settings: Settings, stop: asyncio.Event) -> None:
    await registered(settings)


async def _up(settings: Settings, stop: asyncio.Event) -> None:
    await PlatformStart(settings, WantedPool("model", True, 1), as_json=True).run(stop)


@pytest.mark.parametrize(
    "serve",
    [gateway.serve, console.serve, biller.main, _a_worker, _up],
    ids=["gateway", "console", "biller", "worker", "up"],
)
async def test_with_a_database_of_before(serve: Serve, sqlite: Database, home: Path, redis_url: str):
    """Of before 0.1.0, which is told in one line."""
    async with sqlite.engine.begin() as connection:
        await connection.execute(text("UPDATE alembic_version SET version_num = '0033'"))
    said = await refused(serve, _settings(home, redis_url))
    assert f"{home}/parley.db was made before 0.1.0 (schema 0033)" in said


@pytest.mark.usefixtures("sqlite")
async def test_a_gateway_whose_redis_refuses(home: Path):
    """What it says is not repeated."""
    async with scripted_redis() as server:
        server.answer = lambda _: f"-NOPERM {CANARY}\r\n".encode()
        said = await refused(gateway.serve, _settings(home, f"redis://127.0.0.1:{server.port}?protocol=2"))
        await server.all_gone()
    assert said.startswith(f"Redis refuses at redis://127.0.0.1:{server.port}: ")
    assert "parley redis acl" in said
    assert CANARY not in said


@pytest.mark.usefixtures("sqlite")
async def test_a_gateway_that_fails_when_it_listens_to_its_pool(
    home: Path, redis_url: str, monkeypatch: pytest.MonkeyPatch
):
    """Its channel and the task that reads it are closed."""

    async def fails(self: PoolQueue, gateway: str) -> None:
        raise ResponseError(f"OOM {CANARY}")

    monkeypatch.setattr(PoolQueue, "renew_gateway", fails)
    said = await refused(gateway.serve, _settings(home, redis_url))
    assert said.startswith("Redis refuses")
    assert CANARY not in said


@pytest.mark.usefixtures("sqlite")
async def test_a_biller_without_its_key(home: Path, redis_url: str):
    """Also where it fails among its tasks, it is a line and no traceback."""
    url = f"sqlite+aiosqlite:///{home / 'parley.db'}"
    settings = Settings.model_validate({"home": home, "redis_url": redis_url, "database_url": url})
    assert "parley secrets admission" in await refused(biller.main, settings)


@pytest.mark.parametrize("command", ["gateway", "biller"])
def test_no_process_starts_on_half_of_a_restore(command: str, home: Path, redis_url: str):
    """What Redis counts may not fit the database yet."""
    (home / RESTORE_MARK).write_text("{}")
    environment = {**os.environ, "PARLEY_HOME": str(home), "PARLEY_REDIS_URL": redis_url}
    done = finished(parley(command), environment)
    assert done.returncode == 1
    assert f"a restore did not end here ({home})" in done.stderr.splitlines()[-1]


async def test_a_supervisor_without_its_folder(home: Path, redis_url: str):
    """The folder cannot be made: a file is in its place."""
    (home / "file").write_text("")
    settings = _settings(home / "file" / "home", redis_url)

    async def serve(settings: Settings, stop: asyncio.Event) -> None:
        async with open_stores(settings) as (_, redis):
            await Supervisor(settings, redis, 1).run(stop)

    assert (await refused(serve, settings)).startswith("cannot use PARLEY_HOME")


async def test_up_ends_where_a_child_cannot_be_started(
    home: Path, redis_url: str, monkeypatch: pytest.MonkeyPatch
):
    """It does not wait for ever for what nobody starts again; its other children are stopped."""
    stopped = list[str]()

    class FakeChild(ChildProcess):
        async def run(self) -> None:
            if self.name == BILLER.name:
                raise StartupError("cannot start python: Permission denied")
            await asyncio.Event().wait()

        async def stop(self) -> None:
            stopped.append(self.name)

    async def prepared(self: PlatformStart) -> tuple[str, None]:
        return "model", None

    async def announced(self: PlatformStart, demo: object, stop: asyncio.Event) -> None:
        await stop.wait()

    monkeypatch.setattr("admin.up.ChildProcess", FakeChild)
    monkeypatch.setattr(PlatformStart, "_prepare", prepared)
    monkeypatch.setattr(PlatformStart, "_announce", announced)
    settings = _settings(home, redis_url)

    async def serve(settings: Settings, stop: asyncio.Event) -> None:
        await soon(PlatformStart(settings, WantedPool("model", True, 1), as_json=True).run(stop))

    assert await refused(serve, settings) == "cannot start python: Permission denied"
    assert sorted(stopped) == sorted(
        ["gateway", "console-operators", "console-tenants", "biller", "fleet"] * 2
    )


async def test_who_is_cancelled_while_it_starts_a_command_leaves_none(monkeypatch: pytest.MonkeyPatch):
    """Neither an open pipe, nor a leash that waits for its end."""
    starting = asyncio.Event()

    async def never(*arguments: object) -> None:
        starting.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(leash, "_start", never)
    files = psutil.Process().num_fds()
    task = asyncio.create_task(leash.spawn(["true"], {}))
    await starting.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert psutil.Process().num_fds() == files


async def test_a_bug_is_not_called_a_failed_start(settings: Settings):
    assert why_it_ended(ValueError(CANARY), settings) is None
    assert why_it_ended(ExceptionGroup("", [ValueError(CANARY)]), settings) is None
    group = ExceptionGroup("", [ValueError(CANARY), ExceptionGroup("", [StartupError("do this")])])
    assert why_it_ended(group, settings) == "do this"

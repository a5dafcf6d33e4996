"""A backup and its restore where Redis wants a password, speaks TLS or is a cluster, and where its user and
the database's role may do no more than those of a command, or less."""

import asyncio
import os
import socket
import subprocess
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from click.testing import CliRunner, Result
from pydantic import SecretStr
from sqlalchemy import text

from admin.backup.backup import BackupCall, backup
from admin.backup.postgres_tools import server_facts
from admin.backup.restore import restore
from admin.backup.restore_command import restore_command
from core.access.database_roles import statements
from core.access.processes import BILLER, OPERATOR, WORKER, ProcessKind
from core.access.redis_acl import rules, user_name
from core.configuration.settings import Settings
from core.errors import StartupError
from core.redis.client import RedisClient, connect
from core.redis.scripts import load_scripts
from core.runtime.embedded import valkey_binary
from tests.admin.backup.drills import Drill, DrillDatabases, databases, drill
from tests.support.cluster import running_cluster
from tests.support.home import TEST_SECRET, settings_in, short_folder
from tests.support.patience import ended, watch_until
from tests.support.ports import free_ports
from tests.support.tls import Authority, tls_before
from tests.support.users import assert_nothing_refused, make_user, url_of

__all__ = ["databases", "drill"]
PASSWORD = "p@ss/word"


async def settings_of(drill: Drill, database: str, redis: str, role: str = "") -> Settings:
    """Settings with that database, as a role (empty: its owner), and that Redis."""
    given: dict[str, Any] = {"redis_url": redis}
    if drill.postgres_folder is not None:
        _, folder = await server_facts(drill.database)  # it tells a role nothing of its folder
        given |= {"pg_tools": folder}
        given |= {"database_url": database.replace("postgres@", f"{role}@") if role else database}
    return settings_in(drill.settings.home, **given)


async def user_of(drill: Drill, process: ProcessKind) -> tuple[str, str]:
    """The Redis user of a process, and its URL."""
    name = await make_user(drill.redis, process)
    return name, url_of(drill.settings.redis_endpoint, name)


async def make_roles(drill: Drill) -> None:
    """What `parley db roles --apply` makes."""
    if drill.postgres_folder is not None:
        async with drill.database.engine.begin() as connection:
            name = (await connection.execute(text("SELECT current_database()"))).scalar_one()
            for statement in statements(name):
                await connection.exec_driver_sql(statement)


def typed(settings: Settings, command: Any, *arguments: str) -> Result:
    """A command under these settings."""
    environment = {"PARLEY_HOME": str(settings.home), "PARLEY_REDIS_URL": settings.redis_endpoint}
    environment |= {"PARLEY_SECRET": TEST_SECRET, "PARLEY_DATABASE_URL": settings.database_endpoint}
    environment |= {"PARLEY_PG_TOOLS": str(settings.pg_tools)} if settings.pg_tools else {}
    return CliRunner().invoke(command, arguments, env=environment)


def quiet(_: str) -> None:
    """Nobody listens."""


async def goes_through(drill: Drill, settings: Settings, target: Path) -> None:
    """Two requests are billed, and a third waits in Redis; the backup has all, and a restore bills it."""
    for id in ("r1", "r2"):
        await drill.ends(id)
    await drill.bill()
    await drill.ends("r3")
    report = await backup(settings, BackupCall(target), quiet)
    assert report.warnings == []
    assert [(each.redis, each.journals) for each in report.manifest.unbooked] == [(1, 0)]
    tools = {"pg_tools": settings.pg_tools} if settings.pg_tools else {}
    await drill.lose_database()
    given = {} if drill.postgres_folder is None else {"database_url": drill.target}
    more: dict[str, Any] = {"redis_ca_file": settings.redis_ca_file} if settings.redis_ca_file else {}
    owner = settings_in(settings.home, redis_url=settings.redis_endpoint, **given, **tools, **more)
    restored = await restore(target, owner, [], quiet)
    assert restored.whole, (restored.faults, restored.differences)
    assert await drill.billed() == {"r1", "r2", "r3"}


async def test_an_operators_user_and_role_are_enough(drill: Drill, tmp_path: Path) -> None:
    """For a backup; a restore has the operator's Redis user, and owns the database that it fills."""
    await make_roles(drill)
    user, url = await user_of(drill, OPERATOR)
    settings = await settings_of(drill, drill.lost, url, "parley_operator")
    await goes_through(drill, settings, tmp_path / "backup")
    await assert_nothing_refused(drill.redis, user)


@pytest.mark.parametrize("process", [BILLER, WORKER], ids=["biller", "worker"])
async def test_another_users_redis_is_left_out_with_a_warning_that_says_who_may(
    drill: Drill, tmp_path: Path, process: ProcessKind
) -> None:
    """There is a backup all the same; a restore refuses before it touches the database."""
    _, url = await user_of(drill, process)
    await drill.ends("r1")
    settings = await settings_of(drill, drill.lost, url)
    report = await backup(settings, BackupCall(tmp_path / "backup"), quiet)
    assert [each.redis for each in report.manifest.unbooked] == [None]
    assert len(report.warnings) == 1
    assert "parley-operator" in report.warnings[0]
    lacking = await settings_of(drill, drill.target, url)
    await drill.lose_database()
    said = await asyncio.to_thread(typed, lacking, restore_command, str(tmp_path / "backup"))
    assert isinstance(said.exception, StartupError), said.exception
    assert "parley-operator" in str(said.exception)
    whole = await restore(tmp_path / "backup", drill.restoring, [], quiet)
    assert whole.whole


@pytest.mark.parametrize("databases", [pytest.param("postgres", marks=pytest.mark.postgres)], indirect=True)
async def test_a_role_that_may_too_little_is_told_which_one_to_take(drill: Drill, tmp_path: Path) -> None:
    """A biller's for a backup, an operator's for a restore; neither leaves anything."""
    await make_roles(drill)
    redis = drill.settings.redis_endpoint
    biller = await settings_of(drill, drill.lost, redis, "parley_biller")
    with pytest.raises(StartupError, match=r"permission denied .* parley_operator"):
        await backup(biller, BackupCall(tmp_path / "none"), quiet)
    assert os.listdir(tmp_path) == []
    await drill.back_up(tmp_path / "backup")
    operator = await settings_of(drill, drill.target, redis, "parley_operator")
    await drill.lose_database()
    with pytest.raises(StartupError, match=r"permission denied .* the owner of the database"):
        await restore(tmp_path / "backup", operator, [], quiet)
    assert (await drill.restore(tmp_path / "backup")).whole


@asynccontextmanager
async def drill_on(databases: DrillDatabases, settings: Settings) -> AsyncGenerator[Drill]:
    """A drill on another Redis."""
    client: RedisClient = connect(settings)
    made = Drill(client, settings, databases.lost, databases.target, databases.folder)  # pyright: ignore[reportArgumentType]
    try:
        await made.begin()
        yield made
    finally:
        await made.close()
        await client.aclose()


@pytest.fixture
def folder() -> Generator[Path]:
    with short_folder("backups") as made:
        yield made


@pytest.fixture
def guarded_port(folder: Path) -> Generator[int]:
    """Of a Valkey with a password."""
    [port] = free_ports(1)
    options = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--requirepass", PASSWORD]
    process = subprocess.Popen([str(valkey_binary()), *options], stdout=subprocess.DEVNULL, cwd=folder)
    watch_until(lambda: _listens(port))
    yield port
    process.terminate()
    ended(process)


def _listens(port: int) -> bool:
    with socket.socket() as door:
        return door.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.parametrize("databases", ["sqlite"], indirect=True)
async def test_on_a_cluster_over_tls(
    databases: DrillDatabases, settings: Settings, folder: Path, tmp_path: Path
) -> None:
    """Whose nodes have half of the tenants and pools each, as the operator's user of each node."""
    authority = Authority(folder)
    with running_cluster(folder, authority.server(authority.pair("redis"))) as url:
        own = settings_in(settings.home, redis_url=url, redis_ca_file=authority.certificate)
        async with drill_on(databases, own) as drill:
            user, admin = user_name(OPERATOR, ""), cast(Any, drill.redis)
            allowed = rules(OPERATOR, own.installation, "")
            command = ("ACL SETUSER", user, "reset", "on", ">secret", *allowed)
            await admin.execute_command(*command, target_nodes="primaries")
            await load_scripts(admin)
            as_operator = own.model_copy(
                update={"redis_url": SecretStr(url.replace("//", f"//{user}:secret@"))}
            )
            await goes_through(drill, as_operator, tmp_path / "backup")


@pytest.mark.parametrize("databases", ["sqlite"], indirect=True)
async def test_with_a_password_over_tls(
    databases: DrillDatabases, settings: Settings, folder: Path, guarded_port: int, tmp_path: Path
) -> None:
    """A wrong password is told with what to do, and stands in no message."""
    authority, [port] = Authority(folder), free_ports(1)
    with tls_before([(port, guarded_port)], authority.server(authority.pair("redis"))):
        url = f"rediss://:{PASSWORD.replace('@', '%40').replace('/', '%2F')}@127.0.0.1:{port}/0"
        own = settings_in(settings.home, redis_url=url, redis_ca_file=authority.certificate)
        wrong = own.model_copy(update={"redis_url": SecretStr(url.replace("word", "wrong"))})
        async with drill_on(databases, own) as drill:
            report = await backup(wrong, BackupCall(tmp_path / "without"), quiet)
            assert "the password in PARLEY_REDIS_URL is wrong" in report.warnings[0]
            assert "p@ss" not in report.warnings[0]
            await goes_through(drill, own, tmp_path / "backup")

"""What is said of a Redis or a database that fails: what to do, and none of its own words."""

import errno
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import click
import pytest
from redis import exceptions as of_redis
from sqlalchemy import exc

from chaos.installation import postgres
from core.cli import in_one_line, parley
from core.configuration.settings import Settings
from core.errors import StartupError
from core.sql import database
from core.sql.append_only import SQLSTATE
from core.sql.database import Database, migrate, require_schema
from core.sql.store_errors import DATABASE, database_failure, redis_failure, store_failure
from tests.support.home import settings_in

CANARY = "hunter2canary"


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (of_redis.AuthenticationError(CANARY), "refuses at redis://there:1: the user or the password"),
        (of_redis.NoPermissionError(CANARY), "parley redis acl"),
        (of_redis.OutOfMemoryError(CANARY), "maxmemory"),
        (of_redis.ResponseError(f"MISCONF {CANARY}"), "its log says why (ResponseError MISCONF)"),
        (of_redis.BusyLoadingError(CANARY), "refuses at redis://there:1: it still reads its data"),
        (of_redis.ConnectionError(CANARY), "Redis does not answer at redis://there:1: is it running"),
        (TimeoutError(CANARY), "Redis does not answer"),
    ],
)
def test_redis(error: Exception, says: str, home: Path):
    elsewhere = settings_in(home, redis_url=f"redis://me:{CANARY}@there:1?password={CANARY}")
    said = str(redis_failure(error, elsewhere))
    assert says in said
    assert CANARY not in said
    assert "\n" not in said


class _DriverError(Exception):
    """What asyncpg or sqlite3 raise."""

    def __init__(self, **codes: str) -> None:
        super().__init__(f"DETAIL: Key (name)=({CANARY})\nHINT: {CANARY}")
        self.__dict__.update(codes)


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (exc.DBAPIError(CANARY, {}, _DriverError(sqlstate="28P01")), "refuses: the user or the password"),
        (exc.DBAPIError(CANARY, {}, _DriverError(sqlstate="42501")), "parley db roles"),
        (exc.DBAPIError(CANARY, {}, _DriverError(sqlstate="42P01")), "run `parley db migrate` first"),
        (
            exc.DBAPIError(CANARY, {}, _DriverError(sqlstate="23505")),
            "refuses: its log says why (DBAPIError 23505)",
        ),
        (exc.OperationalError(CANARY, {}, _DriverError(sqlite_errorname="SQLITE_FULL")), "its disk is full"),
        (
            exc.OperationalError(CANARY, {}, _DriverError(sqlite_errorname="SQLITE_CANTOPEN")),
            "its folder does not exist yet (`parley up` makes it)",
        ),
        (OSError(errno.ECONNREFUSED, CANARY), "does not answer: is it running"),
        (exc.TimeoutError(CANARY), "does not answer"),
    ],
)
def test_the_database(error: Exception, says: str):
    said = str(database_failure(error))
    assert says in said
    assert CANARY not in said
    assert "\n" not in said


@pytest.mark.parametrize("code", DATABASE)
def test_each_code_of_a_database_says_what_to_do(code: str):
    """A server's or SQLite's, and at which database: it refuses, and does not just say nothing."""
    name = "sqlite_errorname" if code.startswith("SQLITE") else "sqlstate"
    said = str(
        database_failure(exc.DBAPIError(CANARY, {}, _DriverError(**{name: code})), "postgresql://there")
    )
    assert said == f"the database refuses at postgresql://there: {DATABASE[code]} (DBAPIError {code})"


def test_no_code_is_forgotten():
    """Those that operators have met, by Postgres' and SQLite's own names."""
    of_postgres = {"28P01", "28000", "3D000", "42501", "42P01", "53100", "53300", "57P03", "40P01", "55P03"}
    kinds = ["CONSTRAINT_TRIGGER", "BUSY", "LOCKED", "CANTOPEN", "READONLY", "FULL", "NOTADB", "CORRUPT"]
    assert DATABASE.keys() == of_postgres | {SQLSTATE} | {f"SQLITE_{kind}" for kind in kinds}
    assert all(isinstance(getattr(sqlite3, f"SQLITE_{kind}"), int) for kind in kinds)


def test_a_connection_that_broke_is_no_refusal():
    """Whatever code the driver gave it."""
    broken = exc.DBAPIError(CANARY, {}, _DriverError(sqlstate="08006"), connection_invalidated=True)
    assert "does not answer: is it running" in str(database_failure(broken))


def test_each_store_is_blamed_for_its_own_errors(settings: Settings):
    for error, begin in (
        (of_redis.ResponseError(CANARY), "Redis "),
        (exc.TimeoutError(CANARY), "the database "),
    ):
        assert str(store_failure(error, settings)).startswith(begin)


def test_of_any_other_error_nothing_is_said(settings: Settings):
    assert store_failure(ValueError(CANARY), settings) is None


@pytest.mark.postgres
async def test_a_database_that_lets_nobody_in_is_not_one_without_tables(postgres_folder: Path):
    """`parley db migrate` would not help."""
    nowhere = postgres.url(postgres_folder, "nope")
    for attempt in (migrate, _required):
        with pytest.raises(StartupError, match="make the database") as raised:
            await attempt(nowhere)
        assert "no tables" not in str(raised.value)


async def _required(endpoint: str) -> None:
    db = Database(endpoint)
    try:
        await require_schema(db)
    finally:
        await db.close()


async def test_a_home_that_does_not_exist_yet_has_no_tables(home: Path):
    """As before the first start: no folder is to be looked after."""
    with pytest.raises(StartupError, match="no tables yet: start with `parley up`"):
        await _required(f"sqlite+aiosqlite:///{home / 'none' / 'parley.db'}")


async def test_a_damaged_file_is_not_one_without_tables(home: Path):
    (home / "parley.db").write_bytes(CANARY.encode() * 1000)
    with pytest.raises(StartupError, match="its file is no database"):
        await _required(f"sqlite+aiosqlite:///{home / 'parley.db'}")


def test_a_locked_file_is_one_line(
    home: Path,
    sqlite_template: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    """Somebody else writes for longer than is waited: the command says so, and nothing is changed."""
    shutil.copy(sqlite_template, home / "parley.db")
    monkeypatch.setattr(database, "SQLITE_BUSY_MS", 1)
    monkeypatch.setattr("sys.argv", ["parley", "tenants", "create", "acme"])
    monkeypatch.setenv("PARLEY_HOME", str(home))
    with closing(sqlite3.connect(home / "parley.db")) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(SystemExit) as ended:
            in_one_line(parley)
    said = capsys.readouterr().err
    assert (ended.value.code, said.count("\n")) == (1, 1)
    assert "somebody else has been writing to its file for long: try again" in said


async def test_a_secret_in_the_urls_query_is_not_shown():
    with pytest.raises(StartupError, match="cannot migrate") as raised:
        await migrate(f"postgresql+asyncpg://me@127.0.0.1:1/parley?password={CANARY}&ssl=disable")
    assert CANARY not in str(raised.value)


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (of_redis.ConnectionError(CANARY), "parley: Redis does not answer at unix://"),
        (exc.DBAPIError(CANARY, {}, _DriverError(sqlstate="53300")), "parley: the database refuses"),
    ],
)
def test_a_command_whose_store_fails_ends_with_one_line(
    error: Exception, says: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    """Whichever command: Python's own traceback would quote the error's words."""

    @click.command()
    def command() -> None:
        raise error

    monkeypatch.setattr("sys.argv", ["parley"])
    with pytest.raises(SystemExit) as ended:
        in_one_line(command)
    assert ended.value.code == 1
    said = capsys.readouterr().err
    assert says in said
    assert said.count("\n") == 1
    assert CANARY not in said

"""Of some tables the tenants' console may write tenants' own rows alone: the database says so."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from pydantic import SecretStr
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from admin.api.callers import TENANTS_SIDE
from admin.console import serve
from core.access.database_roles import triggers_of
from core.access.processes import CONSOLE, PORTAL, ProcessKind
from core.access.row_rules import FUNCTION
from core.access.tables import TABLES
from core.configuration.settings import Settings
from core.errors import StartupError
from core.sql.append_only import APPEND_ONLY
from core.sql.database import Database
from core.sql.written_rows import require_rows
from tests.security.database_roles import as_role, make_roles
from tests.security.database_roles import roles as roles  # the fixture

pytestmark = pytest.mark.postgres
# Columns of a row of each table, and their values; the tenant and whether its admins made it come first.
ROWS = {
    "quota_policy": (
        "tenant_id, by_tenant, id, plan_id, scope, scope_id, model_glob, dimension, limit_units, mode, "
        "author, created_ms",
        "'i', '', 'tenant', '', '*', 'concurrency', 1, 'enforce', '', 1",
    ),
    "budget": (
        "tenant_id, by_tenant, id, scope, scope_id, period, limit_nano, hard, mode, thresholds, author, "
        "created_ms",
        "'i', 'tenant', '', 'month', 1, true, 'enforce', '[]', '', 1",
    ),
    "safety_policy": (
        "tenant_id, project_id, version, document, sha256, author, reason, created_ms",
        "'', 1, '{}', 'x', '', '', 1",
    ),
    "alert_target": (
        "tenant_id, id, kind, address, secret, author, created_ms",
        "'i', 'email', 'a@b.example', '', '', 1",
    ),
    "membership": ("tenant_id, person_id, role, created_ms", "'p', 'admin', 1"),
    "invitation": (
        "tenant_id, id, code_sha256, email, role, by, created_ms, expires_ms",
        "'i', 'x', 'a@b.example', 'admin', '', 1, 2",
    ),
    "service_token": (
        "tenant_id, id, name, role, prefix, token_sha256, by, created_ms, expires_ms",
        "'i', '', 'admin', 'p', 'x', '', 1, 2",
    ),
    "kept_reply": (
        "tenant_id, caller, key, digest, state, proposal, reply, made_ms",
        "'c', 'k', 'd', 'done', '', 'null', 1",
    ),
    "operation_run": (
        "tenant_id, id, caller, author, operation, state, events, answer, problem, begun_ms, beat_ms",
        "'i', 'c', '', 'workers.drain', 'running', '[]', 'null', 'null', 1, 1",
    ),
    "outbox": (
        "tenant_id, id, topic, target_id, idempotency_key, payload, state, attempts, next_attempt_ms, "
        "claimed_by, claimed_until_ms, last_error, created_ms",
        "'i', '', '', 'k', '{}', 'waiting', 0, 1, '', 0, '', 1",
    ),
}
TIMES = {"kept_reply": "made_ms", "operation_run": "begun_ms"}  # of the others, `created_ms`
BOOKS_END = "INSERT INTO ledger_head (tenant_id, txn_seq, line_seq, rolled_seq, sha256, closed_ms) VALUES "
LOG_END = "INSERT INTO audit_head (tenant_id, seq, sha256) VALUES "
OF_T = "WHERE tenant_id = 't'"
LOG_ROW = (
    "INSERT INTO audit_log (tenant_id, seq, at_ms, author, source, action, target, before, after, "
    "previous_sha256, states_sha256, sha256) "
    "VALUES ('{}', 999, 1, 'boss', 'api', '{}', '', 'null', 'null', '', '', 'x')"
)
SESSION = (
    "INSERT INTO person_session (tenant_id, id, token_sha256, person_id, address, agent, made_ms, seen_ms, "
    "ends_ms) VALUES ('{}', 'i', 'x', 'p', '', '', 1, 1, 2)"
)
# What that console does to the ends of books and of the audit log, and to sessions: a statement, and what
# there was before.
ALLOWED = (
    (f"{BOOKS_END}('t', 0, 0, 0, '', 0)", "SELECT 1"),
    (f"{LOG_END}('t', 0, '')", "SELECT 1"),
    (f"UPDATE audit_head SET seq = 8, sha256 = 'y' {OF_T}", f"{LOG_END}('t', 7, 'x')"),
    (LOG_ROW.format("t", "limit.set"), "SELECT 1"),
    (LOG_ROW.format("", "person.edit"), "SELECT 1"),
    (SESSION.format("t"), "SELECT 1"),
    ("UPDATE person_session SET seen_ms = 5, ends_ms = 6, second_factor_ms = 5", SESSION.format("t")),
    ("UPDATE person_session SET ended_ms = 5", SESSION.format("")),
)
REFUSED = (
    (f"{BOOKS_END}('', 0, 0, 0, '', 0)", "SELECT 1"),
    (f"{BOOKS_END}('t', 9, 9, 0, '', 0)", "SELECT 1"),
    ("UPDATE ledger_head SET tenant_id = 'u'", f"{BOOKS_END}('t', 9, 9, 9, 'x', 0)"),
    (f"{LOG_END}('t', 7, 'x')", "SELECT 1"),
    (f"UPDATE audit_head SET seq = 0, sha256 = '' {OF_T}", f"{LOG_END}('t', 7, 'x')"),
    (f"UPDATE audit_head SET seq = 9, sha256 = 'y' {OF_T}", f"{LOG_END}('t', 7, 'x')"),
    (f"UPDATE audit_head SET tenant_id = 'u', seq = 8, sha256 = 'y' {OF_T}", f"{LOG_END}('t', 7, 'x')"),
    (LOG_ROW.format("", "plan.create"), "SELECT 1"),
    (SESSION.format(""), "SELECT 1"),
    ("UPDATE person_session SET ends_ms = 6", SESSION.format("")),
    ("UPDATE person_session SET token_sha256 = 'y', ended_ms = 5", SESSION.format("")),
    ("UPDATE person_session SET second_factor_ms = 5, ended_ms = 5", SESSION.format("")),
    ("UPDATE person_session SET tenant_id = ''", SESSION.format("t")),
)
THEIRS, OPERATORS, PLATFORMS = ("t", True), ("t", False), ("", True)


def added(table: str, whose: tuple[str, bool]) -> str:
    """SQL that adds a row of these."""
    columns, values = ROWS[table]
    tenant, by_tenant = whose
    made = f", {str(by_tenant).lower()}" if "by_tenant" in columns else ""
    return f"INSERT INTO {table} ({columns}) VALUES ('{tenant}'{made}, {values})"


def not_theirs(table: str) -> list[tuple[str, bool]]:
    return [PLATFORMS, OPERATORS] if "by_tenant" in ROWS[table][0] else [PLATFORMS]


def time_of(table: str) -> str:
    """A column that decides nothing."""
    return TIMES.get(table, "created_ms")


@asynccontextmanager
async def with_row(
    url: str, process: ProcessKind, before: str = "SELECT 1"
) -> AsyncGenerator[AsyncConnection]:
    """A connection that acts as a process' role, after its owner ran `before`; nothing stays of it."""
    owner = Database(url)
    try:
        async with owner.engine.connect() as connection:
            await connection.exec_driver_sql("ALTER TABLE membership DROP CONSTRAINT fk_membership_person")
            await connection.exec_driver_sql(before)
            role = as_role(url, process).partition("//")[2].partition("@")[0]
            await connection.exec_driver_sql(f"SET LOCAL ROLE {role}")
            yield connection
            await connection.rollback()
    finally:
        await owner.close()


async def is_refused(url: str, process: ProcessKind, statement: str, before: str = "SELECT 1") -> bool:
    """Whether the database refuses a statement for its row; an error of another kind is raised."""
    try:
        async with with_row(url, process, before) as connection:
            done = await connection.execute(text(statement))
            assert done.rowcount == 1
    except DBAPIError as error:
        if "permission denied for this row" not in str(error):
            raise
        return True
    return False


def test_each_table_with_such_rows_is_tried() -> None:
    """None is forgotten here."""
    assert {*ROWS, "ledger_head", "audit_head", "audit_log", "person_session"} == TABLES[PORTAL].rows.keys()
    assert [process for process in TABLES if TABLES[process].rows] == [PORTAL]


@pytest.mark.parametrize("table", ROWS)
async def test_what_is_no_tenants_own_is_written_by_staff_alone(roles: str, table: str) -> None:
    """Added, changed or deleted: rows of the platform, and of a tenant those that operators made."""
    for whose in not_theirs(table):
        assert await is_refused(roles, PORTAL, added(table, whose)), whose
        assert not await is_refused(roles, CONSOLE, added(table, whose)), whose
        for statement in (f"UPDATE {table} SET {time_of(table)} = 0", f"DELETE FROM {table}"):
            if table in APPEND_ONLY:
                continue  # for everybody
            assert await is_refused(roles, PORTAL, statement, added(table, whose)), (whose, statement)
            assert not await is_refused(roles, CONSOLE, statement, added(table, whose)), (whose, statement)


@pytest.mark.parametrize("table", ROWS)
async def test_what_is_a_tenants_own_its_console_writes(roles: str, table: str) -> None:
    """And gives to nobody else, nor takes it from them."""
    assert not await is_refused(roles, PORTAL, added(table, THEIRS))
    if table in APPEND_ONLY:
        return
    there = added(table, THEIRS)
    assert not await is_refused(roles, PORTAL, f"UPDATE {table} SET {time_of(table)} = 0", there)
    assert not await is_refused(roles, PORTAL, f"DELETE FROM {table}", there)
    for moved in ("tenant_id = ''", "tenant_id = 'u'"):
        assert await is_refused(roles, PORTAL, f"UPDATE {table} SET {moved}", there), moved
    if "by_tenant" in ROWS[table][0]:
        taken = f"UPDATE {table} SET by_tenant = true"
        assert await is_refused(roles, PORTAL, taken, added(table, OPERATORS))


@pytest.mark.parametrize(("statement", "before"), ALLOWED)
async def test_ends_of_books_and_audit_log_are_made_and_go_on(
    roles: str, statement: str, before: str
) -> None:
    """Those of books as empty ones, those of the audit log by one row at a time."""
    assert not await is_refused(roles, PORTAL, statement, before)


@pytest.mark.parametrize(("statement", "before"), REFUSED)
async def test_ends_of_books_and_audit_log_are_not_set_back(roles: str, statement: str, before: str) -> None:
    """Nor ahead: the next row would find its number taken, and nothing could be written any more. Of the
    platform's audit log that console writes what people do to their accounts."""
    assert await is_refused(roles, PORTAL, statement, before)


async def test_ends_of_books_are_locked(roles: str) -> None:
    """A budget that is spent already alerts once, beside the biller."""
    there = f"{BOOKS_END}('t', 9, 9, 9, 'x', 0)"
    async with with_row(roles, PORTAL, there) as connection:
        locked = await connection.execute(text("SELECT line_seq FROM ledger_head FOR UPDATE"))
        assert locked.scalars().all() == [9]


async def test_rows_that_are_only_read_may_be_locked(roles: str) -> None:
    """As those of staff are, on whom a token's end hangs."""
    locked = "SELECT role FROM membership FOR SHARE"
    async with with_row(roles, PORTAL, added("membership", PLATFORMS)) as connection:
        assert (await connection.execute(text(locked))).scalars().all() == ["admin"]


LOST = (
    f"DROP FUNCTION {FUNCTION} CASCADE",
    "ALTER TABLE budget DISABLE TRIGGER USER",
    f"CREATE OR REPLACE FUNCTION {FUNCTION}() RETURNS trigger LANGUAGE plpgsql "
    "AS $$ BEGIN RETURN coalesce(NEW, OLD); END $$",
)


@pytest.mark.parametrize("lost", LOST)
async def test_a_tenants_console_does_not_start_without(
    roles: str, postgres_folder: Path, home: Path, settings: Settings, lost: str
) -> None:
    """It names the command that brings them; that one makes what an older release lacked or had otherwise."""
    owner = Database(roles)
    async with owner.engine.begin() as connection:
        await connection.exec_driver_sql(lost)
    await owner.close()
    of = settings.model_copy(update={"database_url": SecretStr(as_role(roles, PORTAL))})
    with pytest.raises(StartupError, match=r"budget.*run `parley db roles --apply`"):
        await serve(of, asyncio.Event(), TENANTS_SIDE)
    await asyncio.to_thread(make_roles, roles, postgres_folder, home)
    database = Database(as_role(roles, PORTAL))
    await require_rows(database, PORTAL)
    assert await is_refused(roles, PORTAL, added("budget", PLATFORMS))
    await database.close()


async def test_who_comes_in_as_somebody_else_is_not_asked(database: Database) -> None:
    """On SQLite, or as the tables' owner, nothing is held and nothing checked."""
    await require_rows(database, PORTAL)


def test_a_triggers_name_says_what_it_does() -> None:
    """By a hash of its rule; none is cut by Postgres."""
    made = triggers_of(PORTAL)
    assert len({each.name for each in made}) == 3 * len(TABLES[PORTAL].rows)
    assert all(len(each.name) < 63 and each.name.startswith(each.table) for each in made)

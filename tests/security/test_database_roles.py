"""Each process' own Postgres role: an answer is admitted and billed under them, and nobody reads more."""

import asyncio
import importlib
import pkgutil
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner
from pydantic import SecretStr
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from sqlmodel import SQLModel, select
from sqlmodel.ext.asyncio.session import AsyncSession

from admin.console import Console
from billing.api import create_key, create_project, create_tenant, rotate_key
from billing.audit.log import list_rows
from billing.main import db_command
from billing.operations import people
from billing.operations.people_facts import NameSession
from billing.people.actors import actor_of_cookie
from billing.people.links import make_person_code
from billing.people.persons import create_member
from billing.people.sign_in import SignIns
from billing.posting.biller import main as biller_main
from billing.posting.biller import post
from billing.posting.month_ends import close_due_months
from billing.tables.limits import Budget
from billing.tables.prices import PeriodClose
from billing.tables.tenants import UsageRow
from billing.tables.wallets import BudgetAlert
from billing.tenants.users import list_users
from billing.unit_of_work.perform import answer_of
from billing.unit_of_work.units import Stores, Terms
from billing.usage import UsageOwner, encode
from chaos.installation import postgres
from core.access.database_roles import role_names, statements, url_for
from core.access.processes import BILLER, CONSOLE, GATEWAY, OPERATOR, PORTAL, SUPERVISOR, ProcessKind
from core.access.tables import EVERYTHING, TABLES
from core.clock import now_ms
from core.configuration.settings import Settings
from core.ids import uuid7
from core.sql.database import Database, migrate
from engine.models.known import KnownModel
from server.conversations.tables import Message
from tests.billing.events import an_event
from tests.billing.tenants.a_key import a_key
from tests.security.database_roles import as_role
from tests.security.database_roles import roles as roles  # the fixture
from tests.security.redis_users import billed, limited
from tests.server.site import running_site
from tests.support.patience import wait_until
from tests.support.redis import Redis

FORBIDDEN = (
    (SUPERVISOR, "SELECT 1 FROM tenant"),
    (SUPERVISOR, "UPDATE model_version SET enabled = false"),
    (BILLER, "SELECT 1 FROM message"),
    (BILLER, "SELECT 1 FROM browser_session"),
    (BILLER, "SELECT secret_sha256 FROM api_key"),
    (BILLER, "SELECT prefix FROM api_key"),
    (BILLER, "UPDATE api_key SET owner_key = id"),
    (CONSOLE, "SELECT content FROM message"),
    (CONSOLE, "SELECT title FROM conversation"),
    (CONSOLE, "UPDATE usage_event SET cost_nano = 0"),
    (CONSOLE, "UPDATE price SET input_nano = 0"),
    (PORTAL, "SELECT content FROM message"),
    (PORTAL, "UPDATE tenant SET plan_id = ''"),
    (PORTAL, "INSERT INTO tenant DEFAULT VALUES"),
    (PORTAL, "UPDATE wallet_grant SET left_nano = 1"),
    (PORTAL, "INSERT INTO ledger_entry DEFAULT VALUES"),
    (PORTAL, "UPDATE price SET input_nano = 0"),
    (PORTAL, "UPDATE ledger_head SET txn_seq = 0"),
    (PORTAL, "DELETE FROM ledger_head"),
    (PORTAL, "DELETE FROM audit_head"),
    (PORTAL, "SELECT 1 FROM proposal"),
    (PORTAL, "SELECT 1 FROM gpu_cost"),
    (GATEWAY, "UPDATE usage_event SET cost_nano = 0"),
    (GATEWAY, "DELETE FROM ledger_entry"),
    (GATEWAY, "INSERT INTO api_key DEFAULT VALUES"),
    (GATEWAY, "SELECT 1 FROM alert_target"),
    (GATEWAY, "UPDATE safety_policy SET reason = ''"),
    (BILLER, "SELECT 1 FROM safety_policy"),
    (GATEWAY, "CREATE TABLE mine (x int)"),
    (GATEWAY, "DROP TABLE message"),
    (BILLER, "ALTER TABLE usage_line DISABLE TRIGGER USER"),
    (OPERATOR, "SET session_replication_role = replica"),
)


@pytest.mark.postgres
async def test_an_answer_is_admitted_and_billed(roles: str, redis: Redis, settings: Settings):
    """Gateway, biller and supervisor, each under its role; a browser signs in and out."""
    owner = Database(roles)
    stop = asyncio.Event()

    def of(process: ProcessKind) -> Settings:
        return settings.model_copy(update={"database_url": SecretStr(as_role(roles, process))})

    async with running_site(of(GATEWAY), owner, redis) as site:
        billing = asyncio.create_task(biller_main(of(BILLER), stop))
        known = KnownModel(of(SUPERVISOR).model_copy(update={"model": "tiny"}))
        assert (await known.read()).name == "tiny"
        async with site.answering("Good day."), site.welcomed() as peer:
            await limited(owner, redis, site.tenant)
            await site.crew_ended(await peer.send("Hello?", conversation=uuid7(now_ms())))
            await wait_until(lambda: billed(owner))
            async with owner.session() as session:
                await wait_until(lambda: _stored(session))
        async with httpx.AsyncClient(base_url=site.url, headers={"origin": site.url}) as browser:
            assert (await browser.post("/v1/login", json={"key": site.key})).status_code == 200
            assert (await browser.post("/v1/logout")).status_code == 200
            assert await list_users(owner, site.tenant) == []  # whom the sign-in made is gone
        stop.set()
        await billing
    await owner.close()


async def _stored(session: AsyncSession) -> bool:
    return "Good day." in (await session.exec(select(Message.content))).all()


@pytest.mark.postgres
async def test_a_biller_books_labels(roles: str):
    """Whether who they are of was erased it looks up in tables that it may not write."""
    owner = Database(roles)
    tenant = (await create_tenant(owner, "acme")).tenant_id
    biller = Database(as_role(roles, BILLER))
    await post(biller, "default", [encode(an_event("r1", tenant))])
    async with owner.session() as session:
        (row,) = (await session.exec(select(UsageRow))).all()
    assert row.request_metadata == {"label": "x"}
    await biller.close()
    await owner.close()


@pytest.mark.postgres
async def test_a_biller_closes_months(roles: str, redis: Redis, settings: Settings):
    """It writes what they book, and that they are closed."""
    owner = Database(roles)
    tenant = (await create_tenant(owner, "acme")).tenant_id
    last_year = now_ms() - 366 * 86_400_000
    biller = Database(as_role(roles, BILLER))
    await post(biller, "default", [encode(an_event("r1", tenant, accepted_ms=last_year, ended_ms=last_year))])
    assert await close_due_months(biller, redis, settings) == []
    async with owner.session() as session:
        assert len((await session.exec(select(PeriodClose))).all()) > 10
    await biller.close()
    await owner.close()


@pytest.mark.postgres
async def test_a_biller_counts_what_rotated_keys_spend(roles: str):
    """It reads which chain a key is in."""
    owner = Database(roles)
    first, _ = await a_key(owner)
    second, _ = await rotate_key(owner, first.tenant_id, first.id, 3_600)
    of: dict[str, Any] = {"scope": "key", "period": "lifetime", "limit_nano": 1, "thresholds": [100]}
    async with owner.transaction() as session:
        session.add(Budget(tenant_id=first.tenant_id, id="b", created_ms=0, **of))
    biller = Database(as_role(roles, BILLER))
    used = UsageOwner(first.project_id, second.id)
    await post(biller, "default", [encode(an_event("r1", first.tenant_id, owner=used))])
    async with owner.session() as session:
        (alert,) = (await session.exec(select(BudgetAlert))).all()
    assert alert.scope_id == first.id
    await biller.close()
    await owner.close()


@pytest.mark.postgres
@pytest.mark.parametrize("process", [CONSOLE, PORTAL], ids=lambda process: process.name)
async def test_a_console_answers_the_usage_api(
    roles: str, redis: Redis, settings: Settings, process: ProcessKind
):
    """It reads keys and books, and records that it did."""
    owner = Database(roles)
    tenant = (await create_tenant(owner, "acme")).tenant_id
    project = await create_project(owner, tenant, "web")
    _, key = await create_key(owner, tenant, project.id, scopes=["usage:read"])
    await post(owner, "default", [encode(an_event("r1", tenant, owner=UsageOwner(project.id, "k", "u")))])
    database = Database(as_role(roles, process))
    transport = httpx.ASGITransport(app=Console(settings, redis, database).app())
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        asked = {"month": "1970-01", "by": "user,key"}
        headers = {"authorization": f"Bearer {key}"}
        reply = await client.get("/v1/usage", params=asked, headers=headers)
        costs = await client.get("/v1/costs", params={**asked, "by": "meter,kind"}, headers=headers)
    assert [row["requests"] for row in reply.json()["data"]] == [1]
    assert costs.status_code == 200, costs.text
    assert "usage.read" in [row.action for row in await list_rows(owner, tenant)]
    await database.close()
    await owner.close()


@pytest.mark.postgres
async def test_an_operator_registers_a_model(roles: str):
    """`parley models add` looks whether the schema is up to date, which whoever does not own it may."""
    await migrate(as_role(roles, OPERATOR))


@pytest.mark.postgres
@pytest.mark.parametrize("process", [CONSOLE, PORTAL], ids=lambda process: process.name)
async def test_people_sign_in_at_a_console(
    roles: str, redis: Redis, settings: Settings, process: ProcessKind
):
    """By a link, once; and end another session of theirs in it, for which their own is looked at again."""
    owner, database = Database(roles), Database(as_role(roles, process))
    try:
        tenant = (await create_tenant(owner, "acme")).tenant_id
        ada = (await create_member(owner, tenant, "Ada", "admin", "ada@example.com")).person.id
        sign_ins = SignIns(settings, database, redis)
        codes = [make_person_code(settings.keyring, ada, tenant, now_ms()) for _ in range(2)]
        one, other = [await sign_ins.by_link(code, "192.0.2.1", "Browser") for code in codes]
        who = await actor_of_cookie(database, one.token, loopback=False)
        assert who is not None
        stores = Stores(settings, database, lambda: redis)
        ask = NameSession(person="me", session=other.signed_in.session.id)
        await answer_of(people.end_session_of, stores, who, ask, Terms(reason="ticket 7"))
        assert await actor_of_cookie(database, other.token, loopback=False) is None
    finally:
        await database.close()
        await owner.close()


@pytest.mark.postgres
@pytest.mark.parametrize(("process", "statement"), FORBIDDEN)
async def test_nobody_reaches_more(roles: str, process: ProcessKind, statement: str):
    """Texts, keys, books, the schema, and what keeps the books as they are."""
    database = Database(as_role(roles, process))
    try:
        with pytest.raises(DBAPIError, match=r"permission denied|must be owner"):
            async with database.engine.begin() as connection:
                await connection.execute(text(statement))
    finally:
        await database.close()


def test_every_table_is_declared():
    """A new one has to be given to somebody."""
    for package in ("billing", "engine", "server", "admin"):
        path = importlib.import_module(package).__path__
        for module in pkgutil.walk_packages(path, f"{package}."):
            if module.name.endswith("tables"):
                importlib.import_module(module.name)
    assert set(EVERYTHING.split()) == set(SQLModel.metadata.tables)
    named = {name for tables in TABLES.values() for name in f"{tables.reads} {tables.writes}".split()}
    assert named == set(EVERYTHING.split())


def test_roles_that_are_made_again_keep_nothing_of_before():
    """What an older release was given is taken away, before what this one declares is given."""
    sql = statements('a"b')
    assert sql[0] == "REVOKE CREATE ON SCHEMA public FROM PUBLIC"
    for role in role_names():
        of = [each.partition(" ON ")[0] for each in sql if each.endswith((f" TO {role}", f" FROM {role}"))]
        assert of[0] == "REVOKE ALL", role
        assert set(of[1:]) <= {
            "GRANT CONNECT",
            "GRANT USAGE",
            "GRANT SELECT",
            "GRANT SELECT (pool)",
            "GRANT SELECT (id, email, closed_ms)",
            "GRANT SELECT (tenant_id, person_id, role, ended_ms)",
            "GRANT SELECT (tenant_id, id, owner_key)",
            "GRANT SELECT (tenant_id, id, project_id)",
            "GRANT SELECT (tenant_id, conversation_id, request_id, owner_key, user_id, status, created_ms)",
            "GRANT UPDATE (created_ms)",
            "GRANT SELECT, INSERT, UPDATE, DELETE",
            "GRANT SELECT, INSERT, UPDATE",
            "GRANT SELECT, INSERT, UPDATE (tenant_id)",
        }
    assert all('DATABASE "a""b" TO' in each for each in sql if "CONNECT" in each)


def test_a_url_for_a_role_has_nobody_elses_password():
    """Whoever the URL that was given names."""
    given = "postgresql://owner:owners-secret@db.example:5432/books?sslmode=require"
    expected = "postgresql://parley_biller:p%40@db.example:5432/books?sslmode=require"
    assert url_for(given, "parley_biller", "p@") == expected


def test_the_command_prints_no_password(home: Path):
    """Nor is there one in what is run by hand."""
    environment = {"PARLEY_HOME": str(home), "PARLEY_DATABASE_URL": "postgresql://owner@db/books"}
    arguments = ["roles", "--url", "postgresql://db:5432/books?sslmode=require"]
    done = CliRunner().invoke(db_command, arguments, env=environment)
    assert done.exit_code == 0, (done.output, done.exception)
    password = (home / "access" / "parley_biller.password").read_text()
    assert password not in done.output
    expected = f"postgresql://parley_biller:{password}@db:5432/books?sslmode=require"
    assert (home / "access" / "parley_biller.url").read_text() == expected


def test_printed_sql_is_for_a_postgres_that_was_named(home: Path):
    """By --url where the settings name SQLite; without either there is nothing to print."""
    environment = {"PARLEY_HOME": str(home)}
    arguments = ["roles", "--url", "postgresql://db:5432/books"]
    printed = CliRunner().invoke(db_command, arguments, env=environment)
    assert 'GRANT CONNECT ON DATABASE "books"' in printed.output
    assert str(home) not in printed.stdout
    refused = CliRunner().invoke(db_command, ["roles"], env=environment)
    assert "SQLite knows no roles" in str(refused.exception)
    assert "ALTER ROLE … PASSWORD" in printed.stderr
    assert f"PARLEY_DATABASE_URL_FILE={home}/access/parley_gateway.url" in printed.stderr


@pytest.mark.parametrize("url", ["postgres.example:5432/parley", "redis://db:5432/parley", "postgresql:///p"])
def test_a_url_that_is_none_is_named(home: Path, url: str):
    """With its option; nothing is written, and nobody is told to start a server."""
    done = CliRunner().invoke(db_command, ["roles", "--url", url], env={"PARLEY_HOME": str(home)})
    assert done.exit_code == 2
    assert "'--url'" in done.output
    assert "postgresql://host:5432/parley" in done.output
    assert not (home / "access").exists()


@pytest.mark.postgres
def test_roles_before_tables(postgres_folder: Path, home: Path):
    """What is missing is named by the command that brings it."""
    environment = {"PARLEY_HOME": str(home), "PARLEY_DATABASE_URL": postgres.url(postgres_folder, "postgres")}
    done = CliRunner().invoke(db_command, ["roles", "--apply"], env=environment)
    assert "run `parley db migrate` first" in str(done.exception)

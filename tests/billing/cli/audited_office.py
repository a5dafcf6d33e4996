"""Commands that leave rows in the audit log."""

import asyncio
import importlib
import shutil
import sqlite3
import tomllib
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click
import msgspec
import pytest
from click.testing import CliRunner, Result

from billing.people.person_sessions import open_person_session
from billing.people.persons import create_member
from billing.posting.biller import post
from billing.tables.noisy import NoisyFinding
from billing.tables.sessions import BrowserSession
from billing.tables.tenants import PLATFORM
from billing.tenants.tenancy import find_tenant
from billing.tenants.users import add_user
from billing.usage import encode
from core.actor import Author, acting_as
from core.sql.database import Database
from tests.billing.events import an_event

ROOT = Path(__file__).parents[3]

READS = {
    "chargeback idle",
    "chargeback months",
    "chargeback report",
    "chargeback schedule list",
    "chargeback tags list",
    "alerts list",
    "alerts targets list",
    "approvals list",
    "audit list",
    "audit verify",
    "budgets list",
    "budgets show",
    "charges day",
    "charges explain",
    "charges requests",
    "connections list",
    "cost-centers list",
    "keys list",
    "keys show",
    "limits list",
    "limits show",
    "models list",
    "models show",
    "models verify",
    "noisy list",
    "noisy show",
    "operations",
    "overview",
    "people admins",
    "people invitations",
    "people list",
    "people sessions",
    "people show",
    "plans list",
    "plans show",
    "pools commitments",
    "pools export",
    "pools list",
    "pools owners",
    "pools show",
    "pools usage",
    "prices commitments",
    "prices periods",
    "prices show",
    "prices what-if",
    "projects list",
    "quarantine list",
    "queue top",
    "requests find",
    "requests list",
    "requests show",
    "runs list",
    "runs show",
    "safety history",
    "safety show",
    "safety stats",
    "safety try",
    "search",
    "spend bridge",
    "spend cache",
    "spend errors",
    "spend pools",
    "spend refusals",
    "spend series",
    "spend summary",
    "sessions list",
    "tenants list",
    "tenants show",
    "tokens list",
    "usage compare",
    "usage show",
    "usage unbilled",
    "users list",
    "wallets list",
    "wallets show",
    "workers list",
}

# What shows or hands out what people said: its row is written before the first word.
READS_TEXT = {"users export"}


def leaves(name: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    """The commands below this one that do something themselves, by what is typed."""
    if isinstance(command, click.Group):
        for sub, each in sorted(command.commands.items()):
            yield from leaves(f"{name} {sub}", each)
    else:
        yield name, command


def all_commands() -> dict[str, click.Command]:
    """All that can be typed."""
    points = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"][
        "parley.commands"
    ]
    found: dict[str, click.Command] = {}
    for name, place in points.items():
        module, _, attribute = place.partition(":")
        found |= dict(leaves(name, getattr(importlib.import_module(module), attribute)))
    return found


COMMANDS = all_commands()


def named(line: str) -> str:
    """The command of a line that is typed."""
    return max((name for name in COMMANDS if f"{line} ".startswith(f"{name} ")), key=len, default=line)


class CommandsOffice:
    """An installation with the tenant acme, and what the steps need."""

    def __init__(self, home: Path, redis_url: str) -> None:
        self.home = home
        self._environment = {"PARLEY_HOME": str(home), "PARLEY_REDIS_URL": redis_url}
        self.facts: dict[str, str] = {}

    def run(self, line: str) -> Result:
        """Type a line, as Ann."""
        name = named(line)
        arguments = line.removeprefix(name).split()
        with acting_as(Author("Ann, ticket 7", "command")):
            return CliRunner().invoke(COMMANDS[name], arguments, env=self._environment)

    def rows(self) -> list[tuple[Any, ...]]:
        """All rows of the audit log as (action, author, source), oldest first."""
        with closing(sqlite3.connect(self.home / "parley.db")) as connection:
            return connection.execute(
                "SELECT action, author, source FROM audit_log ORDER BY rowid"
            ).fetchall()

    def on_database(self, action: Callable[[Database], Awaitable[object]]) -> None:
        """Run something on the database."""

        async def run() -> None:
            database = Database(f"sqlite+aiosqlite:///{self.home / 'parley.db'}")
            try:
                await action(database)
            finally:
                await database.close()

        asyncio.run(run())


async def prepare(database: Database, facts: dict[str, str]) -> None:
    """A billed request, two events that are held back, and a finding."""
    tenant = await find_tenant(database, "acme")
    assert tenant is not None
    await post(database, "default", [encode(an_event("billed", tenant.tenant_id))])
    for name in ("accepted", "dismissed"):
        wrong = msgspec.structs.replace(an_event(name, tenant.tenant_id), cost_nano=1)
        batch, _ = await post(database, "default", [encode(wrong)])
        facts[name] = batch.held[0].event_sha256
    finding = NoisyFinding(
        tenant_id=tenant.tenant_id,
        id="f1",
        pool="default",
        opened_ms=1,
        updated_ms=1,
        share_permille=900,
        fair_permille=500,
        used_tokens=1,
        others_wait_ms=2,
        baseline_wait_ms=1,
        slots_max=4,
        proposal={"slots": 1, "kv_tokens": 1, "workers": 1},
    )
    async with database.transaction() as session:
        user = await add_user(session, tenant.tenant_id, "tom", 1, 10)
    facts["session"] = "s1"
    browser = BrowserSession(
        tenant_id=tenant.tenant_id,
        id="s1",
        token_sha256="",
        key_id="",
        user_id=user.id,
        address="",
        agent="",
        made_ms=1,
        seen_ms=1,
        ends_ms=1 << 50,
    )
    async with database.transaction() as session:
        session.add_all((finding, browser))
    facts["finding"] = "f1"
    olga = await create_member(database, PLATFORM, "Olga", "owner")
    await create_member(database, PLATFORM, "Otto", "operator")
    async with database.transaction() as session:
        new = await open_person_session(session, olga.person, olga.membership, "", "")
    facts["person_session"] = new.signed_in.session.id


@pytest.fixture
def office(home: Path, redis_url: str, sqlite_template: Path) -> CommandsOffice:
    """Ready for the steps."""
    shutil.copy(sqlite_template, home / "parley.db")
    made = CommandsOffice(home, redis_url)
    assert made.run("tenants create acme").exit_code == 0
    next_year = datetime.now(UTC) + timedelta(days=365)
    for name, begin in (("prices", ""), ("planned", f"valid_from = {next_year.isoformat()}\n")):
        made.facts[name] = str(home / f"{name}.toml")
        Path(made.facts[name]).write_text(
            f'book = "silver"\n{begin}[models."*"]\ninput = "0.20"\ncached_input = "0.05"\noutput = "0.80"\n'
        )
    made.facts["report"] = str(home / "report.csv")
    made.facts["policy"] = str(home / "policy.json")
    Path(made.facts["policy"]).write_text('{"detectors": [{"name": "card", "action": "block"}]}')
    made.on_database(lambda database: prepare(database, made.facts))
    return made

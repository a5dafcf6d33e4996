"""`parley` with a database of its own."""

import asyncio
import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result

from billing.cli.audit import audit_command
from billing.cli.charges import charges_command
from billing.cli.prices import prices_command
from billing.cli.projects import cost_centers_command, projects_command
from billing.cli.spend import spend_command
from billing.cli.tenants import tenants_command
from billing.cli.usage import usage_command
from billing.cli.users import users_command
from billing.posting.biller import post
from billing.tenants.tenancy import find_tenant
from billing.usage import UsageEvent, encode
from core.sql.database import Database

Command = Callable[..., Result]

COMMANDS = {
    "audit": audit_command,
    "charges": charges_command,
    "cost-centers": cost_centers_command,
    "prices": prices_command,
    "projects": projects_command,
    "spend": spend_command,
    "tenants": tenants_command,
    "usage": usage_command,
    "users": users_command,
}

OCTOBER_MS = 1_790_812_800_000  # 2026-10-01T00:00Z

DAY_MS = 86_400_000


@pytest.fixture
def parley(home: Path, redis_url: str, sqlite_template: Path) -> Command:
    """Runs `parley …` on a migrated SQLite of its own with the tenant acme."""

    def run(name: str, *arguments: str) -> Result:
        environment = {"PARLEY_HOME": str(home), "PARLEY_REDIS_URL": redis_url}
        return CliRunner().invoke(COMMANDS[name], arguments, env=environment)

    shutil.copy(sqlite_template, home / "parley.db")
    assert run("tenants", "create", "acme").exit_code == 0
    return run


def rows(result: Result) -> list[dict[str, Any]]:
    """The JSON lines that a command printed."""
    assert result.exit_code == 0, (result.output, result.exception)
    # In this process a log line goes where the test before had it go; a command's own log is stderr.
    return [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]


def on_database(home: Path, action: Callable[[Database], Any]) -> Any:
    """Run something on the home's database."""

    async def run() -> Any:
        database = Database(f"sqlite+aiosqlite:///{home / 'parley.db'}")
        try:
            return await action(database)
        finally:
            await database.close()

    return asyncio.run(run())


def used(home: Path, events: Sequence[UsageEvent]) -> None:
    """Post usage of acme."""

    async def post_all(database: Database) -> None:
        tenant = await find_tenant(database, "acme")
        assert tenant is not None
        own = [msgspec.structs.replace(event, tenant=tenant.tenant_id) for event in events]
        await post(database, "default", [encode(event) for event in own])

    on_database(home, post_all)

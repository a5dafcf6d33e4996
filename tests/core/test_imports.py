"""What a command imports before it can say anything: people wait for it."""

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from billing.api import create_tenant
from core.sql.database import Database
from tests.support.patience import finished

LOADED = """
import sys
import core.cli, core.observability.telemetry, server.chat_cli
slow = ("alembic", "opentelemetry.exporter", "opentelemetry.sdk", "redis", "requests", "sqlalchemy", "stripe")
print(*(name for name in slow if name in sys.modules))
"""
# Commands that read the database alone, the more they do the later; what is loaded is counted after each.
READERS = (
    "keys list --tenant acme",
    "sessions list --tenant acme",
    "projects list --tenant acme",
    "cost-centers list --tenant acme",
    "alerts list --platform",
    "noisy list",
    "plans list",
    "tenants list",
    "users list --tenant acme",
    "approvals list",
    "audit list",
    "wallets list",
    "usage show --tenant acme",
)
LOADED_BY_READERS = """
import sys
from core.cli import parley
slow = ("alembic", "asyncpg", "httpx", "redis", "requests", "stripe")
for line in %r:
    parley.main(line.split(), standalone_mode=False)
    tables = sum(each.startswith("billing.tables.") for each in sys.modules)
    found = [each for each in slow if each in sys.modules]
    print("LOADED", line.split()[0], len(sys.modules), tables, *found)
"""
MODULES_MAX = 675  # of which SQLModel takes 390, the Postgres dialect 19 for what an index there includes
TABLES_MAX = 4  # modules of them, one to say when keys were used


@dataclass(frozen=True)
class Loaded:
    """Once a command was through: how many modules, and of tables; which are slow ones."""

    modules: int
    tables: int
    slow: list[str]


async def loaded_by(database: Database, home: Path, *lines: str) -> dict[str, Loaded]:
    """Commands one after the other in a process of their own, by their first word."""
    await create_tenant(database, "acme")
    environment = {**os.environ, "PARLEY_HOME": str(home)}
    done = finished([sys.executable, "-c", LOADED_BY_READERS % (lines,)], env=environment)
    assert done.returncode == 0, done.stderr
    told = [line.split()[1:] for line in done.stdout.splitlines() if line.startswith("LOADED")]
    return {name: Loaded(int(modules), int(tables), slow) for name, modules, tables, *slow in told}


def test_a_chat_loads_neither_stores_nor_exporters() -> None:
    """`parley chat` and `--help` need no SQL, no Redis; nobody but a serving process exports anything."""
    done = finished([sys.executable, "-c", LOADED])
    assert (done.returncode, done.stdout) == (0, "\n"), done.stdout + done.stderr


async def test_commands_that_read_the_database_load_no_client_of_anything_else(
    sqlite: Database, home: Path
) -> None:
    """Neither redis-py nor an HTTP client, no migrations, no driver of Postgres."""
    loaded = await loaded_by(sqlite, home, *READERS)
    assert {name: found.slow for name, found in loaded.items()} == {line.split()[0]: [] for line in READERS}


async def test_a_list_of_keys_loads_few_modules_and_few_tables(sqlite: Database, home: Path) -> None:
    """Each table is milliseconds: those that a command does not read are not made."""
    found = (await loaded_by(sqlite, home, READERS[0]))["keys"]
    assert found.modules <= MODULES_MAX
    assert found.tables <= TABLES_MAX


def test_all_commands_are_found_by_one_look() -> None:
    """Each look reads a file of every package that is installed."""
    from core.cli import registered

    assert registered() is registered()
    assert {"chat", "gateway", "up"} <= {entry.name for entry in registered()}

"""What a command imports before it can say anything: people wait for it."""

import sys

from tests.support.patience import finished

LOADED = """
import sys
import core.cli, core.telemetry, server.chat_cli
slow = ("alembic", "opentelemetry.exporter", "opentelemetry.sdk", "redis", "requests", "sqlalchemy", "stripe")
print(*(name for name in slow if name in sys.modules))
"""
# Commands that read the database alone, the more they do the later; what is loaded is counted after each.
READERS = (
    "keys",
    "sessions",
    "projects",
    "cost-centers",
    "alerts",
    "noisy",
    "plans",
    "tenants",
    "users",
    "pools",
)
MORE_READERS = ("approvals", "audit", "wallets", "usage", "quarantine")
LOADED_BY_READERS = """
import sys
import click
from core.cli import parley
slow = ("alembic", "asyncpg", "httpx", "redis", "requests", "stripe")
for name in %r:
    assert parley.get_command(click.Context(parley), name)
    tables = sum(each.startswith("billing.tables.") for each in sys.modules)
    print(name, len(sys.modules), tables, *(each for each in slow if each in sys.modules))
"""
MODULES_MAX = 600  # of which SQLModel takes 390
TABLES_MAX = 3  # modules of them


def test_a_chat_loads_neither_stores_nor_exporters() -> None:
    """`parley chat` and `--help` need no SQL, no Redis; nobody but a serving process exports anything."""
    done = finished([sys.executable, "-c", LOADED])
    assert (done.returncode, done.stdout) == (0, "\n"), done.stdout + done.stderr


def test_commands_that_read_the_database_load_no_client_of_anything_else() -> None:
    """Neither redis-py nor an HTTP client, no migrations, no driver of Postgres."""
    done = finished([sys.executable, "-c", LOADED_BY_READERS % (READERS,)])
    assert done.returncode == 0, done.stderr
    loaded = {name: slow for name, _, _, *slow in map(str.split, done.stdout.splitlines())}
    assert loaded == {name: [] for name in READERS}


def test_a_list_of_keys_loads_few_modules_and_few_tables() -> None:
    """Each table is milliseconds: those that a command does not read are not made."""
    done = finished([sys.executable, "-c", LOADED_BY_READERS % (("keys",),)])
    (line,) = done.stdout.splitlines()
    _, modules, tables = line.split()
    assert int(modules) <= MODULES_MAX
    assert int(tables) <= TABLES_MAX


def test_all_commands_are_found_by_one_look() -> None:
    """Each look reads a file of every package that is installed."""
    from core.cli import registered

    assert registered() is registered()
    assert {"chat", "gateway", "up"} <= {entry.name for entry in registered()}

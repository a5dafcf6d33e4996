"""A command about one tenant does nothing to another one, whosever ids are typed."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from redis.asyncio import Redis

from engine.commands import requests
from tests.billing.test_audited_commands import COMMANDS, Office, office
from tests.security.test_hostile_names import FILLING, STAY, Typist

__all__ = ["office"]

# They end the tenant that they are about, so they come last.
LAST = ("tenants erase", "tenants close", "users erase")
ALL_TENANTS = {"audit list"}  # the typist names none there
NEVER_SHOWN = ("ops@example.com", "research")


def rows_of(file: Path, tenant: str) -> dict[str, list[tuple[object, ...]]]:
    """All that a tenant has, by table."""
    with closing(sqlite3.connect(file)) as connection:
        tables = [
            name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        ]
        theirs = [
            name
            for name in tables
            if "tenant_id" in {each[1] for each in connection.execute(f"PRAGMA table_info({name})")}
        ]
        return {
            name: connection.execute(
                f"SELECT * FROM {name} WHERE tenant_id = ? ORDER BY rowid", [tenant]
            ).fetchall()
            for name in theirs
        }


async def test_no_command_reaches_into_another_tenant(
    office: Office,
    home: Path,
    redis: Redis,
    redis_url: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
):
    """All that take a tenant, with ids of keys, projects, users, limits, budgets, targets of another one."""
    for line in (*FILLING, "tenants create other"):
        result = await asyncio.to_thread(office.run, line.format(**office.facts))
        assert result.exit_code == 0, (line, result.output, result.exception)
    monkeypatch.setenv("PARLEY_HOME", str(home))
    monkeypatch.setenv("PARLEY_REDIS_URL", redis_url)
    monkeypatch.setattr(requests, "CANCEL_SECONDS_MAX", 0.0)
    file = home / "parley.db"
    typist = Typist(file, capsys, monkeypatch)
    acme = typist.values["tenant"]
    with closing(sqlite3.connect(file)) as connection:
        [(other,)] = connection.execute("SELECT tenant_id FROM tenant WHERE tenant_id != ?", [acme])
    typist.values["tenant"] = other
    before = rows_of(file, acme)
    assert sum(map(len, before.values())) > 20
    about = {
        name for name, command in COMMANDS.items() if any(each.name == "tenant" for each in command.params)
    }
    for name in sorted(about - STAY - ALL_TENANTS, key=lambda name: (name in LAST, name)):
        await asyncio.to_thread(typist.type, name, known=True)
        after = rows_of(file, acme)
        assert {table for table in before if before[table] != after[table]} == set(), name
        assert not [shown for shown in NEVER_SHOWN if shown in typist.said], (name, typist.said[-500:])
    assert len(about) > 20

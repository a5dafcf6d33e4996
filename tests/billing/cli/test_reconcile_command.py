"""`parley reconcile`, as an operator types it and a script reads it."""

import asyncio
import json
import os
import shutil
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner, Result

from billing.cli.reconcile import reconcile_command
from billing.posting.biller import post
from billing.quota.redis_keys import posted_key
from billing.tenants.tenancy import create_tenant
from billing.usage import encode
from core.sql.database import Database
from core.web.metrics import BILLER_PLACE
from tests.billing.events import an_event
from tests.support.patience import wait_until
from tests.support.ports import free_ports
from tests.support.processes import begun, parley
from tests.support.redis import Redis


@pytest.fixture
def tenant(home: Path, redis_url: str, sqlite_template: Path) -> str:
    """A tenant's id, with one request billed and settled."""
    shutil.copy(sqlite_template, home / "parley.db")

    async def prepare() -> str:
        database, redis = Database(f"sqlite+aiosqlite:///{home / 'parley.db'}"), Redis.from_url(redis_url)
        await redis.flushall()
        made = await create_tenant(database, "acme")
        event = an_event(tenant=made.tenant_id)
        await post(database, "default", [encode(event)])
        sums: dict[Any, Any] = {"cost_nano": event.cost_nano, "input": 12, "output": 7, "requests": 1}
        await redis.hset(posted_key(made.tenant_id), mapping=sums)
        await redis.aclose()
        await database.close()
        return made.tenant_id

    return asyncio.run(prepare())


def reconcile(home: Path, redis_url: str, *arguments: str) -> Result:
    """Runs the command."""
    environment = {"PARLEY_HOME": str(home), "PARLEY_REDIS_URL": redis_url}
    return CliRunner().invoke(reconcile_command, arguments, env=environment)


def test_books_that_agree_end_well(tenant: str, home: Path, redis_url: str) -> None:
    """Exit code 0, one line a check; --json has every comparison."""
    shown = reconcile(home, redis_url)
    assert shown.exit_code == 0, shown.output
    assert "usage lines = ledger revenue" in shown.output
    found = [json.loads(line) for line in reconcile(home, redis_url, "--json").stdout.splitlines()]
    assert {each["state"] for each in found} == {"equal"}
    assert {each["check"] for each in found} >= {"R1", "R2", "R4", "R7", "R8"}


def test_books_that_differ_end_with_1(tenant: str, home: Path, redis_url: str) -> None:
    """Says which, by how much; only what was asked for is compared."""

    async def spoil() -> None:
        redis = Redis.from_url(redis_url)
        await redis.hincrby(posted_key(tenant), "cost_nano", 1_000_000_000)
        await redis.aclose()

    asyncio.run(spoil())
    shown = reconcile(home, redis_url)
    assert shown.exit_code == 1
    assert "differs" in shown.output
    assert "1.00" in shown.output
    only = reconcile(home, redis_url, "--check", "R4", "--tenant", "acme", "--json")
    found = [json.loads(line) for line in only.stdout.splitlines()]
    assert only.exit_code == 1
    assert {each["check"] for each in found} == {"R4"}
    assert [each["difference"] for each in found if each["state"] == "differs"] == [1_000_000_000]
    assert reconcile(home, redis_url, "--check", "R1", "--tenant", "acme").exit_code == 0


def test_a_tenant_that_does_not_exist_is_named(tenant: str, home: Path, redis_url: str) -> None:
    """With what to do."""
    result = reconcile(home, redis_url, "--tenant", "nobody")
    assert result.exit_code == 1
    assert "parley tenants list" in str(result.exception)


async def test_the_biller_compares_and_shows_what_differs(tenant: str, home: Path, redis_url: str) -> None:
    """At its start and once a minute: as metrics, 100 ports above PARLEY_METRICS_PORT, and in its log."""
    redis = Redis.from_url(redis_url)
    await redis.hincrby(posted_key(tenant), "cost_nano", 5)
    await redis.aclose()
    (port,) = free_ports(1)
    environment = {**os.environ, "PARLEY_HOME": str(home), "PARLEY_REDIS_URL": redis_url}
    environment["PARLEY_METRICS_PORT"] = str(port - BILLER_PLACE)
    log = home / "biller.log"
    process = await begun(parley("biller"), environment, log)
    try:
        async with httpx.AsyncClient() as client:

            async def shown() -> bool:
                try:
                    page = (await client.get(f"http://127.0.0.1:{port}/metrics")).text
                except httpx.TransportError:
                    return False
                return (
                    'parley_reconciliation_differences{check="R4"' in page
                    and "reconciliation.difference_detected" in log.read_text()
                )

            await wait_until(shown)
            page = (await client.get(f"http://127.0.0.1:{port}/metrics")).text
    finally:
        process.terminate()
        await process.wait()
    (line,) = [
        each
        for each in page.splitlines()
        if each.startswith('parley_reconciliation_difference_amount{check="R4"')
    ]
    assert float(line.rpartition(" ")[2]) == 5.0


def test_what_was_found_last_is_printed_and_nothing_compared(tenant: str, home: Path, redis_url: str) -> None:
    """A light a check, grey until there was a comparison; alone, as it answers nothing else."""
    never = reconcile(home, redis_url, "--last")
    assert (never.exit_code, "never compared" in never.output) == (0, True)
    assert reconcile(home, redis_url).exit_code == 0
    (one, *others) = [
        json.loads(line) for line in reconcile(home, redis_url, "--last", "--json").stdout.splitlines()
    ]
    assert (one["check"], one["state"], one["unequal"]) == ("R1", "equal", [])
    assert {each["state"] for each in others if each["compared"]} == {"equal"}
    for more in (("--check", "R1"), ("--tenant", tenant), ("--watch",)):
        assert reconcile(home, redis_url, "--last", *more).exit_code == 2

"""What runs beside billing: its failures are its own, and it holds up no stop."""

import asyncio
from collections.abc import Sequence

import pytest

from billing.posting import background_work, usage_stream
from billing.posting.background_work import run_beside
from billing.posting.biller import Biller
from billing.posting.usage_stream import EndedStream
from billing.quota.client import Quota
from billing.reconciliation import ledger
from billing.reconciliation import run as reconciliation
from billing.reconciliation.comparison import ComparisonState
from billing.reconciliation.run import EVERYTHING, Reconciliation
from billing.tenants.tenancy import create_tenant
from billing.usage import UsageEvent
from core.configuration.settings import Settings
from core.sql.database import Database
from tests.billing.events import an_event
from tests.billing.posting.billers import end, rows
from tests.billing.reconciliation.billed import billed
from tests.support.patience import forever
from tests.support.redis import Redis


async def test_a_task_that_fails_is_begun_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """It says so, and neither ends the biller nor stays away."""
    monkeypatch.setattr(background_work, "RETRY_SECONDS", 0.0)
    stop = asyncio.Event()
    runs: list[int] = []

    async def run() -> None:
        runs.append(1)
        if len(runs) < 3:
            raise ValueError("a bug")

    await run_beside("work", run, stop)
    assert len(runs) == 3


async def test_a_comparison_of_large_books_holds_up_no_stop(
    database: Database, redis: Redis, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is left in the middle of the books, and the next one finds all of them as they are."""
    tenant = (await create_tenant(database, "acme")).tenant_id
    await billed(database, redis, settings, an_event("r1", tenant), an_event("r2", tenant))
    monkeypatch.setattr(background_work, "STOP_SECONDS_MAX", 0.0)
    stop = asyncio.Event()

    async def read_for_minutes(*_: object) -> None:
        stop.set()
        await forever()

    with monkeypatch.context() as large:
        large.setattr(ledger, "follow_chain", read_for_minutes)
        await run_beside(
            "reconciliation", lambda: reconciliation.watch(database, redis, settings, stop), stop
        )
    found = await Reconciliation(database, redis, settings).run(EVERYTHING, whole=True)
    assert {each.state for each in found} == {ComparisonState.EQUAL}
    assert any(each.subject == "requests" and each.expected == 2 for each in found)


async def test_what_ends_in_time_is_not_cut_off() -> None:
    """A round that is under way at the stop is finished."""
    stop, done = asyncio.Event(), list[int]()

    async def run() -> None:
        stop.set()
        await asyncio.sleep(0)
        done.append(1)

    await run_beside("work", run, stop)
    assert done == [1]


async def test_what_dead_billers_left_holds_up_no_stop(
    sqlite: Database, redis: Redis, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batch under way is finished; the others stay where they are, for the next biller."""
    events = [an_event(f"r{number}") for number in range(40)]
    await end(redis, events, settings)
    dead = EndedStream(redis, "default", "dead")
    await dead.ensure_groups()
    await dead.read()
    monkeypatch.setattr(usage_stream, "EVENTS_MAX", 10)
    stop, settle = asyncio.Event(), Quota.settle_all

    async def settle_and_stop(quota: Quota, ended: Sequence[tuple[UsageEvent, int | None]]) -> object:
        stop.set()
        return await settle(quota, ended)

    monkeypatch.setattr(Quota, "settle_all", settle_and_stop)
    await Biller(sqlite, redis, settings, ["default"], claim_idle_ms=0).run(stop)
    assert len(await rows(sqlite)) == 10
    assert (await Biller(sqlite, redis, settings, ["default"]).drain()).posted.total() == 30

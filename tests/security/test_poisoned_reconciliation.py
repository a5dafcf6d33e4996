"""What a worker writes where reconciliation reads stops it for nobody, and hides nothing."""

import pytest
from redis.asyncio import Redis
from sqlmodel import col, select

from billing.quotas.quota_keys import open_key, posted_key
from billing.reconciliation import board
from billing.reconciliation.board import Reconciliation
from billing.reconciliation.compared import Check, Compared, State
from billing.reconciliation.healing import heal
from billing.reconciliation.tables import ReconItem
from billing.tenants.tenancy import create_tenant
from core.clock import now_ms
from core.database import Database
from core.settings import Settings
from tests.billing.events import an_event
from tests.billing.test_reconciliation import billed

CHECKS = {Check.R4, Check.R8}


async def look(database: Database, redis: Redis, settings: Settings) -> list[Compared]:
    """As a biller does once a minute; what it found."""
    looking = Reconciliation(database, redis, settings)
    compared = await looking.run(CHECKS)
    await heal(database, redis, looking, compared)
    return compared


def differing(compared: list[Compared], tenant: str) -> set[tuple[str, str]]:
    """A tenant's checks and subjects that differ."""
    found = [each for each in compared if each.tenant_id == tenant and each.state is State.DIFFERS]
    return {(each.check, each.subject) for each in found}


@pytest.mark.parametrize("poison", ["kind", "number", "digits", "name", "since", "began", "sum", "member"])
async def test_what_a_worker_writes_of_one_tenant_hides_no_others_fault(
    poison: str, database: Database, redis: Redis, settings: Settings
) -> None:
    """The other's difference is found, and kept in sight, in each look."""
    poisoned = (await create_tenant(database, "a-poisoned")).tenant_id
    other = (await create_tenant(database, "other")).tenant_id
    for tenant in (poisoned, other):
        await billed(database, redis, settings, an_event("r1", tenant=tenant))
    await look(database, redis, settings)
    await redis.hincrby(posted_key(other), "cost_nano", 7)
    key = posted_key(poisoned)
    match poison:
        case "kind":
            await redis.set(key, "x")
        case "number":
            await redis.hset(key, "cost_nano", "x")
        case "digits":
            await redis.hset(key, "cost_nano", "9" * 4_000)
        case "name":
            await redis.hset(key, b"\xff", "1")
        case "since":
            await redis.hset(key, "since", b"\xff\0")
        case "began":
            await redis.hset(key, mapping={"began": "x", "cost_nano": "1"})
        case "sum":
            await redis.hset(key, "cost_nano", str((1 << 63) - 1))
        case _:
            await redis.zadd(open_key(poisoned), {b"\0\xff": 1, b"a\0": 1})
    compared: list[Compared] = []
    for _ in range(2):
        compared = await look(database, redis, settings)
        assert (Check.R4, "cost") in differing(compared, other)
    assert bool(differing(compared, poisoned)) is (poison not in ("name", "since"))
    async with database.session() as session:
        open_now = select(ReconItem.tenant_id).where(col(ReconItem.resolved_ms).is_(None))
        assert other in (await session.exec(open_now)).all()


async def test_what_cannot_be_compared_resolves_nothing(database: Database) -> None:
    """What differed before stays in sight, from when it did."""
    wrong = Compared(Check.R4, "t1", "cost", "nano", 5, 3)
    await board.remember(database, [wrong], CHECKS, None, now_ms() - 9)
    none = Compared(Check.R4, "t1", board.UNCOMPARED, "faults", 0, 1)
    await board.remember(database, [none], CHECKS, None, now_ms())
    async with database.session() as session:
        rows = (await session.exec(select(ReconItem))).all()
    assert {(row.subject, row.resolved_ms) for row in rows} == {("cost", None), (board.UNCOMPARED, None)}

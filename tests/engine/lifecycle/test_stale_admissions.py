"""The sweep: what was admitted and never came to its pool is given back, once, and nothing else."""

import asyncio
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from billing.api import UNLIMITED, Admission, Admitted, Dimension, Quota, RequestLimits, Scope
from billing.limits import UnitLimit
from core.clock import now_ms
from core.configuration.settings import Settings
from core.errors import Refusal
from core.redis.pools import announce_pool
from engine.api import Enqueue, Enqueued, MigratedTo, Migrator, RequestStatus
from engine.lifecycle.reaper import Reaper
from engine.lifecycle.stale_admissions import IDS_MAX, release_stale_admissions
from tests.engine.builders import PRICES, TENANT
from tests.engine.workers import PoolWorkers
from tests.support.redis import Redis

ONE_AT_ONCE = RequestLimits((UnitLimit(Scope.TENANT, "", "*", Dimension.CONCURRENCY, 1, 1),))
MINUTE_MS = 60_000


@dataclass
class Town:
    """Two pools and the tenant's slot, on the real clock."""

    redis: Redis
    settings: Settings

    def __post_init__(self) -> None:
        self.crew = PoolWorkers(self.redis, self.settings)
        self.other = PoolWorkers(self.redis, self.settings, "other")
        self.quota = Quota(self.redis, self.settings)

    async def admit(self, age_ms: int, limits: RequestLimits = UNLIMITED, **changes: Any) -> Enqueue:
        """An admission of so long ago, and what its gateway would have enqueued."""
        asked = msgspec.structs.replace(self.crew.request_of(), accepted_ms=now_ms() - age_ms, **changes)
        admission = Admission(
            tenant=asked.tenant,
            id=asked.id,
            body_hash=asked.body_hash,
            owner_key="k1",
            project="p1",
            user="",
            model=asked.model,
            pool="default",
            fingerprint=asked.fingerprint,
            input_tokens=asked.prompt_tokens,
            chunk_tokens=256,
            deadline_ms=asked.deadline_ms,
            prices=PRICES,
            now_ms=asked.accepted_ms,
            limits=limits,
        )
        assert isinstance(await self.quota.admit(admission), Admitted)
        return asked

    async def open(self) -> int:
        """Admissions that count."""
        return await self.quota.open_requests(TENANT)


@pytest.fixture
def town(redis: Redis, settings: Settings) -> Town:
    """Nothing waits, nothing is admitted."""
    return Town(redis, settings)


async def test_what_a_dead_gateway_admitted_is_given_back(town: Town):
    """Its place and its holds are free again after a minute, not at its deadline."""
    await town.admit(MINUTE_MS + 1_000, ONE_AT_ONCE)
    assert await release_stale_admissions(town.other.queue, town.quota) == 0  # another pool's
    assert await town.open() == 1
    assert await release_stale_admissions(town.crew.queue, town.quota) == 1
    assert await town.open() == 0
    assert await release_stale_admissions(town.crew.queue, town.quota) == 0
    await town.admit(0, ONE_AT_ONCE)  # the place is free


async def test_a_late_enqueue_is_refused_and_a_new_sending_is_not(town: Town):
    """INV-31: A gateway that was only slow must not run what holds nothing; its client may send the same
    again."""
    late = await town.admit(MINUTE_MS + 1_000)
    assert await release_stale_admissions(town.crew.queue, town.quota) == 1
    refused = await town.crew.queue.enqueue(late)
    assert isinstance(refused, Refusal)
    assert (refused.code, refused.retry, refused.after_ms) == ("overloaded", True, 1000)
    again = await town.admit(-1_000, id=late.id)
    placed = await town.crew.queue.enqueue(again)
    assert isinstance(placed, Enqueued)
    assert placed.created
    found = await town.crew.queue.enqueue(late)  # and now it is known
    assert isinstance(found, Enqueued)
    assert not found.created


async def test_what_is_young_or_in_its_pool_is_left_alone(town: Town):
    """Waiting for hours in line is no reason."""
    await town.admit(MINUTE_MS - 10_000)
    waiting = await town.admit(50 * MINUTE_MS)
    await town.crew.queue.enqueue(waiting)
    assert await release_stale_admissions(town.crew.queue, town.quota) == 0
    assert await town.open() == 2


async def test_a_moved_request_is_not_swept(town: Town, settings: Settings):
    """Wherever its move stands, one of the pools knows it; both are asked."""
    asked = await town.admit(5 * MINUTE_MS)
    await town.crew.queue.enqueue(asked)
    await announce_pool(town.redis, settings, "other")
    await town.other.queue.register("w", asked.fingerprint, {"kv_tokens": 100_000})
    moved = await Migrator(town.redis, settings, settings.keyring).migrate(
        "default", TENANT, asked.id, "other"
    )
    assert moved == MigratedTo("other")
    for crew in (town.crew, town.other):
        assert await release_stale_admissions(crew.queue, town.quota) == 0
    view = await town.other.queue.view(TENANT, asked.id)
    assert view is not None
    assert view.status is RequestStatus.QUEUED
    assert await town.open() == 1


async def test_many_are_swept_at_once(town: Town):
    """More than one call takes."""
    for _ in range(IDS_MAX + 3):
        await town.admit(2 * MINUTE_MS)
    assert await release_stale_admissions(town.crew.queue, town.quota) == IDS_MAX + 3


async def test_broken_keys_of_one_tenant_do_not_keep_the_others(town: Town):
    """The sweep goes on."""
    redis: Any = town.redis
    await town.admit(2 * MINUTE_MS, tenant="broken")
    for name in ("conc", "live"):
        await redis.set(f"{{t:broken}}{name}", "no set")
    await town.admit(2 * MINUTE_MS)
    assert await release_stale_admissions(town.crew.queue, town.quota) == 1


async def test_of_many_reapers_one_sweeps(town: Town):
    """A gateway has one for each pool, and so has every supervisor: the tenants are asked once."""
    reapers = [Reaper(town.crew.queue, town.quota, 10) for _ in range(3)]
    await town.admit(2 * MINUTE_MS)
    await asyncio.gather(*(reaper.sweep() for reaper in reapers))
    assert await town.open() == 0
    await town.admit(2 * MINUTE_MS)
    await asyncio.gather(*(reaper.sweep() for reaper in reapers))
    assert await town.open() == 1  # not again within ten seconds


async def test_the_sweep_tells_what_scripts_dropped(town: Town):
    """Of its pool and of tenants with open requests: a key of another type goes, and operators hear of it."""
    waiting = await town.admit(0)
    await town.crew.queue.enqueue(waiting)
    for key in (f"{{p:default}}req:{TENANT}:{waiting.id}", f"{{t:{TENANT}}}rq:{waiting.id}"):
        await town.redis.set(key, "x")
    await town.crew.queue.view(TENANT, waiting.id)
    await town.quota.release(TENANT, waiting.id)
    with capture_logs() as lines:
        await Reaper(town.crew.queue, town.quota, 1_000).sweep()
    told = {
        (line["slot"], line["kind"]): line["count"] for line in lines if line["event"] == "redis.key_dropped"
    }
    assert told == {("{p:default}", "req"): 1, (f"{{t:{TENANT}}}", "rq"): 1}

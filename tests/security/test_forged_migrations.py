"""Moves that a worker made up, under its own Redis user: nobody finishes one that nobody ordered."""

from collections.abc import AsyncGenerator
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from billing.api import Admitted, Quota
from core.access.processes import WORKER
from core.clock import now_ms
from core.signing.signed_text import Keyring
from engine.api import Claim, MigratedTo, Migrator, Reaper
from engine.lifecycle.finish import OVERDUE_MS
from engine.operations.inspection import Inspection
from engine.queue.migration_orders import GOOD_MS, MigrationOrder, MigrationOrders
from tests.billing.quota.admissions import an_admission
from tests.engine.builders import TENANT, Pool
from tests.support.redis import Redis
from tests.support.users import client_of

KEYRING = Keyring(b"a secret of thirty-two bytes or more")
ORDERS = MigrationOrders(KEYRING, "parley")
GIVEN = ORDERS.give(TENANT, "r1", "a", "b", 1, 1_000)


class ForgedMovesSite:
    """Pool `a`, whose worker was taken over, pool `b`, which works, and a reaper of `a` in a gateway."""

    def __init__(self, redis: Redis, worker: Any) -> None:
        self.a, self.b = Pool(redis, name="a"), Pool(redis, name="b")
        self.worker = worker
        settings = self.a.settings
        self.orders = MigrationOrders(settings.keyring, settings.installation)
        self.quota = Quota(redis, settings)
        self.mover = Migrator(redis, settings, settings.keyring)
        self.reaper = Reaper(self.a.queue, self.quota, 10, settings.keyring)

    async def forge(self, claim: Claim, **fields: Any) -> None:
        """Write down, as the worker, that its request is on its way to `b`."""
        record: dict[str, Any] = {
            "status": "moving",
            "dest": "b",
            "hop": 1,
            "place": "queued",
            "due": 1 << 53,
        }
        await self.worker.hset(self.a.key(f"req:{TENANT}:{claim.id}"), mapping={**record, **fields})
        await self.worker.zrem(self.a.key("deadlines"), f"{TENANT}:{claim.id}")
        await self.due(claim.id)

    async def due(self, id: str) -> None:
        """A reaper comes to it now."""
        await self.worker.zadd(self.a.key("moving"), {f"{TENANT}:{id}": 1})

    async def arrived(self, id: str) -> bool:
        """Whether pool `b` has anything of it."""
        return await self.b.queue.view(TENANT, id) is not None


@pytest.fixture
async def site(redis: Redis, redis_url: str) -> AsyncGenerator[ForgedMovesSite]:
    """Both pools have workers of one model."""
    async with client_of(redis, redis_url, WORKER, "a") as worker:
        site = ForgedMovesSite(redis, worker)
        await site.b.worker("wb")
        yield site


async def test_a_move_that_a_worker_made_up_is_not_finished(site: ForgedMovesSite):
    """It is said once, stays in sight, and an operator's own order brings it there."""
    claim = await site.a.running(granted=10)
    await site.forge(claim)
    with capture_logs() as logs:
        for _ in range(3):
            await site.reaper.once()
            await site.due(claim.id)
    assert not await site.arrived(claim.id)
    said = [line for line in logs if line.get("id") == claim.id]
    assert [line["log_level"] for line in said] == ["error"]
    (listed,) = await Inspection(site.a.queue).requests(TENANT, None, 10)
    assert (listed.id, listed.status) == (claim.id, "moving")
    assert await site.mover.migrate("a", TENANT, claim.id, "b") == MigratedTo("b")
    assert await site.arrived(claim.id)


async def test_a_move_that_a_worker_made_up_ends_with_its_deadline(site: ForgedMovesSite):
    """Whatever deadline the worker wrote: its reader is told, and what was held is given back."""
    claim = await site.a.running()
    deadline_ms = site.a.clock.ms + 5_000
    admission = an_admission(id=claim.id, tenant=TENANT, pool="a", deadline_ms=deadline_ms)
    assert isinstance(await site.quota.admit(admission), Admitted)
    await site.worker.srem(site.a.key("claims:w1"), f"{TENANT}:{claim.id}")
    await site.forge(claim, deadline=1 << 53, worker="")
    for after_ms, status in ((5_000 + OVERDUE_MS, "moving"), (1, "ended")):
        site.a.clock.advance(after_ms)
        await site.due(claim.id)
        await site.reaper.once()
        view = await site.a.queue.view(TENANT, claim.id)
        assert view is not None
        assert view.status == status
    assert (await site.a.kinds(TENANT, claim.id))[-1] == "end"
    assert await site.quota.open_requests(TENANT) == 0
    assert not await site.a.client.zcard(site.a.key("moving"))
    assert not await site.arrived(claim.id)


async def test_a_seal_is_for_one_move_of_one_request(site: ForgedMovesSite):
    """What was given for another request is no order for this one."""
    claims = [await site.a.running(worker) for worker in ("w1", "w2")]
    order = site.orders.give(TENANT, claims[0].id, "a", "b", 1, now_ms())
    for claim in claims:
        await site.forge(claim, ordered=order.at_ms, seal=order.seal)
    await site.reaper.once()
    assert [await site.arrived(claim.id) for claim in claims] == [True, False]


@pytest.mark.parametrize("dest", ["nowhere", "a}b", "x" * 300])
async def test_nothing_is_moved_to_where_no_pool_is(site: ForgedMovesSite, dest: str):
    """Not by a good seal either."""
    claim = await site.a.running()
    order = site.orders.give(TENANT, claim.id, "a", dest, 1, now_ms())
    await site.forge(claim, dest=dest, ordered=order.at_ms, seal=order.seal)
    await site.reaper.once()
    assert not await site.a.client.exists(f"{{p:{dest}}}req:{TENANT}:{claim.id}")


async def test_who_has_no_secret_takes_no_turn_from_who_has(site: ForgedMovesSite):
    """A supervisor's reaper leaves moves alone, so that the gateways' finds them due."""
    claim = await site.a.running()
    await site.forge(claim)
    await Reaper(site.a.queue, site.quota, 10).once()
    assert await site.a.client.zscore(site.a.key("moving"), f"{TENANT}:{claim.id}") == 1
    assert (await site.a.queue.reap()).moves == [(TENANT, claim.id)]


async def test_a_flood_of_made_up_moves_is_no_flood_of_lines(
    site: ForgedMovesSite, monkeypatch: pytest.MonkeyPatch
):
    """Each is named once, and beyond some none is."""
    monkeypatch.setattr("engine.lifecycle.reaper.UNORDERED_MAX", 3)
    for _ in range(9):
        await site.forge(await site.a.running())
    with capture_logs() as logs:
        await site.reaper.once()
    assert len([line for line in logs if line["log_level"] == "error"]) == 3


@pytest.mark.parametrize(
    "fields", [{"hop": "x"}, {"ordered": "9" * 30}, {"dest": b"\xff"}, {"hop": -1}, {"seal": b"\0" * 99}]
)
async def test_an_order_that_is_none_holds_up_no_other(site: ForgedMovesSite, fields: dict[str, Any]):
    """The reaper lives, and the request stays."""
    claim = await site.a.running()
    await site.forge(claim, **fields)
    await site.reaper.once()
    assert not await site.arrived(claim.id)


@pytest.mark.parametrize(
    "changed",
    [{"dest": "c"}, {"hop": 2}, {"at_ms": 1_001}, {"seal": b""}, {"seal": GIVEN.seal[:15]}, {"hop": 1 << 70}],
    ids=str,
)
def test_whatever_is_changed_is_no_order(changed: dict[str, Any]):
    """Nor is it one of another request, pool or installation."""
    assert ORDERS.good(TENANT, "r1", "a", GIVEN, 1_000)
    assert not ORDERS.good(TENANT, "r1", "a", msgspec.structs.replace(GIVEN, **changed), 1_000)
    for tenant, id, source in (("t2", "r1", "a"), (TENANT, "r2", "a"), (TENANT, "r1", "b")):
        assert not ORDERS.good(tenant, id, source, GIVEN, 1_000)
    assert not MigrationOrders(KEYRING, "other").good(TENANT, "r1", "a", GIVEN, 1_000)


def test_an_order_is_good_for_an_hour():
    """Who kept the record writes it again later in vain."""
    assert ORDERS.good(TENANT, "r1", "a", GIVEN, 1_000 + GOOD_MS)
    assert not ORDERS.good(TENANT, "r1", "a", GIVEN, 1_001 + GOOD_MS)
    ahead = ORDERS.give(TENANT, "r1", "a", "b", 1, GOOD_MS)
    assert not ORDERS.good(TENANT, "r1", "a", ahead, 1_000)


def test_a_secret_that_is_being_changed_still_finishes_its_moves():
    """And one that was taken out does not."""
    new = b"another secret of thirty-two bytes or more"
    both, alone = (MigrationOrders(Keyring(new, old), "parley") for old in (KEYRING.current, None))
    assert both.good(TENANT, "r1", "a", GIVEN, 1_000)
    assert not alone.good(TENANT, "r1", "a", GIVEN, 1_000)
    assert both.give(TENANT, "r1", "a", "b", 1, 1_000) == alone.give(TENANT, "r1", "a", "b", 1, 1_000)
    assert isinstance(GIVEN, MigrationOrder)

"""A request whose readers stay stuck: what a gateway says of them every second leaves it in line for good."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from core.configuration.settings import Settings
from core.sql.database import Database
from engine.queue import client
from server.reading.subscriptions import RequestName, Subscriptions
from tests.engine.builders import START_MS, Pool, append_to, end_entry, pool, request, usage_event
from tests.server.site import running_site
from tests.support.patience import wait_until
from tests.support.redis import Redis

GATEWAY = "g1"
PARKED_MS = 600_000


def hub_of(p: Pool) -> Subscriptions:
    """A gateway's, whose requests are due to be looked at whenever it polls."""
    changed = p.settings.model_copy(update={"poll_interval_seconds": 0.0})
    pools = SimpleNamespace(gateway=GATEWAY, queues={p.name: p.queue})
    return Subscriptions(cast(Any, p.redis), changed, cast(Any, pools), cast(Any, None))


async def told(hub: Subscriptions) -> None:
    """What the pool is being told has arrived."""
    while hub.work:
        for task in hub.work:
            await task


async def polled(hub: Subscriptions, p: Pool, times: int) -> None:
    """So many seconds pass, in each of which the gateway polls, the worker lives and the pool is reaped."""
    poll: Any = hub._poll  # its clock is the test's
    for _ in range(times):
        p.clock.advance(1_000)
        await p.queue.renew_gateway(GATEWAY)
        await p.queue.renew("w1", 0, {"kv_tokens": 100_000})
        await poll()
        await p.queue.reap()


async def test_once_unparked_by_age_it_stays_in_line_on_a_busy_pool_until_a_worker_takes_it(
    redis: Redis,
):
    """INV-20: The only place is taken for half a minute while its gateway says `stuck` every second: it is
    parked no more, neither in line nor at the worker, not even after it was taken from one, and it ends well.
    """
    p, reader, deadline = pool(redis), object(), START_MS + 10 * PARKED_MS
    hub, parked = hub_of(p), request(gateway=GATEWAY, deadline_ms=deadline)
    at = (parked.tenant, parked.id)
    await p.queue.enqueue(parked)
    hub.join(RequestName(p.name, *at), reader)
    hub.report(RequestName(p.name, *at), reader, stuck=True)
    await told(hub)
    assert await p.places(*at) == {"parked"}
    p.clock.advance(PARKED_MS)
    busy = await p.running(deadline_ms=deadline)
    await polled(hub, p, 30)
    assert await p.places(*at) == {"line:bulk", "ids:bulk"}
    ends = [end_entry(busy.o + 1, busy.n)]
    await p.queue.append("w1", [append_to(busy, entries=ends, end=usage_event(busy.tenant, busy.id))])
    for _ in range(2):
        (claim,) = await p.claim(slots=1)
        await polled(hub, p, 5)
        assert await p.places(*at) == {"run", "claims:w1"}
        await p.queue.unclaim("w1", *at, claim.ck, "preempt")
        await polled(hub, p, 5)
        assert await p.places(*at) == {"line:bulk", "ids:bulk"}
    (claim,) = await p.claim(slots=1)
    ends = [end_entry(claim.o + 1, claim.n)]
    await p.queue.append("w1", [append_to(claim, entries=ends, end=usage_event(*at))])
    kinds = await p.kinds(*at)
    assert (kinds.count("parked"), kinds[-1]) == (1, "end")


async def test_a_user_whose_answers_wait_parked_holds_up_no_other_tenants(
    redis: Redis, sqlite: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch
):
    """More of them than one look of the reaper takes stay parked for a day, as their sender wishes, and who
    sent them is gone; another's is resumed at its time."""
    monkeypatch.setattr(client, "REAP_BUDGET", 2)
    changed = {"stuck_seconds": 0.2, "park_seconds_max": 1}
    async with running_site(settings, sqlite, redis, **changed) as site:

        async def fields(tenant: str, id: str) -> list[bytes | None]:
            return await redis.hmget(f"{{p:default}}req:{tenant}:{id}", "status", "class", "given_up")

        async def parked(tenant: str, *ids: str) -> bool:
            return all([(await fields(tenant, id))[0] == b"parked" for id in ids])

        waits = {"deadline_ms": 80_000_000, "on_no_reader": {"cancel_after_ms": 80_000_000}}
        async with site.welcomed() as peer:
            ids = [await peer.send(options=waits) for _ in range(6)]
            await wait_until(lambda: parked(site.tenant, *ids))
        async with site.welcomed(await site.foreign_key()) as other:
            id = await other.send(options={"deadline_ms": 80_000_000})
            await other.hear("accepted")
            (key,) = [key async for key in redis.scan_iter(f"{{p:default}}req:*:{id}")]
            tenant = key.decode().split(":")[2]

            async def resumed() -> bool:
                return await fields(tenant, id) == [b"queued", b"bulk", b"1"]

            await wait_until(resumed)
        assert await parked(site.tenant, *ids)

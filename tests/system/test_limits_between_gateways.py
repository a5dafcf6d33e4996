"""Several gateway processes and one limit; a gateway that is killed with something admitted."""

import asyncio
from typing import Any

from websockets.exceptions import ConnectionClosed

from billing.api import Quota, set_policy
from core.clock import now_ms
from core.configuration.settings import Settings
from core.ids import uuid7
from core.sql.database import Database
from engine.lifecycle.stale_admissions import release_stale_admissions
from tests.server.site import RawPeer, Site
from tests.support.gateways import RunningGateways, running_gateways
from tests.support.patience import BEAT_SECONDS, LivedTime, pause, wait_until
from tests.support.redis import Redis

BURST = 10


async def limit_to(site: Site, limit: int, burst: int) -> None:
    """So many requests a minute for the tenant."""
    facts: dict[str, Any] = {"scope": "tenant", "dimension": "requests_per_minute"}
    await set_policy(site.database, site.redis, site.tenant, limit=limit, burst=burst, **facts)


async def outcome(peer: RawPeer) -> str:
    """What becomes of one send: `accepted`, or why not."""
    id = await peer.send()
    while True:
        frame = await peer.hear()
        if frame.get("id") == id and frame["t"] in ("accepted", "error"):
            return frame.get("code", "accepted")


async def test_two_gateways_share_one_limit(pair: RunningGateways):
    """The limit is the tenant's, however many gateways count it; an edit holds at all."""
    site, (one, two) = pair.site, pair.gateways
    await limit_to(site, 1, BURST)
    async with site.answering("ok"), pair.at(one).welcomed() as a, pair.at(two).welcomed() as b:

        async def many(peer: RawPeer) -> list[str]:
            return [await outcome(peer) for _ in range(2 * BURST)]

        outcomes = [each for found in await asyncio.gather(many(a), many(b)) for each in found]
        assert outcomes.count("accepted") == BURST
        assert outcomes.count("rate_limited") == 3 * BURST
        with LivedTime() as lived:
            await limit_to(site, 1, BURST + 2)
            for peer in (a, b):
                await wait_until(lambda peer=peer: _accepted(peer))
        print(f"the edit held at both after {lived}")
        assert await outcome(a) == await outcome(b) == "rate_limited"


async def _accepted(peer: RawPeer) -> bool:
    return await outcome(peer) == "accepted"


async def test_a_gateway_killed_between_admitting_and_enqueueing_leaves_nothing(
    sqlite: Database, redis: Redis, settings: Settings
):
    """Its admission is swept, and the same send at another gateway is accepted and answered once."""
    async with running_gateways(settings, sqlite, redis, 1) as fleet:
        doomed = await fleet.start(
            PARLEY_FAILPOINTS="gateway.after_admit", PARLEY_TEST_CRASHES="kill-this-process"
        )
        site, quota = fleet.site, Quota(fleet.site.redis, fleet.site.settings)
        id = uuid7(now_ms())
        async with fleet.at(doomed).welcomed() as peer:
            await peer.send(id=id)
            try:
                while True:
                    await peer.hear()
            except ConnectionClosed:
                pass
        assert await quota.open_requests(site.tenant) == 1
        await pause(BEAT_SECONDS)  # older than a millisecond
        assert await release_stale_admissions(site.crew.queue, quota, older_than_ms=1) == 1
        assert await quota.open_requests(site.tenant) == 0
        async with site.answering("ok"), fleet.at(fleet.gateways[0]).welcomed() as peer:
            await peer.send(id=id)
            assert (await peer.hear("accepted"))["dup"] is False
            assert (await peer.hear("end"))["reason"] == "stop"
            await wait_until(lambda: _nothing_open(quota, site.tenant))


async def _nothing_open(quota: Quota, tenant: str) -> bool:
    return await quota.open_requests(tenant) == 0

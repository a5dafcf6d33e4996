"""Open requests that a worker wrote and no pool ends: they hold up nobody who closes, erases or bills for
longer than an honest one could be open."""

import asyncio
from functools import partial
from typing import Any

import pytest

from billing.api import OwnerFilter, Quota, open_of, release_lapsed
from billing.booking.admissions import LATE_MS_MAX
from core.access.processes import WORKER
from core.clock import now_ms
from core.configuration.settings import Settings
from engine.lifecycle.reaper import Reaper
from engine.queue.client import PoolQueue
from tests.billing.cli.commands import Command, parley, rows
from tests.billing.quota.admissions import an_admission
from tests.support.redis import Redis
from tests.support.users import make_user, url_of

__all__ = ["parley"]

FAR_AHEAD = 9 * 10**15
RECORD = {"state": "open", "project": "p", "by": "k", "key": "k", "user": "u", "hold": "0"}
PLANTS: dict[str, dict[str, Any]] = {
    "a pool that nobody serves": {"pool": "nowhere", "admitted": "1", "deadline": "1"},
    "no name of a pool": {"pool": b"\xff{", "admitted": "x", "deadline": str(FAR_AHEAD)},
    "a record of the pool": {"pool": "default", "admitted": "1", "deadline": "1"},
}


async def plant(worker: Any, tenant: str, fields: dict[str, Any], id: str, score: float) -> None:
    """By plain commands."""
    await worker.hset(f"{{t:{tenant}}}rq:{id}", mapping=RECORD | fields)
    await worker.zadd(f"{{t:{tenant}}}live", {id: score})
    if fields["pool"] == "default":
        await worker.hset(f"{{p:default}}req:{tenant}:{id}", mapping={"status": "foo"})


@pytest.mark.parametrize("score", [1, FAR_AHEAD])
@pytest.mark.parametrize("name", PLANTS)
async def test_a_planted_open_request_is_swept_whatever_pool_it_names(
    name: str, score: int, redis: Redis, redis_url: str, settings: Settings
):
    """Behind any number of names of no request; honest ones stay open until they are ended."""
    worker: Any = Redis.from_url(url_of(redis_url, await make_user(redis, WORKER)))
    quota = Quota(redis, settings)
    await quota.admit(an_admission(id="honest", now_ms=now_ms() - 50_000))
    await plant(worker, "t1", PLANTS[name], "evil", score)
    await worker.zadd("{t:t1}live", {f"junk{at}": score for at in range(1_500)} | {b"\xff": score})
    await worker.aclose()
    await Reaper(PoolQueue(redis, "default", settings), quota, 1_000).sweep()
    assert await open_of(redis, OwnerFilter("t1")) == [("honest", "A")]
    assert await redis.zcard("{t:t1}live") == 1
    assert await redis.ttl("{t:t1}rq:evil") > 0


@pytest.mark.parametrize("over_ms", [-60_000, 60_000])
async def test_one_is_over_once_no_biller_takes_its_end(over_ms: int, redis: Redis, settings: Settings):
    """Until then it counts as open, also in an installation that was down for hours."""
    quota, far = Quota(redis, settings), settings.deadline_bulk_ms + LATE_MS_MAX
    await quota.admit(an_admission(now_ms=now_ms() - far - over_ms))
    assert await release_lapsed(quota, settings, "t1") == ["r1"] * (over_ms > 0)
    assert len(await open_of(redis, OwnerFilter("t1"))) == (over_ms < 0)


@pytest.mark.parametrize("name", PLANTS)
async def test_no_command_waits_for_a_planted_one(name: str, parley: Command, redis: Redis):
    """The close of a month, closing with `--cancel` and erasing, while nobody sweeps."""
    run = partial(asyncio.to_thread, parley)
    [tenant] = rows(await run("tenants", "list", "--json"))
    for command, told in (
        (("prices", "close-period", "--tenant", "acme", "--month", "1970-01"), "closed"),
        (("tenants", "close", "acme", "--cancel"), "cancelled"),
        (("tenants", "erase", "acme", "--yes"), "conversations"),
    ):
        await plant(redis, tenant["tenant"], PLANTS[name], "evil", 1)
        result = await run(*command)
        assert result.exit_code == 0, (result.output, result.exception)
        assert told in result.output
        assert "not_ended_yet" not in result.output

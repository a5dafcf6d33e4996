"""A request that kills engines is singled out and ended; those that were beside it survive."""

import random
from itertools import pairwise
from typing import Any

import pytest

from engine.api import AppendCode, Claim, RequestStatus
from tests.engine.builders import Pool, append_to, pool, request
from tests.support.redis import Redis

SLOTS = 32


class PoisonWard:
    """A pool in which one request's prefill kills whatever engine takes it, and all others log a token."""

    def __init__(self, p: Pool) -> None:
        self.p = p
        self.poison = ""
        self.born = 0
        self.deaths: list[set[str]] = []
        self.cleared: set[str] = set()

    async def worker(self) -> str:
        """A worker under a new name, as its supervisor starts one."""
        self.born += 1
        return await self.p.worker(f"w{self.born}")

    async def round(self, name: str) -> str:
        """One worker claims all that it can and runs a step; the name of who goes on."""
        claims = await self.p.claim(name, slots=SLOTS)
        ids = {claim.id for claim in claims}
        if self.poison in ids:
            self.deaths.append(ids)
            await self.p.queue.deregister(name, "lost")
            return await self.worker()
        for claim in claims:
            await self.log_a_token(name, claim)
        return name

    async def log_a_token(self, name: str, claim: Claim) -> None:
        """Which clears it."""
        assert (await self.p.queue.append(name, [append_to(claim, ids=(7,))]))[0].code is AppendCode.OK
        self.cleared.add(claim.id)

    async def enqueue(self, count: int) -> list[str]:
        """So many requests; their ids."""
        asked = [request(prompt_tokens=4) for _ in range(count)]
        for each in asked:
            await self.p.queue.enqueue(each)
        return [each.id for each in asked]


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("count", [1, 2, 3, 5, 16, 31])
async def test_innocents_survive(redis: Redis, count: int, workers: int):
    """However many started beside it: half as many die at each death after the second, and it ends alone."""
    ward = PoisonWard(pool(redis, claim_picks_max=SLOTS))
    ids = await ward.enqueue(count)
    ward.poison = random.Random(count).choice(ids)
    names = [await ward.worker() for _ in range(workers)]
    expired: list[tuple[str, str, str]] = []
    for _ in range(40):
        names = [await ward.round(name) for name in names]
        expired = [(each.id, each.reason, each.code) for each in (await ward.p.queue.reap()).expired]
        if expired and len(ward.cleared) == count - 1:
            break
    assert expired == [(ward.poison, "error", "engine_lost")]
    assert ward.cleared == set(ids) - {ward.poison}
    crowds = [len(ids) for ids in ward.deaths]
    assert crowds[-1] == 1
    assert len(crowds) >= ward.p.settings.deaths_max
    for before, after in pairwise(crowds[1:]):
        assert after <= max(1, (before + 1) // 2), crowds


async def test_half_the_suspects_go_to_each_of_two_workers(redis: Redis):
    """After the second death of eight; with one that died among two it is tried alone."""
    p = pool(redis)
    ward = PoisonWard(p)
    await ward.enqueue(8)
    for _ in range(2):
        name = await ward.worker()
        assert len(await p.claim(name)) == 8
        await p.queue.deregister(name, "lost")
    one, two = await ward.worker(), await ward.worker()
    first, second = await p.claim(one), await p.claim(two)
    assert (len(first), len(second)) == (4, 4)
    assert not {claim.id for claim in first} & {claim.id for claim in second}
    await p.queue.deregister(one, "lost")
    one, three = await ward.worker(), await ward.worker()
    assert [len(await p.claim(name)) for name in (one, three)] == [2, 2]
    await p.queue.deregister(one, "lost")
    one, four = await ward.worker(), await ward.worker()
    assert [len(await p.claim(name)) for name in (one, four)] == [1, 1]


async def test_suspects_take_no_company_and_join_none(redis: Redis):
    """Until they log a token: then their worker takes others again. What ran on before is left alone."""
    p = pool(redis)
    ward = PoisonWard(p)
    old = await p.running("busy")
    await ward.log_a_token("busy", old)
    (suspect,) = await ward.enqueue(1)
    for _ in range(2):
        name = await ward.worker()
        assert [claim.id for claim in await p.claim(name)] == [suspect]
        await p.queue.deregister(name, "lost")
    (claim,) = await p.claim("busy")
    assert claim.id == suspect
    (fresh,) = await ward.enqueue(1)
    assert await p.claim("busy") == []
    await ward.log_a_token("busy", claim)
    assert [claim.id for claim in await p.claim("busy")] == [fresh]
    for _ in range(2):
        await p.queue.deregister("busy", "drain")
        await p.worker("busy")
        await p.claim("busy")
    await ward.enqueue(1)
    assert len(await p.claim("busy")) == 1, "nobody is a suspect any more"


async def test_a_suspect_waits_for_a_worker_that_nothing_else_is_fresh_at(redis: Redis):
    """It is passed over, not lost: others are taken, and the worker asks again soon."""
    p = pool(redis)
    ward = PoisonWard(p)
    (suspect,) = await ward.enqueue(1)
    for _ in range(2):
        name = await ward.worker()
        await p.claim(name)
        await p.queue.deregister(name, "lost")
    await p.worker("busy")
    (beside,) = await p.claim("busy", slots=0) or await _newer(ward)
    assert beside.id != suspect
    assert await p.claim("busy") == []
    await ward.log_a_token("busy", beside)
    assert [claim.id for claim in await p.claim("busy")] == [suspect]


async def _newer(ward: PoisonWard) -> list[Claim]:
    """A worker at which another request is fresh: the suspect did not fit there, the newer one did."""
    asked = request(prompt_tokens=1, granted=1, max_tokens=1)
    await ward.p.queue.enqueue(asked)
    return await ward.p.claim("busy", kv_tokens=2)


async def test_planned_stops_and_single_errors(redis: Redis):
    """Drains and preemptions are no deaths; an engine that fails at one request alone counts against it."""
    p = pool(redis)
    ward = PoisonWard(p)
    await ward.enqueue(2)
    for why in ("drain", "preempt", "pool") * 3:
        p.clock.advance(5_000)
        name = await ward.worker()
        claims = await p.claim(name)
        assert [claim.deaths for claim in claims] == [0, 0]
        for claim in claims:
            assert await p.queue.unclaim(name, claim.tenant, claim.id, claim.ck, why)
    p.clock.advance(5_000)
    name, blamed = await ward.worker(), ""
    for deaths in range(4):
        (claim,) = await p.claim(name, slots=1)
        assert (claim.deaths, blamed) in ((0, ""), (deaths, claim.id))
        blamed = claim.id
        assert await p.queue.unclaim(name, claim.tenant, claim.id, claim.ck, "error")
    assert [each.id for each in (await p.queue.reap()).expired] == [blamed]
    assert len(await p.claim(name)) == 1


async def test_nothing_is_left_of_a_suspect_that_ended(redis: Redis):
    """No worker is kept from claiming by one that is gone: cancelled, drained or dead."""
    p = pool(redis)
    client: Any = redis
    ward = PoisonWard(p)
    (suspect,) = await ward.enqueue(1)
    for _ in range(3):
        name = await ward.worker()
        (claim,) = await p.claim(name)
        assert await client.smembers(p.key(f"suspects:{name}")) in (set(), {f"t1:{suspect}".encode()})
        await p.queue.deregister(name, "lost")
    name = await p.worker("last")
    (claim,) = await p.claim(name)
    assert await p.queue.unclaim(name, claim.tenant, claim.id, claim.ck, "drain")
    view = await p.queue.view(claim.tenant, claim.id)
    assert view is not None
    assert view.status is RequestStatus.QUEUED
    assert await client.keys(p.key("fresh:*")) == await client.keys(p.key("suspects:*")) == []

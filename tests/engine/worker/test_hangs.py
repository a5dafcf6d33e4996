"""A hung engine is blamed on the requests of a shape that it held; who was beside them finishes."""

import asyncio
import itertools
import random

import pytest

from billing.api import Quota
from chaos.injected.scripted import ScriptedEngine
from core.configuration.settings import Settings
from core.tasks import cancel_tasks
from engine.api import AppendCode, Claim, RequestStatus
from engine.lifecycle.reaper import Reaper
from engine.queue import client as engine_queue
from engine.worker import worker as engine_worker
from tests.engine.builders import Pool, append_to, pool, request, usage_event
from tests.engine.workers import PoolWorkers, saying
from tests.support.patience import wait_until
from tests.support.redis import Redis

HUNG_MS = 9_000
SLOTS = 32


class Ward:
    """A pool whose engines hang at work on certain requests, and log a token of all others."""

    def __init__(self, p: Pool) -> None:
        self.p = p
        self.hanging: set[str] = set()
        self.shaped: set[str] = set()
        self.finished: set[str] = set()
        self.ended: dict[str, tuple[str, str]] = {}
        self.hangs: list[set[str]] = []
        self.names = itertools.count()

    async def worker(self) -> str:
        """A worker under a new name."""
        return await self.p.worker(f"w{next(self.names)}")

    async def enqueue(self, count: int, shaped: bool) -> list[str]:
        """So many requests; their ids."""
        asked = [request(prompt_tokens=4, shaped=shaped) for _ in range(count)]
        for each in asked:
            await self.p.queue.enqueue(each)
        return [each.id for each in asked]

    async def hang(self, name: str) -> None:
        """Its engine makes no step for so long that its lease lapses."""
        await self.p.queue.renew(name, HUNG_MS, {})
        self.p.clock.advance(self.p.settings.worker_lease_ms + 1)

    async def reap(self) -> None:
        """As every process does it; what is to be ended is over."""
        for each in (await self.p.queue.reap()).expired:
            self.ended.setdefault(each.id, (each.reason, each.code))

    async def round(self) -> None:
        """One worker claims all that it can, until its engine hangs or all have a token."""
        name = await self.worker()
        claims = await self.p.claim(name, slots=SLOTS)
        ids = {each.id for each in claims}
        if ids & self.hanging:
            self.hangs.append(ids)
            await self.hang(name)
        else:
            for claim in claims:
                assert claim.deaths == 0 or claim.id in self.shaped, "an innocent has a death"
                await self.log_a_token(name, claim, end=usage_event(claim.tenant, claim.id))
            self.finished |= ids
            await self.p.queue.deregister(name)
        await self.reap()

    async def log_a_token(self, name: str, claim: Claim, end: bytes | None = None) -> None:
        """Which clears it."""
        (done,) = await self.p.queue.append(name, [append_to(claim, ids=(7,), end=end)])
        assert done.code is (AppendCode.ENDED if end else AppendCode.OK)


@pytest.mark.parametrize(("bad", "shaped", "plain"), [(1, 0, 0), (1, 0, 5), (1, 1, 5), (1, 4, 10), (2, 2, 3)])
async def test_who_was_beside_a_hanging_shape_finishes(redis: Redis, bad: int, shaped: int, plain: int):
    """The shaped are tried alone; the one that hangs alone ends `bad_request`, and no other ends."""
    ward = Ward(pool(redis, claim_picks_max=SLOTS))
    ids = await ward.enqueue(bad + shaped, shaped=True)
    innocent = {*await ward.enqueue(plain, shaped=False)}
    ward.hanging = set(random.Random(bad + shaped).sample(ids, bad))
    ward.shaped = set(ids)
    for _ in range(20):
        await ward.round()
        if len(ward.finished) + len(ward.ended) == len(ids) + plain:
            break
    assert ward.finished == innocent | set(ids) - ward.hanging
    assert ward.ended == dict.fromkeys(ward.hanging, ("error", "bad_request"))
    assert all(len(ids) == 1 for ids in ward.hangs[1:]), "after the first hang each is tried alone"


async def test_without_a_shape_the_old_rule_holds(redis: Redis):
    """A hung engine with no request of a shape is a death of all that were fresh."""
    p = pool(redis)
    ward = Ward(p)
    ids = await ward.enqueue(2, shaped=False)
    name = await ward.worker()
    await p.claim(name)
    await ward.hang(name)
    await ward.reap()
    again = await p.claim(await ward.worker())
    assert {claim.id: claim.deaths for claim in again} == dict.fromkeys(ids, 1)


async def test_an_engine_that_dies_is_blamed_on_nobody_in_particular(redis: Redis):
    """A crash is no hang; and an engine that moves again is no hung one."""
    p = pool(redis)
    ward = Ward(p)
    await ward.enqueue(1, shaped=True)
    await ward.enqueue(1, shaped=False)
    name = await ward.worker()
    await p.claim(name)
    await p.queue.renew(name, HUNG_MS, {})
    await p.queue.renew(name, 0, {})
    await p.queue.deregister(name, "lost")
    assert [claim.deaths for claim in await p.claim(await ward.worker())] == [1, 1]


async def test_a_suspect_shape_is_alone_until_it_logs_a_token(redis: Redis):
    """It comes to a worker that holds nothing, which takes nothing else until then."""
    p = pool(redis)
    ward = Ward(p)
    (shaped,) = await ward.enqueue(1, shaped=True)
    name = await ward.worker()
    assert len(await p.claim(name)) == 1
    await ward.hang(name)
    await ward.reap()
    busy = await p.worker("busy")
    (other,) = await ward.enqueue(1, shaped=False)
    beside = [claim for claim in await p.claim(busy, slots=16)]
    assert [claim.id for claim in beside] == [shaped]
    assert await p.claim(busy) == []
    await ward.log_a_token(busy, beside[0])
    assert [claim.id for claim in await p.claim(busy)] == [other]


async def test_a_suspect_that_no_worker_is_free_for_ends_for_its_sender_to_try_again(
    redis: Redis,
):
    """After half a minute, `engine_lost`, which is retryable. Others wait on to their deadline."""
    p = pool(redis)
    ward = Ward(p)
    busy = await p.running("busy", shaped=False)
    (shaped,) = await ward.enqueue(1, shaped=True)
    name = await ward.worker()
    await p.claim(name)
    await ward.hang(name)
    await p.queue.renew("busy", 0, {})
    await ward.reap()
    assert await p.claim("busy") == [], "it holds something"
    for _ in range(31):
        p.clock.advance(1_000)
        await p.queue.renew("busy", 0, {})
        await ward.reap()
    assert ward.ended == {shaped: ("error", "engine_lost")}
    view = await p.queue.view(busy.tenant, busy.id)
    assert view is not None
    assert view.status is RequestStatus.RUNNING


async def test_one_that_was_cleared_keeps_its_own_deadline(redis: Redis):
    """What it would have waited for an empty worker is forgotten, running or in line."""
    p = pool(redis)
    ward = Ward(p)
    await ward.enqueue(1, shaped=True)
    name = await ward.worker()
    await p.claim(name)
    await ward.hang(name)
    await ward.reap()
    name = await ward.worker()
    (claim,) = await p.claim(name)
    await ward.log_a_token(name, claim)
    for step in range(60):
        p.clock.advance(1_000)
        await p.queue.renew(name, 0, {})
        if step == 20:
            await p.queue.unclaim(name, claim.tenant, claim.id, claim.ck, "drain")
        await ward.reap()
    assert ward.ended == {}
    p.clock.advance(600_000)
    await ward.reap()
    assert ward.ended == {claim.id: ("deadline", "")}


async def test_innocents_beside_a_shape_that_hangs_are_answered(
    redis: Redis, settings: Settings, monkeypatch: pytest.MonkeyPatch
):
    """With workers at work: each hung one loses its lease and is replaced, as its supervisor does."""
    monkeypatch.setattr(engine_queue, "STEP_AGE_MS_MAX", engine_queue.STEP_AGE_MS_MIN)
    monkeypatch.setattr(engine_worker, "KEEP_SECONDS", 0.05)
    monkeypatch.setattr(engine_worker, "RENEW_SECONDS", 0.1)
    crew = PoolWorkers(redis, settings)
    bad = await crew.send(response_format="bad")
    good = [await crew.send(response_format="good"), *[await crew.send() for _ in range(3)]]
    reaper = Reaper(crew.queue, Quota(redis, settings), 50)
    reaping = asyncio.create_task(reaper.run())
    over = asyncio.gather(*(crew.ended(id) for id in [bad, *good]))
    hung = 0
    while not over.done():
        engine = ScriptedEngine(saying("ok"), 0.005, hangs_at=lambda each: each.response_format == "bad")
        async with crew.worker(engine) as running:

            async def replaced(name: str = running.name) -> bool:
                return over.done() or name not in {view.worker for view in await crew.queue.workers()}

            await wait_until(lambda: crew.queue.workers())
            await wait_until(replaced)
            hung += not over.done()
    await cancel_tasks([reaping])
    ends = [(end["reason"], end.get("code")) for end in await over]
    assert ends == [("error", "bad_request"), *[("stop", None)] * len(good)]
    assert hung <= 2

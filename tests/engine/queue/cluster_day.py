"""All that a pool does, on one node of a cluster."""

import hashlib

from redis.crc import key_slot

from engine.api import (
    AppendCode,
    Control,
    Entry,
    EntryKind,
    HintChannel,
    JournaledEnd,
    LogReader,
    MigratedTo,
    Migrator,
    PinnedPolicy,
    PriorityClass,
    RequestStatus,
    TenantTerms,
    WorkerWakes,
)
from engine.queue import redis_keys
from tests.engine.builders import Pool, append_to, end_entry, request_input, text, usage_event
from tests.support.cluster import SLOTS
from tests.support.cluster import cluster as cluster  # the fixtures
from tests.support.cluster import cluster_url as cluster_url
from tests.support.patience import soon


def pool_on(node: int) -> str:
    """A pool's name whose slot is on that node."""
    names = (f"pool{at}" for at in range(100))
    return next(name for name in names if key_slot(redis_keys.system(name).encode()) // (SLOTS // 2) == node)


POOLS = [pool_on(0), pool_on(1)]


async def everything(p: Pool) -> None:
    """A pool's day."""
    queue = p.queue
    hints, wakes = HintChannel(p.redis, "g1"), WorkerWakes(p.redis, p.name, "w1")
    await hints.follow(p.name)
    await wakes.start()
    await queue.starting("smollm2@1")
    await queue.now_ms()
    queue._clock = None
    await queue.now_ms()
    queue._clock = p.clock
    claim = await p.running(gateway="g1")
    at = (claim.tenant, claim.id)
    assert (await soon(anext(aiter(hints)))).id == claim.id
    assert await queue.renew_gateway("g1")
    (answer,) = await queue.append("w1", [append_to(claim, ids=(1, 2), x="ab")])
    assert answer.code is AppendCode.OK
    await queue.control(*at, Control.PREEMPT)
    assert await soon(anext(aiter(wakes))) == (*at, Control.PREEMPT)
    assert (await queue.renew("w1", 0, {})).alive
    assert await queue.unclaim("w1", *at, claim.ck, "preempt")
    await park_and_unpark(p, *at)
    (claim,) = await p.claim()
    retract = Entry(o=claim.o + 1, k=EntryKind.RETRACT, p=1)
    item = append_to(claim, entries=[retract, text(claim.o + 2, "c", 1, 2)], raw=2, visible=2)
    assert (await queue.rewrite("w1", 1, item)).code is AppendCode.OK
    assert await LogReader(p.redis, p.name).text_through(*at, claim.o + 2) == "ac"
    assert await queue.claimed("w1") == {at}
    assert [view.claims for view in await queue.workers()] == [1]
    await queue.deregister("w1", "lost")
    await endings(p, *at)
    await wakes.close()
    await hints.close()


async def park_and_unpark(p: Pool, tenant: str, id: str) -> None:
    """By its readers and by name."""
    await p.queue.reader(tenant, id, "g1", "stuck")
    assert await p.places(tenant, id) == {"parked"}
    await p.queue.reader(tenant, id, "g1", "reading")
    assert await p.queue.park(tenant, id) is RequestStatus.QUEUED
    assert await p.queue.unpark(tenant, id) is RequestStatus.PARKED


async def endings(p: Pool, tenant: str, id: str) -> None:
    """Finished by hand, by its worker, and reaped."""
    view = await p.queue.view(tenant, id)
    assert view is not None
    end = end_entry(view.head + 1, 2)
    assert await p.queue.finish(tenant, id, view.head, [end], usage_event(tenant, id))
    assert await p.queue.expire_log(tenant, id, 600)
    assert await p.queue.refuse_late_enqueue(tenant, [id, "never came"]) == ["never came"]
    claim = await p.running("w2")
    last = append_to(claim, ids=(1,), entries=[end_entry(3, 1)], end=usage_event(claim.tenant, claim.id))
    assert (await p.queue.append("w2", [last]))[0].code is AppendCode.ENDED
    memory = (await p.queue.ends()).memory
    lost = JournaledEnd(tenant, "of a memory before", "0.0", "1-0", usage_event(tenant, "of a memory before"))
    put, known = [await p.queue.replay([lost]) for _ in range(2)]
    assert [(code.value, at.memory) for code, at in put + known] == [("put", memory), ("known", memory)]
    assert put[0][1] == known[0][1]
    await there_and_back(p)
    left = await p.running("w3", gateway="g2")
    p.clock.advance(10_000)
    reaped = await p.queue.reap()
    assert (reaped.requeued, reaped.dead_readers) == (1, 1)
    await p.queue.set_tenant("t1", TenantTerms(weight=2.0, slots_max=3))
    await p.queue.set_reserve(PriorityClass.INTERACTIVE, 10)
    assert await p.places(left.tenant, left.id) == {"line:interactive", "ids:interactive"}


async def there_and_back(p: Pool) -> None:
    """To the pool on the other node, where it runs on, and back."""
    other = Pool(p.redis, name=next(name for name in POOLS if name != p.name))
    mover, worker = Migrator(p.redis, p.settings, p.settings.keyring, p.clock), f"{other.name} worker"
    await other.worker(worker)
    policy = PinnedPolicy(hashlib.sha256(b"{}").hexdigest(), b"{}")
    under = request_input(policy=policy.hash)
    claim = await p.running("w4", tenant="t4", policy=policy, input=under)
    at = (claim.tenant, claim.id)
    await p.queue.append("w4", [append_to(claim, ids=(1, 2), x="ab")])
    assert await mover.migrate(p.name, *at, other.name) == MigratedTo(other.name)
    (late,) = await p.queue.append("w4", [append_to(claim, ids=(3,), n0=2, o0=4, x="!")])
    assert late.code is AppendCode.FENCED
    redirect = await p.queue.control(*at, Control.CANCEL)
    assert isinstance(redirect, MigratedTo)
    assert redirect.pool == other.name
    (taken,) = await other.claim(worker)
    assert (taken.id, taken.n, taken.o) == (claim.id, 2, 4)
    await other.queue.append(worker, [append_to(taken, ids=(3,), x="c")])
    await mover.migrate(other.name, *at, p.name)
    assert await LogReader(p.redis, p.name).text_through(*at, 6) == "abc"
    (back,) = await p.claim("w4")
    end = usage_event(*at)
    last = append_to(back, ids=(4,), entries=[end_entry(back.o + 1, 4)], end=end)
    assert (await p.queue.append("w4", [last]))[0].code is AppendCode.ENDED
    assert await p.places(*at) == await other.places(*at) == set()

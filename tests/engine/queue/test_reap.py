"""The reaper's round at its edges, on a real Valkey: what is left alone until its time."""

import pytest

from engine.api import Control
from engine.queue.client import REAP_BUDGET
from tests.engine.builders import START_MS, pool, request
from tests.support.redis import Redis


async def test_what_waits_for_a_model_of_which_nobody_ever_heard_ends(redis: Redis):
    """After as long as one whose last worker went."""
    p = pool(redis)
    e = request(fingerprint="of nobody")
    await p.queue.enqueue(e)
    p.clock.advance(119_999)
    assert (await p.queue.reap()).expired == []
    p.clock.advance(1)
    assert [(x.id, x.reason, x.code) for x in (await p.queue.reap()).expired] == [
        (e.id, "error", "engine_lost")
    ]


async def test_what_is_gone_is_waited_for_no_more(redis: Redis):
    """A record that lapsed, or that is on its way to another pool, has no deadline and no reader here."""
    p = pool(redis)
    e = request(no_reader_ms=500, gateway="g1")
    await p.queue.enqueue(e)
    await p.client.hset(p.key(f"req:{e.tenant}:{e.id}"), "status", "moving")
    await p.queue.reader(e.tenant, e.id, "g1", "gone")
    for when in ("deadlines", "unread"):
        await p.client.zadd(p.key(when), {"t1:lapsed": START_MS})
    assert await p.client.zcard(p.key("unread")) == 2
    p.clock.advance(500)
    assert (await p.queue.reap()).expired == []
    assert await redis.exists(p.key("unread")) == 0
    assert await p.client.zscore(p.key("deadlines"), "t1:lapsed") is None


@pytest.mark.parametrize(
    ("early_ms", "reason", "code"), [(1, "error", "engine_lost"), (0, "deadline", ""), (-1, "deadline", "")]
)
async def test_a_suspect_that_was_tried_nowhere_ends_by_what_came_first(
    redis: Redis, early_ms: int, reason: str, code: str
):
    """The end of its wait for an empty worker, or its own deadline."""
    p = pool(redis)
    e = request(deadline_ms=START_MS + 1_000)
    await p.queue.enqueue(e)
    await p.client.hset(p.key(f"req:{e.tenant}:{e.id}"), mapping={"deaths": 2, "crowd": 0})
    await p.client.zadd(p.key("deadlines"), {f"{e.tenant}:{e.id}": START_MS})
    p.clock.advance(1_000 - early_ms)
    assert [(x.id, x.reason, x.code) for x in (await p.queue.reap()).expired] == [(e.id, reason, code)]


@pytest.mark.parametrize(("control", "again"), [(Control(0), True), (Control.CANCEL, False)])
async def test_what_runs_again_has_its_own_deadline_again(redis: Redis, control: Control, again: bool):
    """It was looked at early while it waited; one that is cancelled is looked at in every round."""
    p = pool(redis)
    claim = await p.running(deadline_ms=START_MS + 1_000)
    member = f"{claim.tenant}:{claim.id}"
    await p.client.zadd(p.key("deadlines"), {member: START_MS})
    if control:
        await p.queue.control(claim.tenant, claim.id, control)
    assert (await p.queue.reap()).expired == []
    assert await p.client.zscore(p.key("deadlines"), member) == START_MS + 1_000 * again


async def test_who_can_finish_moves_is_told_of_each_once_a_second(redis: Redis):
    """Others take no turns from those."""
    p = pool(redis)
    e = request()
    at, member = (e.tenant, e.id), f"{e.tenant}:{e.id}"
    await p.queue.enqueue(e)
    await p.client.hset(p.key(f"req:{member}"), "status", "moving")
    await p.client.zadd(p.key("moving"), {member: START_MS, "t1:arrived": START_MS})
    assert (await p.queue.reap(moves=False)).moves == []
    assert [(await p.queue.reap()).moves for _ in range(2)] == [[at], []]
    assert await p.client.zrange(p.key("moving"), 0, -1) == [member.encode()]
    p.clock.advance(999)
    assert (await p.queue.reap()).moves == []
    p.clock.advance(1)
    assert (await p.queue.reap()).moves == [at]


async def test_those_that_wait_for_their_senders_time_are_in_front_of_no_parked_one(redis: Redis):
    """However many there are: they were looked at, and the next look takes who is due behind them. At their
    own time they end."""
    p, due_ms = pool(redis), 600_000
    many = [
        request(tenant="many", no_reader_ms=2 * due_ms, deadline_ms=START_MS + 10 * due_ms)
        for _ in range(250)
    ]
    one = request(tenant="one", deadline_ms=START_MS + 10 * due_ms)
    assert 2 * REAP_BUDGET < len(many) < 3 * REAP_BUDGET
    for each in (*many, one):
        await p.queue.enqueue(each)
    for each in many:
        await p.queue.park(each.tenant, each.id)
    p.clock.advance(1_000)
    await p.queue.park(one.tenant, one.id)
    p.clock.advance(due_ms - 1_000)
    for _ in range(3):
        await p.queue.reap()
    p.clock.advance(1_000)
    await p.queue.reap()
    assert await p.places(one.tenant, one.id) == {"line:bulk", "ids:bulk"}
    assert await p.client.zcard(p.key("parked")) == len(many)
    p.clock.advance(2 * due_ms)
    expired = (await p.queue.reap()).expired
    assert [each.reason for each in expired if each.tenant == "many"] == ["cancelled"] * REAP_BUDGET

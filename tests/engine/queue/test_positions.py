"""How requests leave their workers and come back: release, control, parking, leases, and the reaper."""

import asyncio

from core.ids import uuid7
from engine.api import (
    AppendCode,
    Control,
    HintChannel,
    RequestStatus,
    WorkerWakes,
)
from tests.engine.builders import (
    FINGERPRINT,
    START_MS,
    TENANT,
    append_to,
    pool,
    request,
    tokens,
)
from tests.support.patience import soon
from tests.support.redis import Redis


async def test_a_released_request_goes_back_to_its_old_place(redis: Redis):
    """INV-7: Before those that came later, with the same epoch and its tokens; the old claim token is
    dead."""
    p = pool(redis)
    claim = await p.running()
    await p.queue.enqueue(request())
    assert (await p.queue.append("w1", [append_to(claim, ids=(1, 2), x="ab")]))[0].code is AppendCode.OK
    assert await p.queue.unclaim("w1", claim.tenant, claim.id, claim.ck, "drain")
    assert await p.kinds(claim.tenant, claim.id) == ["queued", "running", "t", "moved"]
    (again,) = await p.claim(slots=1)
    assert (again.id, again.epoch, again.cn, again.n, again.o) == (claim.id, 1, 2, 2, 4)
    assert (again.tokens, again.raw, again.visible) == (tokens(1, 2), 2, 2)
    assert again.ck != claim.ck
    assert (again.claimed_ms, again.recomputed_tokens, again.covered) == (claim.claimed_ms, 12, 2)


async def test_release_is_idempotent_and_fenced(redis: Redis):
    """A retried release answers as the first did and logs nothing; a foreign token releases nothing."""
    p = pool(redis)
    claim = await p.running()
    assert not await p.queue.unclaim("w1", claim.tenant, claim.id, "forged", "drain")
    assert not await p.queue.unclaim("w1", claim.tenant, claim.id, "", "drain")
    for _ in range(2):
        assert await p.queue.unclaim("w1", claim.tenant, claim.id, claim.ck, "preempt")
    assert await p.kinds(claim.tenant, claim.id) == ["queued", "running", "moved"]
    await p.claim()
    assert await p.queue.unclaim("w1", claim.tenant, claim.id, claim.ck, "preempt")
    assert await p.places(claim.tenant, claim.id) == {"run", "claims:w1"}


async def test_cancel_reaches_a_running_request_three_ways(redis: Redis):
    """By a message at once, with the answer to the next append, and with every renewal."""
    p = pool(redis)
    claim = await p.running()
    wakes = WorkerWakes(redis, p.name, "w1")
    await wakes.start()
    heard = asyncio.ensure_future(anext(aiter(wakes)))
    assert await p.queue.control(claim.tenant, claim.id, Control.CANCEL) is RequestStatus.RUNNING
    assert await soon(heard) == (claim.tenant, claim.id, Control.CANCEL)
    assert (await p.queue.append("w1", [append_to(claim, ids=(1,))]))[0].control is Control.CANCEL
    assert (await p.queue.renew("w1", 0, {})).control == [(claim.tenant, claim.id, Control.CANCEL)]
    await wakes.close()


async def test_control_of_an_unknown_or_ended_request_changes_nothing(redis: Redis):
    """An unknown id is None, and no record comes to be."""
    p = pool(redis)
    assert await p.queue.control(TENANT, uuid7(START_MS), Control.CANCEL) is None
    assert await redis.keys("*") == []


async def test_a_cancel_outlives_a_release(redis: Redis):
    """A cancelled request whose worker dies is not run again: the reaper names it at once."""
    p = pool(redis)
    claim = await p.running()
    await p.queue.control(claim.tenant, claim.id, Control.CANCEL | Control.PREEMPT)
    await p.queue.unclaim("w1", claim.tenant, claim.id, claim.ck, "lost")
    view = await p.queue.view(claim.tenant, claim.id)
    assert view is not None
    assert view.control is Control.CANCEL
    assert await p.claim() == []
    assert [(e.id, e.reason) for e in (await p.queue.reap()).expired] == [(claim.id, "cancelled")]


async def test_a_request_is_parked_while_all_its_readers_are_stuck(redis: Redis):
    """One reading gateway keeps it running; when none reads it is parked, until the first ACK."""
    p = pool(redis)
    claim = await p.running(gateway="g1")
    at = (claim.tenant, claim.id)
    await p.queue.reader(*at, "g2", "reading")
    view = await p.queue.reader(*at, "g1", "stuck")
    assert view is not None
    assert view.control == Control(0)
    view = await p.queue.reader(*at, "g2", "stuck")
    assert view is not None
    assert view.control is Control.PARK
    assert await p.queue.unclaim("w1", *at, claim.ck, "park")
    assert await p.places(*at) == {"parked"}
    view = await p.queue.reader(*at, "g2", "reading")
    assert view is not None
    assert (view.status, view.following) == (RequestStatus.QUEUED, True)
    assert await p.kinds(*at) == ["queued", "running", "parked", "resumed"]
    assert await p.places(*at) == {"line:interactive", "ids:interactive"}
    (again,) = await p.claim()
    assert (again.id, again.cn, again.epoch, again.control) == (claim.id, 2, 1, Control(0))


async def test_a_reader_that_catches_up_stops_the_parking(redis: Redis):
    """A release to park that crosses with the reader's ACK puts the request back in line instead."""
    p = pool(redis)
    claim = await p.running(gateway="g1")
    at = (claim.tenant, claim.id)
    await p.queue.reader(*at, "g1", "stuck")
    await p.queue.reader(*at, "g1", "reading")
    assert await p.queue.unclaim("w1", *at, claim.ck, "park")
    assert await p.places(*at) == {"line:interactive", "ids:interactive"}


async def test_a_request_without_a_reader_is_cancelled_when_its_sender_wants_that(redis: Redis):
    """In line it is named to be ended, a running one is cancelled at its worker; a reader keeps it."""
    p = pool(redis)
    e = request(gateway="g1", no_reader_ms=500)
    at = (e.tenant, e.id)
    await p.queue.enqueue(e)
    await p.queue.reader(*at, "g1", "gone")
    p.clock.advance(400)
    assert (await p.queue.reap()).expired == []
    await p.queue.reader(*at, "g2", "reading")
    await p.queue.reader(*at, "g2", "gone")
    p.clock.advance(200)  # since it was last read
    assert (await p.queue.reap()).expired == []
    await p.queue.reader(*at, "g2", "reading")
    p.clock.advance(400)
    found = await p.queue.reap()
    assert (found.expired, found.dead_readers) == ([], 0)
    await p.queue.reader(*at, "g2", "gone")
    p.clock.advance(500)
    assert [(x.id, x.reason) for x in (await p.queue.reap()).expired] == [(e.id, "cancelled")]

    claim = await p.running(gateway="g1", no_reader_ms=500)
    await p.queue.reader(claim.tenant, claim.id, "g1", "gone")
    p.clock.advance(500)
    await p.queue.reap()
    view = await p.queue.view(claim.tenant, claim.id)
    assert view is not None
    assert view.control is Control.CANCEL


async def test_readers_that_are_stuck_for_ten_minutes_are_none(redis: Redis):
    """A parked request goes on as bulk, or ends `slow_reader` where its sender wants no unread answer."""
    p = pool(redis)
    late = START_MS + 3_600_000
    goes_on = request(gateway="g1", deadline_ms=late)
    ends = request(gateway="g1", deadline_ms=late, no_reader_ms=1_000)
    for e in (goes_on, ends):
        await p.queue.enqueue(e)
        await p.queue.reader(e.tenant, e.id, "g1", "stuck")
        assert await p.places(e.tenant, e.id) == {"parked"}
    p.clock.advance(599_000)
    await p.queue.renew_gateway("g1")
    assert (await p.queue.reap()).expired == []
    p.clock.advance(1_000)
    await p.queue.renew_gateway("g1")
    await p.queue.reap()
    assert await p.places(goes_on.tenant, goes_on.id) == {"line:bulk", "ids:bulk"}
    p.clock.advance(1_000)
    await p.queue.renew_gateway("g1")
    assert (ends.id, "slow_reader") in [(x.id, x.reason) for x in (await p.queue.reap()).expired]


async def test_readers_that_stay_stuck_park_it_once(redis: Redis):
    """A gateway says again and again how its readers stand: that takes it out of the bulk line no more, nor
    from its worker, until one of them has read."""
    p = pool(redis)
    e = request(gateway="g1", deadline_ms=START_MS + 3_600_000)
    await p.queue.enqueue(e)
    await p.queue.reader(e.tenant, e.id, "g1", "stuck")
    p.clock.advance(600_000)
    await p.queue.renew_gateway("g1")
    await p.queue.reap()
    await p.queue.reader(e.tenant, e.id, "g1", "stuck")
    assert await p.places(e.tenant, e.id) == {"line:bulk", "ids:bulk"}
    await p.worker("w1")
    (claim,) = await p.claim()
    view = await p.queue.reader(e.tenant, e.id, "g1", "stuck")
    assert view is not None
    assert (view.status, view.control) == (RequestStatus.RUNNING, Control(0))
    await p.queue.reader(e.tenant, e.id, "g1", "reading")
    view = await p.queue.reader(e.tenant, e.id, "g1", "stuck")
    assert view is not None
    assert (claim.id, view.control) == (e.id, Control.PARK)


async def test_parking_and_unparking_twice_changes_nothing_more(redis: Redis):
    """Both are idempotent and answer the status they met."""
    p = pool(redis)
    e = request()
    await p.queue.enqueue(e)
    assert await p.queue.park(e.tenant, e.id) is RequestStatus.QUEUED
    assert await p.queue.park(e.tenant, e.id) is RequestStatus.PARKED
    assert await p.claim() == []
    assert await p.queue.unpark(e.tenant, e.id) is RequestStatus.PARKED
    assert await p.queue.unpark(e.tenant, e.id) is RequestStatus.QUEUED
    assert await p.kinds(e.tenant, e.id) == ["queued", "parked", "resumed"]
    assert await p.queue.park(TENANT, uuid7(START_MS)) is None


async def test_the_long_parked_finish_as_bulk(redis: Redis):
    """After ten minutes parked a request counts as having no reader, and continues behind everybody."""
    p = pool(redis)
    e = request(deadline_ms=START_MS + 10_000_000)
    await p.queue.enqueue(e)
    await p.queue.park(e.tenant, e.id)
    p.clock.advance(600_000)
    await p.queue.reap()
    assert await p.places(e.tenant, e.id) == {"line:bulk", "ids:bulk"}


async def test_a_request_has_at_most_eight_readers(redis: Redis):
    """Further gateways are told that they have to poll; one that leaves makes room."""
    p = pool(redis)
    e = request()
    await p.queue.enqueue(e)
    views = [await p.queue.reader(e.tenant, e.id, f"g{at}", "reading") for at in range(9)]
    assert [view.following for view in views if view] == [True] * 8 + [False]
    await p.queue.reader(e.tenant, e.id, "g0", "gone")
    view = await p.queue.reader(e.tenant, e.id, "g8", "reading")
    assert view is not None
    assert view.following
    assert await p.queue.reader(TENANT, uuid7(START_MS), "g0", "reading") is None


async def test_a_dead_workers_requests_are_requeued(redis: Redis):
    """At the end of its lease: same epoch, old place, `moved` logged once, late appends fenced."""
    p = pool(redis)
    claim = await p.running()
    at = (claim.tenant, claim.id)
    await p.queue.append("w1", [append_to(claim, ids=(1,), x="a")])
    p.clock.advance(2_999)
    assert (await p.queue.reap()).requeued == 0
    p.clock.advance(1)
    assert [(await p.queue.reap()).requeued for _ in range(2)] == [1, 0]
    assert await p.kinds(*at) == ["queued", "running", "t", "moved"]
    late = append_to(claim, ids=(2,), x="b", n0=1, o0=3)
    assert (await p.queue.append("w1", [late]))[0].code is AppendCode.FENCED
    assert not (await p.queue.renew("w1", 0, {})).alive
    assert await p.queue.workers() == []
    await p.worker("w2")
    (again,) = await p.claim("w2")
    assert (again.id, again.epoch, again.deaths, again.tokens) == (claim.id, 1, 1, tokens(1))


async def test_a_hung_engine_loses_its_lease(redis: Redis):
    """A live process whose step is too old is not renewed; a long predicted step is given more time."""
    p = pool(redis)
    await p.worker()
    assert (await p.queue.renew("w1", 2_999, {})).alive
    assert not (await p.queue.renew("w1", 3_000, {})).alive
    assert (await p.queue.renew("w1", 5_000, {"step_predicted_ms": 1_500})).alive
    assert not (await p.queue.renew("w1", 8_000, {"step_predicted_ms": 10_000})).alive


async def test_deaths_count_until_a_token_is_logged(redis: Redis):
    """Consecutive engine deaths without a new token; the fourth is the last. Planned stops do not count."""
    p = pool(redis)
    e = request()
    await p.queue.enqueue(e)
    for deaths in range(3):
        name = await p.worker(f"w{deaths}")
        (claim,) = await p.claim(name)
        assert claim.deaths == deaths
        await p.queue.deregister(name, "lost")
    await p.worker("kind")
    (claim,) = await p.claim("kind")
    await p.queue.append("kind", [append_to(claim, ids=(1,))])
    await p.queue.deregister("kind", "drain")
    for deaths in range(4):
        name = await p.worker(f"v{deaths}")
        (claim,) = await p.claim(name)
        assert claim.deaths == deaths
        await p.queue.deregister(name, "lost")
    await p.worker("last")
    assert await p.claim("last") == []
    assert [(x.id, x.reason, x.code) for x in (await p.queue.reap()).expired] == [
        (e.id, "error", "engine_lost")
    ]


async def test_a_running_request_past_its_deadline_is_taken_from_a_worker_that_does_not_end_it(
    redis: Redis,
):
    """Its worker has two seconds to end it; then the reaper takes it and names it."""
    p = pool(redis)
    claim = await p.running(deadline_ms=START_MS + 1_000)
    for pause_ms in (1_000, 2_000):
        p.clock.advance(pause_ms)
        await p.queue.renew("w1", 0, {})
        assert (await p.queue.reap()).expired == []
    p.clock.advance(1)
    assert [(x.id, x.reason) for x in (await p.queue.reap()).expired] == [(claim.id, "deadline")]
    assert await p.places(claim.tenant, claim.id) == {"line:interactive", "ids:interactive"}


async def test_without_any_worker_for_two_minutes_a_request_ends(redis: Redis):
    """A worker that is starting counts; when it never comes, the request is lost to its engine."""
    p = pool(redis)
    e = request()
    await p.queue.enqueue(e)
    p.clock.advance(100_000)
    await p.queue.starting(FINGERPRINT)
    p.clock.advance(119_999)
    assert (await p.queue.reap()).expired == []
    p.clock.advance(1)
    assert [(x.id, x.reason, x.code) for x in (await p.queue.reap()).expired] == [
        (e.id, "error", "engine_lost")
    ]


async def test_after_a_restart_of_redis_an_unconfirmed_request_gets_another_epoch(redis: Redis):
    """INV-7: Its last second may be lost: only a worker that appends to it says that nothing is."""
    p = pool(redis)
    lost, confirmed = await p.running(), await p.running()
    await p.queue.reap()
    await p.restart()
    await p.queue.reap()
    assert (await p.queue.append("w1", [append_to(confirmed, ids=(1,))]))[0].code is AppendCode.OK
    await p.queue.deregister("w1", "lost")
    await p.worker("w2")
    epochs = {claim.id: claim.epoch for claim in await p.claim("w2")}
    assert epochs == {lost.id: 2, confirmed.id: 1}
    await p.queue.deregister("w2", "drain")
    await p.worker("w3")
    assert {claim.id: claim.epoch for claim in await p.claim("w3")} == epochs


async def test_after_a_restart_of_redis_what_waited_gets_another_epoch(redis: Redis):
    """A worker may have had it in the second that was lost, and readers its text. What came later is new."""
    p = pool(redis)
    await p.worker("w1")
    await p.queue.reap()
    waited, later = request(), request()
    await p.queue.enqueue(waited)
    await p.restart()
    await p.queue.reap()
    await p.queue.enqueue(later)
    epochs = {claim.id: claim.epoch for claim in await p.claim("w1")}
    assert epochs == {waited.id: 2, later.id: 1}


async def test_nobody_can_renew_while_redis_is_away(redis: Redis):
    """A worker whose lease ended meanwhile has one more to say that it lives, and keeps what it runs."""
    p = pool(redis)
    claim = await p.running()
    await p.queue.reap()
    p.clock.advance(10_000)
    await p.restart()
    assert (await p.queue.reap()).requeued == 0
    p.clock.advance(2_999)
    assert (await p.queue.reap()).requeued == 0
    assert (await p.queue.append("w1", [append_to(claim, ids=(1,))]))[0].code is AppendCode.OK
    p.clock.advance(1)
    assert (await p.queue.reap()).requeued == 1


async def test_a_dead_gateways_readers_are_dropped(redis: Redis):
    """Its lease lapsed: nothing is published to it any more, and it is told when it comes back."""
    p = pool(redis)
    e = request(gateway="g1")
    await p.queue.enqueue(e)
    await p.queue.reader(e.tenant, e.id, "g2", "reading")
    p.clock.advance(2_000)
    assert await p.queue.renew_gateway("g2")
    p.clock.advance(1_000)
    assert [(await p.queue.reap()).dead_readers for _ in range(2)] == [1, 0]
    assert await redis.hkeys(p.key(f"rd:{e.tenant}:{e.id}")) == [b"g2"]
    assert not await p.queue.renew_gateway("g1")
    assert await p.queue.renew_gateway("g1")


async def test_events_of_the_queue_are_hinted(redis: Redis):
    """A gateway hears of `running` and `moved` without reading, each with the head it leads to."""
    p = pool(redis)
    hints = HintChannel(redis, "g1")
    await hints.follow(p.name)
    claim = await p.running(gateway="g1")
    await p.queue.unclaim("w1", claim.tenant, claim.id, claim.ck, "drain")
    heard = [await soon(anext(aiter(hints))) for _ in range(3)]
    assert [(hint.id, hint.head, [(x.o, x.k.value, x.v) for x in hint.entries]) for hint in heard] == [
        (claim.id, 1, [(1, "queued", b"")]),
        (claim.id, 2, [(2, "running", b"")]),
        (claim.id, 3, [(3, "moved", b'{"why":"drain"}')]),
    ]
    await hints.close()

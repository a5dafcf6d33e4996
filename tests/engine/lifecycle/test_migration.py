"""Moving requests between two pools of a real Valkey, and finishing the moves that others began."""

import hashlib
import itertools
from typing import Any

import pytest

from core.redis.scripts import Script
from engine.api import (
    AppendCode,
    Control,
    Enqueued,
    LogReader,
    MigratedTo,
    MigrationRefusalReason,
    MigrationRefused,
    PinnedPolicy,
    RequestStatus,
)
from tests.engine.builders import (
    START_MS,
    TENANT,
    Pool,
    append_to,
    end_entry,
    request,
    request_input,
    text,
    usage_event,
)
from tests.engine.pair_of_pools import Pair
from tests.support.redis import Redis

STEPS = ("migrate_begin", "migrate_copy", "migrate_adopt", "rebind", "migrate_finish")


def pool_of(reply: object) -> str:
    """Where a pool says that a request is now."""
    assert isinstance(reply, MigratedTo)
    return reply.pool


@pytest.fixture
def pair(redis: Redis) -> Pair:
    """Pools `a` and `b`."""
    return Pair(redis)


async def test_a_running_request_goes_on_in_the_other_pool(pair: Pair):
    """Its worker is fenced; a worker there continues behind the last token, and only that one ends it."""
    claim = await pair.running(gateway="g1")
    assert await pair.mover.migrate("a", TENANT, claim.id, "b") == MigratedTo("b")
    assert await pair.a.places(TENANT, claim.id) == set()
    (late,) = await pair.a.queue.append(
        "wa", [append_to(claim, ids=(3,), n0=2, o0=claim.o + 1, x="!", visible=3)]
    )
    assert late.code is AppendCode.FENCED
    (taken,) = await pair.b.claim("wb")
    assert (taken.id, taken.cn, taken.n, taken.o, taken.epoch, taken.visible) == (claim.id, 2, 2, 4, 1, 2)
    assert taken.tokens == (await pair.b.queue.tokens(TENANT, claim.id))
    assert taken.input == claim.input
    assert await pair.b.kinds(TENANT, claim.id) == ["queued", "running", "t", "moved"]
    event = usage_event(TENANT, claim.id)
    last = append_to(taken, ids=(3,), entries=[end_entry(5, 3)], end=event)
    assert (await pair.b.queue.append("wb", [last]))[0].code is AppendCode.ENDED
    assert [await p.client.xlen(p.key("ended")) for p in (pair.a, pair.b)] == [0, 1]
    assert await pair.bound(claim.id) == "b"


@pytest.mark.parametrize("parked", [False, True])
async def test_what_waits_keeps_its_place(pair: Pair, parked: bool):
    """A waiting request goes before what came to the other pool later; a parked one stays parked."""
    first = await pair.enqueue()
    if parked:
        await pair.a.queue.park(TENANT, first.id)
    pair.clock.advance(5)
    later = request()
    await pair.b.queue.enqueue(later)
    await pair.mover.migrate("a", TENANT, first.id, "b")
    if parked:
        assert await pair.b.places(TENANT, first.id) == {"parked"}
        await pair.b.queue.unpark(TENANT, first.id)
    assert [claim.id for claim in await pair.b.claim("wb")] == [first.id, later.id]


@pytest.mark.parametrize("known", [False, True])
async def test_a_policy_goes_with_its_request(pair: Pair, known: bool):
    """It stands in the new pool for longer than the request lives, and there no shorter than it did for
    others; one that is damaged is not passed on."""
    document = b'{"detectors":[]}'
    policy = PinnedPolicy(hashlib.sha256(document).hexdigest(), document)
    e = await pair.enqueue(policy=policy, input=request_input(policy=policy.hash))
    if known:
        await pair.b.queue.store_policy(policy)
    before = max(0, await pair.b.client.ttl(pair.b.key(f"policy:{policy.hash}")))
    await pair.mover.migrate("a", TENANT, e.id, "b")
    assert await pair.b.queue.policy(policy.hash) == document
    left = await pair.b.client.ttl(pair.b.key(f"policy:{policy.hash}"))
    assert left > max(before - 60, (e.deadline_ms - pair.clock()) // 1000 + 3500)


async def test_a_damaged_policy_stays_behind(pair: Pair):
    """Its request goes, and ends where no worker finds what it is under."""
    policy = PinnedPolicy("0" * 64, b"not of this hash")
    e = await pair.enqueue(policy=policy, input=request_input(policy=policy.hash))
    assert await pair.mover.migrate("a", TENANT, e.id, "b") == MigratedTo("b")
    assert await pair.b.queue.policy(policy.hash) is None


async def test_the_old_pool_answers_with_the_new_one(pair: Pair):
    """Whoever asks there in the next 15 minutes is told where it is: readers, cancels, parks, sends."""
    e = await pair.enqueue()
    await pair.mover.migrate("a", TENANT, e.id, "b")
    old = pair.a.queue
    told = [await old.control(TENANT, e.id, Control.CANCEL), await old.park(TENANT, e.id)]
    assert [pool_of(reply) for reply in (*told, await old.unpark(TENANT, e.id))] == ["b", "b", "b"]
    view = await old.reader(TENANT, e.id, "g1", "reading")
    assert view is not None
    assert (view.status, view.dest, view.following) == (RequestStatus.MOVED, "b", False)
    again = await old.enqueue(e)
    assert isinstance(again, Enqueued)
    assert (again.status, again.dest) == (RequestStatus.MOVED, "b")
    assert await old.unowned(TENANT, e.id) is None
    record, log = (pair.a.key(f"{kind}:{TENANT}:{e.id}") for kind in ("req", "log"))
    assert 0 < await pair.a.client.ttl(record) <= 15 * 60
    assert 0 < await pair.a.client.ttl(log) <= 60


async def test_moving_again_changes_nothing(pair: Pair):
    """The same move twice is one move."""
    e = await pair.enqueue()
    for _ in range(2):
        assert await pair.mover.migrate("a", TENANT, e.id, "b") == MigratedTo("b")
    view = await pair.b.queue.view(TENANT, e.id)
    assert view is not None
    assert view.head == 2


async def test_a_request_comes_back(pair: Pair):
    """There and back, its log one row of entries, its directory where it is; late calls of the first move are
    not taken for the second's."""
    claim = await pair.running()
    await pair.mover.migrate("a", TENANT, claim.id, "b")
    await pair.mover.migrate("b", TENANT, claim.id, "a")
    assert await pair.quota.rebind(TENANT, claim.id, "b", 1) == "a"
    assert not await pair.mover.finish("a", TENANT, claim.id)
    (taken,) = await pair.a.claim("wa")
    assert (taken.n, taken.o) == (2, 5)
    assert await pair.a.kinds(TENANT, claim.id) == ["queued", "running", "t", "moved", "moved"]
    assert await LogReader(pair.a.redis, "a").text_through(TENANT, claim.id, 5) == "ab"
    assert pool_of(await pair.b.queue.control(TENANT, claim.id, Control.CANCEL)) == "a"


@pytest.mark.parametrize(
    ("dest", "reason"),
    [
        ("a", MigrationRefusalReason.SAME_POOL),
        ("nowhere", MigrationRefusalReason.UNKNOWN_POOL),
        ("other", MigrationRefusalReason.NO_WORKER),
        ("small", MigrationRefusalReason.TOO_LARGE),
    ],
)
async def test_a_pool_that_cannot_go_on_is_refused(pair: Pair, dest: str, reason: MigrationRefusalReason):
    """The request stays in its line: its own pool, an unknown one, one of another model, one too small.
    One that just holds it takes it."""
    e = await pair.enqueue()
    await Pool(pair.a.redis, name="other").worker(fingerprint="another@1")
    await Pool(pair.a.redis, name="small").worker(kv_tokens=10 + 64 - 1)
    with pytest.raises(MigrationRefused) as refused:
        await pair.mover.migrate("a", TENANT, e.id, dest)
    assert (refused.value.reason, "--pool nowhere" in str(refused.value)) == (reason, dest == "nowhere")
    assert await pair.a.places(TENANT, e.id) == {"line:interactive", "ids:interactive"}
    await Pool(pair.a.redis, name="just").worker(kv_tokens=10 + 64)
    assert await pair.mover.migrate("a", TENANT, e.id, "just")


async def test_a_pool_that_just_holds_it_takes_it(pair: Pair):
    """Prompt and answer fill its worker to the last token."""
    e = await pair.enqueue()
    await Pool(pair.a.redis, name="enough").worker(kv_tokens=10 + 64)
    await pair.mover.migrate("a", TENANT, e.id, "enough")
    assert await pair.a.places(TENANT, e.id) == set()


async def test_what_is_over_or_elsewhere_is_refused(pair: Pair):
    """An unknown request, one that has ended, one that is in a third pool."""
    e = await pair.enqueue()
    await Pool(pair.a.redis, name="c").worker()
    await pair.mover.migrate("a", TENANT, e.id, "b")
    ended = await pair.enqueue()
    assert await pair.a.queue.finish(TENANT, ended.id, 1, [end_entry(2, 0)], usage_event(TENANT, ended.id))
    cases = [("unknown", "b", "unknown"), (ended.id, "b", "ended"), (e.id, "c", "already_moved")]
    for id, dest, reason in cases:
        with pytest.raises(MigrationRefused) as refused:
            await pair.mover.migrate("a", TENANT, id, dest)
        assert refused.value.reason == reason


async def test_a_cancel_on_the_way_is_not_lost(pair: Pair, monkeypatch: pytest.MonkeyPatch):
    """One that comes between any two steps of a move ends the request in its new pool."""
    for step in STEPS[1:]:
        e = await pair.enqueue()
        with monkeypatch.context() as patch:
            before(patch, step, lambda id=e.id: pair.a.queue.control(TENANT, id, Control.CANCEL))
            await pair.mover.migrate("a", TENANT, e.id, "b")
        due = [expired for expired in (await pair.b.queue.reap()).expired if expired.id == e.id]
        assert [expired.reason for expired in due] == ["cancelled"], step


def before(patch: pytest.MonkeyPatch, step: str, action: Any) -> None:
    """Do something right before a script of this name runs, once."""
    original, done = Script.run, list[str]()

    async def interrupted(self: Script[Any, Any], *arguments: Any) -> Any:
        if self.name == step and not done:
            done.append(step)
            await action()
        return await original(self, *arguments)

    patch.setattr(Script, "run", interrupted)


class Killed(Exception):  # noqa: N818
    """The mover dies here."""


@pytest.mark.parametrize("how", ["running", "waiting", "parked"])
@pytest.mark.parametrize(("step", "reply_lost"), list(itertools.product(STEPS, (False, True))))
async def test_the_reaper_finishes_what_a_dead_mover_began(
    pair: Pair, how: str, step: str, reply_lost: bool, monkeypatch: pytest.MonkeyPatch
):
    """Killed before or after any step: once the move has begun, the request ends up whole in the new pool."""
    id = (await pair.running()).id if how == "running" else (await pair.enqueue()).id
    if how == "parked":
        await pair.a.queue.park(TENANT, id)
    with monkeypatch.context() as patch:
        kill_at(patch, step, reply_lost)
        with pytest.raises(Killed):
            await pair.mover.migrate("a", TENANT, id, "b")
    await pair.reap()  # too early: the one who began may still be at it
    pair.clock.advance(1_001)
    for _ in range(2):
        await pair.reap()
    if (step, reply_lost) == ("migrate_begin", False):
        assert await pair.bound(id) == "a"
        return
    await is_whole_in_b(pair, id, how)


def kill_at(patch: pytest.MonkeyPatch, step: str, reply_lost: bool) -> None:
    """The mover dies at this step: before its call arrives, or before its reply does."""
    original = Script.run

    async def dying(self: Script[Any, Any], *arguments: Any) -> Any:
        if self.name != step:
            return await original(self, *arguments)
        if reply_lost:
            await original(self, *arguments)
        raise Killed

    patch.setattr(Script, "run", dying)


async def is_whole_in_b(pair: Pair, id: str, how: str) -> None:
    """Out of the first pool's sets, in one place of the second, its directory there, its log dense."""
    assert await pair.a.places(TENANT, id) == set()
    assert await pair.a.client.exists(pair.a.key("moving")) == 0
    expected = {"parked"} if how == "parked" else {"line:interactive", "ids:interactive"}
    assert await pair.b.places(TENANT, id) == expected
    assert await pair.bound(id) == "b"
    entries = await LogReader(pair.b.redis, "b").read(TENANT, id, 0, 100)
    assert [entry.o for entry in entries] == list(range(1, len(entries) + 1))
    assert [str(entry.k) for entry in entries].count("moved") == 1


async def test_late_and_doubled_calls_of_a_move_change_nothing(pair: Pair, monkeypatch: pytest.MonkeyPatch):
    """Every call of a move, made again in any order after the request ran on, ended or moved on."""
    claim = await pair.running()
    calls = list[tuple[Script[Any, Any], tuple[Any, ...]]]()
    original = Script.run

    async def recorded(self: Script[Any, Any], *arguments: Any) -> Any:
        if self.name in STEPS:
            calls.append((self, arguments))
        return await original(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(Script, "run", recorded)
        await pair.mover.migrate("a", TENANT, claim.id, "b")
    assert [script.name for script, _ in calls] == list(STEPS)
    (taken,) = await pair.b.claim("wb")
    await pair.b.queue.append("wb", [append_to(taken, ids=(3,), x="c")])
    before_ = await state(pair, claim.id)
    for order in itertools.permutations(calls):
        for script, arguments in order:
            await script.run(*arguments)
        assert await state(pair, claim.id) == before_
    await pair.mover.migrate("b", TENANT, claim.id, "a")
    back = await state(pair, claim.id)
    for script, arguments in calls:
        await script.run(*arguments)
        assert await state(pair, claim.id) == back, script.name


async def state(pair: Pair, id: str) -> Any:
    """All that both pools and the directory hold of a request."""
    kept = list[Any]()
    for p in (pair.a, pair.b):
        keys = {kind: p.key(f"{kind}:{TENANT}:{id}") for kind in ("req", "in", "tok", "log")}
        kept += [await p.client.hgetall(keys["req"]), await p.client.xrange(keys["log"])]
        kept += [await p.client.get(keys["in"]), await p.client.get(keys["tok"]), await p.places(TENANT, id)]
    return [*kept, await pair.bound(id)]


async def test_a_deadline_that_passes_on_the_way_ends_it_there(pair: Pair, monkeypatch: pytest.MonkeyPatch):
    """The new pool names it at once; the old one has nothing to say any more."""
    e = await pair.enqueue(deadline_ms=START_MS + 5_000)
    with monkeypatch.context() as patch:
        kill_at(patch, "migrate_copy", reply_lost=False)
        with pytest.raises(Killed):
            await pair.mover.migrate("a", TENANT, e.id, "b")
    pair.clock.advance(6_000)
    reaped = await pair.a.queue.reap()
    assert (reaped.expired, reaped.moves) == ([], [(TENANT, e.id)])
    assert await pair.mover.finish("a", TENANT, e.id)
    assert [(each.id, each.reason) for each in (await pair.b.queue.reap()).expired] == [(e.id, "deadline")]


async def test_what_lives_in_the_other_pool_is_never_replaced(pair: Pair):
    """Where the directory was lost and a request was taken in again elsewhere, that one goes on."""
    e = await pair.enqueue()
    await pair.b.queue.enqueue(e)
    (taken,) = await pair.b.claim("wb")
    await pair.mover.migrate("a", TENANT, e.id, "b")
    assert await pair.b.places(TENANT, e.id) == {"run", "claims:wb"}
    (answer,) = await pair.b.queue.append("wb", [append_to(taken, ids=(1,), x="a")])
    assert answer.code is AppendCode.OK
    assert pool_of(await pair.a.queue.control(TENANT, e.id, Control.CANCEL)) == "b"


async def test_a_long_log_moves_in_pages(pair: Pair, monkeypatch: pytest.MonkeyPatch):
    """No call of a move copies more than a page; two that copy at once help each other."""
    claim = await pair.running()
    for at in range(700):
        entry, shown = text(claim.o + 2 + at, "x", 2 + at, 2), 3 + at
        item = append_to(claim, n0=2, o0=claim.o + 1 + at, entries=[entry], raw=shown, visible=shown)
        assert (await pair.a.queue.append("wa", [item]))[0].code is AppendCode.OK
    ran = list[str]()
    original = Script.run

    async def counted(self: Script[Any, Any], *arguments: Any) -> Any:
        ran.append(self.name)
        if self.name == "migrate_copy" and ran.count("migrate_copy") == 2:
            monkeypatch.setattr(Script, "run", original)
            await pair.mover.finish("a", TENANT, claim.id)
            monkeypatch.setattr(Script, "run", counted)
        return await original(self, *arguments)

    monkeypatch.setattr(Script, "run", counted)
    await pair.mover.migrate("a", TENANT, claim.id, "b")
    assert ran.count("migrate_copy") >= 2
    assert await LogReader(pair.b.redis, "b").text_through(TENANT, claim.id, 10_000) == "ab" + "x" * 700


async def test_a_cancel_after_the_other_pool_has_it_is_not_lost(pair: Pair, monkeypatch: pytest.MonkeyPatch):
    """Its mover died once it had been adopted there: who finishes brings the cancel too."""
    e = await pair.enqueue()
    with monkeypatch.context() as patch:
        kill_at(patch, "migrate_adopt", reply_lost=True)
        with pytest.raises(Killed):
            await pair.mover.migrate("a", TENANT, e.id, "b")
    await pair.a.queue.control(TENANT, e.id, Control.CANCEL)
    pair.clock.advance(1_001)
    await pair.reap()
    assert await pair.b.client.hget(pair.b.key(f"req:{TENANT}:{e.id}"), "control") == b"1"

"""Any history of a pool whose requests leave for another one and come back, while movers die or call late."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from core.redis.pools import announce_pool
from core.redis.scripts import Script
from engine.api import AppendCode, Claim, Control, MigratedTo, Migrator, RequestStatus
from tests.engine.builders import Pool, append_to, end_entry, text, tokens, usage_event
from tests.engine.pool_state import pool_state
from tests.engine.queue.queue_machine import SIZE, TENANTS, WORKERS, QueueMachine
from tests.engine.tracked import Tracked, some
from tests.support.patience import LONG_TEST_SECONDS

HERE, THERE = "default", "there"
WORKER = "wt"
STEPS_MAX = 4  # move, copy, adopt, moved


class DeadMover(Exception):  # noqa: N818
    """The mover dies here."""


class MortalMover(Migrator):
    """Remembers its calls; dies before or after one of them, where told to."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.calls = list[tuple[Script[Any, Any], str, Any]]()
        self.dies_at: int | None = None
        self.reply_lost = False

    async def _run(self, script: Script[Any, Any], pool: str, call: Any) -> Any:
        dies = self.dies_at == 0
        self.dies_at = None if dies or self.dies_at is None else self.dies_at - 1
        self.calls.append((script, pool, call))
        if dies and not self.reply_lost:
            raise DeadMover
        reply = await super()._run(script, pool, call)
        if dies:
            raise DeadMover
        return reply

    async def again(self, made: tuple[Script[Any, Any], str, Any]) -> None:
        """One of its calls arrives once more."""
        await super()._run(*made)


@dataclass
class LostReply:
    """A request that left, as its old pool remembers it. `arrived`: the old pool knows that it is there."""

    m: Tracked
    left: list[str]
    place: RequestStatus
    arrived: bool
    claim: Claim | None = None


class MigrationMachine(QueueMachine):
    """The queue's machine beside a second pool. `requests` are those of the first pool."""

    def __init__(self, redis_url: str) -> None:
        super().__init__(redis_url)
        self.there = Pool(self.redis, self.pool.settings, THERE, self.pool.clock)
        self.mover = MortalMover(self.redis, self.pool.settings, self.pool.settings.keyring, self.pool.clock)
        self.away: list[LostReply] = []
        self.hops = Counter[str]()
        self.ended_there = 0

    def gone(self, data: st.DataObject, able: Callable[[LostReply], bool]) -> LostReply | None:
        """One of those that left."""
        found = [each for each in self.away if able(each)]
        return data.draw(st.sampled_from(found)) if found else None

    @precondition(some(RequestStatus.QUEUED, RequestStatus.RUNNING, RequestStatus.PARKED))
    @rule(data=st.data(), count=st.integers(1, 4))
    def move_some_away(self, data: st.DataObject, count: int) -> None:
        for _ in range(count):
            if some(RequestStatus.QUEUED, RequestStatus.RUNNING, RequestStatus.PARKED)(self):
                self.move_away(data, None, False)

    @precondition(some(RequestStatus.QUEUED, RequestStatus.RUNNING, RequestStatus.PARKED))
    @rule(data=st.data(), dies_at=st.integers(0, STEPS_MAX - 1), reply_lost=st.booleans())
    def a_mover_dies(self, data: st.DataObject, dies_at: int, reply_lost: bool) -> None:
        self.move_away(data, dies_at, reply_lost)

    def move_away(self, data: st.DataObject, dies_at: int | None, reply_lost: bool) -> None:
        m = self.pick(data, RequestStatus.QUEUED, RequestStatus.RUNNING, RequestStatus.PARKED)
        self.run(self.there.worker(WORKER))
        self.mover.dies_at, self.mover.reply_lost = dies_at, reply_lost
        try:
            assert self.run(self.mover.migrate(HERE, m.tenant, m.id, THERE)) == MigratedTo(THERE)
        except DeadMover:
            if (dies_at, reply_lost) == (0, False):
                return
        self.leave(m, dies_at is None or (dies_at, reply_lost) == (STEPS_MAX - 1, True))

    def leave(self, m: Tracked, arrived: bool) -> None:
        """It is nowhere in the first pool any more."""
        place = RequestStatus.PARKED if m.status is RequestStatus.PARKED else RequestStatus.QUEUED
        m.renew_epoch(self.incarnation)
        if m.status is RequestStatus.RUNNING:
            m.lose_owner()
            self.fair.drop_hold(m.item)
        elif m.status is RequestStatus.QUEUED:
            self.fair.leave(m.item)
        m.o += 1
        m.item.warm, m.item.fresh = "", False
        self.hops[m.id] += 1
        self.requests.remove(m)
        self.away.append(LostReply(m, [str(m.o), str(m.item.n), "", str(m.epoch)], place, arrived))

    @rule(data=st.data())
    def a_move_is_finished(self, data: st.DataObject) -> None:
        if each := self.gone(data, lambda each: not each.arrived):
            self.a_move_is_finished_for(each)

    @rule(data=st.data())
    def cancel_on_the_way(self, data: st.DataObject) -> None:
        if each := self.gone(data, lambda each: each.m.status is not RequestStatus.ENDED):
            reply = self.run(self.queue.control(each.m.tenant, each.m.id, Control.CANCEL))
            if isinstance(reply, MigratedTo) and reply.pool == THERE:
                self.run(self.there.queue.control(each.m.tenant, each.m.id, Control.CANCEL))
            else:
                assert reply is RequestStatus.MOVING or not each.arrived
            each.m.cancelled = True
            each.m.expire_now()

    @rule(count=st.integers(0, 3), x=st.text("aé", max_size=3), then=st.sampled_from(("stay", "give", "end")))
    def work_there(self, count: int, x: str, then: str) -> None:
        """The other pool's worker takes what waits, says something, and ends it or gives it back."""
        self.run(self.there.worker(WORKER))
        for claim in self.run(self.there.claim(WORKER)):
            each = next(each for each in self.away if each.m.id == claim.id)
            m = each.m
            assert not (m.item.doomed and each.arrived)  # a cancel on the way gets there last
            m.o += claim.cn == 1
            m.item.claims += 1
            assert (claim.cn, claim.epoch, claim.n, claim.o) == (m.item.claims, m.epoch, m.item.n, m.o)
            assert (claim.tokens, claim.visible) == (tokens(*m.ids), len(m.text))
            self.say(each, claim, count, x, then)

    def say(self, each: LostReply, claim: Claim, count: int, x: str, then: str) -> None:
        m = each.m
        ends, n, shown = then == "end", m.item.n + count, len(m.text) + len(x)
        entries = [text(m.o + 1, x, len(m.text), n)] if x else []
        entries += [end_entry(m.o + len(entries) + 1, n)] if ends else []
        ids, event = tuple(range(m.item.n, n)), usage_event(m.tenant, m.id) if ends else None
        item = append_to(claim, ids=ids, entries=entries, raw=shown, visible=shown, end=event)
        (answer,) = self.run(self.there.queue.append(WORKER, [item]))
        assert answer.code is (AppendCode.ENDED if ends else AppendCode.OK)
        m.item.n, m.text, m.o = n, m.text + x, m.o + len(entries)
        m.item.deaths = 0 if count else m.item.deaths
        each.claim = None if ends else claim
        self.ended_there += ends
        each.place = RequestStatus.ENDED if ends else RequestStatus.RUNNING
        m.status = RequestStatus.ENDED if ends else m.status
        if then == "give":
            assert self.run(self.there.queue.unclaim(WORKER, m.tenant, m.id, claim.ck, "drain"))
            each.place, each.claim = RequestStatus.QUEUED, None
            m.o += 1

    @rule(data=st.data())
    def move_back(self, data: st.DataObject) -> None:
        each = self.gone(data, lambda each: each.arrived and each.place is not RequestStatus.ENDED)
        if each is None:
            return
        m = each.m
        self.start_or_renew(WORKERS[0])
        self.run(announce_pool(self.redis, self.pool.settings, HERE))  # as its supervisor does
        assert self.run(self.mover.migrate(THERE, m.tenant, m.id, HERE)) == MigratedTo(HERE)
        self.away.remove(each)
        self.hops[m.id] += 1
        m.o += 1
        m.status = RequestStatus.PARKED if each.place is RequestStatus.PARKED else RequestStatus.QUEUED
        m.incarnation = self.incarnation
        m.item.large = m.item.need > SIZE / 4
        m.item.control &= Control.CANCEL
        m.expire_now()
        self.requests.append(m)
        self.requests.sort(key=lambda other: other.item.order)
        if m.status is RequestStatus.QUEUED:
            self.fair.enter(m.item)

    @rule(data=st.data())
    def a_call_comes_late(self, data: st.DataObject) -> None:
        """Where its move is over it changes nothing; where it is not, it may."""
        if not self.mover.calls:
            return
        call = data.draw(st.sampled_from(self.mover.calls))
        id, hop = call[2].id, call[2].hop
        waiting = [m for m in self.requests if m.id == id and m.status is not RequestStatus.ENDED]
        if call[0].name == "migrate_begin" and call[1] == HERE and waiting and hop == self.hops[id] + 1:
            self.run(self.mover.again(call))  # sent by a mover that died, and arrives only now
            self.leave(waiting[0], False)
            return
        under_way = [each for each in self.away if not each.arrived and each.m.id == id]
        before = None if under_way else self.run(self.both())
        self.run(self.mover.again(call))
        if under_way and call[0].name == "migrate_finish":
            self.a_move_is_finished_for(under_way[0])
        if before is not None:
            assert self.run(self.both()) == before, call[0].name

    def a_move_is_finished_for(self, each: LostReply) -> None:
        self.run(self.mover.finish(HERE, each.m.tenant, each.m.id))
        each.arrived = True
        view = self.run(self.there.queue.view(each.m.tenant, each.m.id))
        assert view is not None
        assert view.ended or (Control.CANCEL in view.control) is each.m.cancelled

    @rule(data=st.data())
    def a_fenced_owner_appends(self, data: st.DataObject) -> None:
        """Whoever had it in the first pool can write no more, wherever it is."""
        each = self.gone(data, lambda each: bool(each.m.dead))
        if each is None:
            return
        for claim in each.m.dead:
            item = append_to(claim, ids=(9,), n0=each.m.item.n, o0=int(each.left[0]), x="!")
            assert self.run(self.queue.append("w1", [item]))[0].code is AppendCode.FENCED

    async def both(self) -> list[dict[str, Any]]:
        """All that the two pools hold."""
        names = [(m.tenant, m.id) for m in [*self.requests, *(each.m for each in self.away)]]
        here = await pool_state(self.pool, TENANTS, WORKERS, names)
        return [here, await pool_state(self.there, TENANTS, [WORKER], names)]

    @invariant()
    def what_left_is_in_one_place(self) -> None:
        names = [(each.m.tenant, each.m.id) for each in self.away]
        here = self.run(pool_state(self.pool, [], [], names))
        there = self.run(pool_state(self.there, TENANTS, [WORKER], names))
        assert there["ended"] == self.ended_there
        for each in self.away:
            at, m = f"{each.m.tenant}:{each.m.id}", each.m
            status, *record = here[f"req:{at}"]
            o, n, worker, epoch = each.left
            assert record == [o, n, worker, epoch]
            assert status == ("moved" if each.arrived else "moving")
            assert here[f"tok:{at}"] == (b"" if each.arrived else tokens(*range(int(n))))
            if each.arrived:
                held = WORKER if each.place is RequestStatus.RUNNING else ""
                assert there[f"req:{at}"] == [each.place.value, str(m.o), str(m.item.n), held, str(m.epoch)]
                assert there[f"log:{at}"] == (list(range(1, m.o + 1)), m.text)
                ended = each.place is RequestStatus.ENDED
                assert there[f"tok:{at}"] == (b"" if ended else tokens(*m.ids))
                expected = {"place": {each.place.value}, "ended": set[str]()}["ended" if ended else "place"]
                assert places_in(there, m.tenant, m.id) == expected
        moving: list[bytes] = self.run(self.pool.client.zrange(self.pool.key("moving"), 0, -1))
        assert {name.decode() for name in moving} == {
            f"{each.m.tenant}:{each.m.id}" for each in self.away if not each.arrived
        }


def places_in(state: dict[str, Any], tenant: str, id: str) -> set[str]:
    """Where a pool has the request."""
    member, found = f"{tenant}:{id}", set[str]()
    if any(member in names for key, names in state.items() if key.startswith("age:")):
        found.add("queued")
    if member in state["parked"]:
        found.add("parked")
    if id in state[f"run:{tenant}"] and member in state[f"claims:{WORKER}"]:
        found.add("running")
    return found


@pytest.mark.timeout(LONG_TEST_SECONDS)  # a failure is shrunk before it is shown
def test_any_history_of_two_pools_agrees_with_the_model(redis_url: str):
    """INV-21: A request is in one place of one pool or on its way; its log is dense, its tokens exact; one
    end."""
    run_state_machine_as_test(
        cast(type[RuleBasedStateMachine], partial(MigrationMachine, redis_url)),
        settings=settings(
            max_examples=25,
            stateful_step_count=60,
        ),
    )

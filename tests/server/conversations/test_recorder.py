"""What a recorder makes of the ends of requests. Its pool, its log and its tables are words."""

import asyncio
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from redis.exceptions import ConnectionError as GoneError
from redis.exceptions import ResponseError
from structlog.testing import capture_logs

from core.configuration.settings import Settings
from engine.api import DamagedLogError, Entry, EntryKind, RequestStatus
from server.conversations import recorder as module
from server.conversations.recorder import PoolRecorders
from server.conversations.store import RecordedAnswer
from server.protocol.flags import EndSafety, LoggedFlag
from tests.server.pool_words import PoolWordsLog, Queue, World, entry, event, fields, row, view
from tests.server.virtual.loop import passed, passing, played
from tests.support.watch import BEGAN_MS, StubClock

LOST_MS = 60_000
USAGE = {"input": 0, "cached_input": 0, "output": 0, "total": 0}
TIMING = {"queue_ms": 0, "ttft_ms": 0, "total_ms": 0}


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, watch: StubClock) -> World:
    """In place of Redis and SQL."""
    made = World()
    for name, stub in (
        ("PoolQueue", Queue),
        ("LogReader", PoolWordsLog),
        ("admissions_of", made.admissions_of),
        ("Quota", lambda *_, **__: made),
        ("is_erased", made.is_erased),
    ):
        monkeypatch.setattr(module, name, stub)
    return made


LOST = RecordedAnswer("", "error", "log_lost", USAGE, TIMING, 0, 5, 6, BEGAN_MS)
RECORDED = RecordedAnswer("hi", "stop", "", {"input": 1}, {"total_ms": 2}, 3, 4, 7, BEGAN_MS, [])


async def test_each_end_is_recorded_and_acknowledged_once(world: World):
    """What a dead gateway had read comes first; what cannot be read holds up nothing and is said."""
    for request in ("r1", "r2"):
        world.views["default", request] = view()
    world.taken = [(b"1-0", fields(event("r1"))), (b"2-0", None)]
    world.new = [[b"{p:default}ended", [(b"3-0", fields(event("r2"))), (b"4-0", {b"e": b"?"})]]]
    with capture_logs() as logs:
        await world.recorder()._step()
    assert world.did == [
        ("take", "{p:default}ended", "recorder", "gw", 30_000, 50),
        ("read", "recorder", "gw", {"{p:default}ended": ">"}, 50, 1_000),
        *of_one("r1"),
        *([("ack", "{p:default}ended", "recorder", id) for id in (b"1-0", b"2-0")]),
        *of_one("r2"),
        *([("ack", "{p:default}ended", "recorder", id) for id in (b"3-0", b"4-0")]),
    ]
    assert world.answers == [RECORDED] * 2
    assert [each["stream_id"] for each in logs] == ["2-0", "4-0"]


def of_one(request: str) -> list[tuple[Any, ...]]:
    """What is done of a request."""
    return [
        ("view", "default", request),
        ("tail", "t1", request, 6, 1),
        ("text", "t1", request, 7),
        ("record", "t1", request),
        ("expire", "default", "t1", request, 99),
    ]


@pytest.mark.parametrize("reply", [None, [], {}, {b"s": [[(b"3-0", fields(event("r1", "")))], []]}])
async def test_streams_come_as_lists_and_as_maps(world: World, reply: Any):
    """As redis-py answers in RESP3; nothing new is nothing."""
    world.new = reply
    await world.recorder()._step()
    assert [each[3] for each in world.asked("ack")] == ([b"3-0"] if reply else [])


@pytest.mark.parametrize(
    ("known", "conversation", "problem", "kinds"),
    [
        (False, "c1", "", ["view"]),
        (True, "", "", ["view", "expire"]),
        (True, "c1", "no seal", ["view", "directory", "rows", "expire"]),
        (True, "c1", "", ["view", "tail", "text", "record", "expire"]),
    ],
)
async def test_what_is_recorded(world: World, known: bool, conversation: str, problem: str, kinds: list[str]):
    """What a gateway admitted, of a conversation; what is not keeps its log no longer either."""
    if known:
        world.views["default", "r1"] = view()
    world.problem = problem
    with capture_logs() as logs:
        await world.recorder()._record_if_readable(event("r1", conversation))
    assert [each[0] for each in world.did] == kinds
    assert [each["problem"] for each in logs] == ([problem] if problem else [])


@pytest.mark.parametrize(("rows", "seconds"), [(True, 99), (False, 0)], ids=["recorded before", "erased"])
async def test_an_answer_without_rows_leaves_redis_with_its_end(world: World, rows: bool, seconds: int):
    """It was erased, or its conversation purged, while it ran: nobody may read its log."""
    world.views["default", "r1"] = view()
    world.known, world.rows = False, rows
    await world.recorder()._record_if_readable(event("r1"))
    assert world.did[-2:] == [("rows", "t1", "r1"), ("expire", "default", "t1", "r1", seconds)]


@pytest.mark.parametrize(("erased", "seconds"), [(False, 99), (True, 0)])
async def test_the_log_of_who_was_erased_leaves_redis_with_its_end(world: World, erased: bool, seconds: int):
    """Of a request in no conversation: erasing finds no row of one that a worker hid, and it ends later."""
    world.views["default", "r1"] = view()
    world.erased = erased
    await world.recorder()._record_if_readable(event("r1", ""))
    assert world.asked("expire") == [("expire", "default", "t1", "r1", seconds)]


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (ValueError("x"), False),
        (ResponseError("ERR x"), False),
        (ResponseError("MISCONF x"), True),
        (GoneError("x"), True),
        (OSError("x"), True),
    ],
)
async def test_an_end_that_cannot_be_recorded_holds_up_no_other(world: World, error: Exception, raised: bool):
    """A store that does not answer holds up all: nothing is acknowledged."""
    world.taken, world.error = [(b"1-0", fields(event("r1")))], error
    if raised:
        with pytest.raises(type(error)):
            await world.recorder()._step()
    else:
        await world.recorder()._step()
    assert len(world.asked("ack")) == (0 if raised else 1)


@pytest.mark.parametrize(
    ("tail", "text", "shown", "answer"),
    [
        ([entry()], "hi", view(), RECORDED),
        ([entry(code="x")], "hi", view(), replace(RECORDED, code="x")),
        ([], "hi", view(), None),
        ([Entry(7, EntryKind.TEXT, x="hi")], "hi", view(), None),
        ([Entry(7, EntryKind.END, v=b"[]")], "hi", view(), LOST),
        ([entry()], DamagedLogError("x"), view(), LOST),
        ([entry()], "a\0b", view(), LOST),
        ([entry(reason="\0")], "hi", view(), LOST),
        ([entry(code="\0")], "hi", view(), LOST),
        ([entry(safety={"category": "a key", "scope": "tenant"})], "hi", view(), LOST),
        ([entry()], "hi", view(epoch=-1), LOST),
        ([entry()], "hi", view(epoch=0), replace(RECORDED, epoch=0)),
        ([entry()], "hi", view(epoch=(1 << 31) - 1), replace(RECORDED, epoch=(1 << 31) - 1)),
        ([entry()], "hi", view(epoch=1 << 31), LOST),
        ([entry()], "hi", view(head=1 << 31), LOST),
    ],
)
async def test_an_answer_is_what_its_log_says(
    world: World, tail: list[Entry], text: str | Exception, shown: Any, answer: RecordedAnswer | None
):
    """Nothing where the log goes on; lost where no database holds it, and where it is damaged."""
    world.tail, world.text, world.row = tail, text, row()
    await world.recorder()._record("t1", "r1", shown)
    assert world.answers == ([] if answer is None else [answer])


async def test_what_safety_marked_is_recorded_with_the_text(world: World):
    """Flags as they stand in the text at its end: a retract takes those that reach beyond its position, and
    one that no text holds, or that is none, is left out. Of a block, what and whose policy it was."""
    kept, cut = LoggedFlag("email", "redact", "platform", 1, 3), LoggedFlag("card", "redact", "tenant", 3, 3)
    last, beyond = LoggedFlag("phone", "flag", "project", 4, 2), LoggedFlag("phone", "flag", "project", 5, 2)
    world.before = [Entry(1, EntryKind.TEXT, x="abcdef"), flagged(kept), flagged(cut)]
    world.before += [Entry(4, EntryKind.RETRACT, p=4)]
    world.text = "gh"
    odd = Entry(8, EntryKind.FLAGGED, v=b'{"category":"email","p":0}')
    world.flagged = [odd, flagged(last), flagged(beyond)]
    safety = {"category": "private_key", "scope": "tenant"}
    world.tail = [entry(reason="blocked", code="safety_blocked", safety=safety)]
    await world.recorder()._record("t1", "r1", view())
    (answer,) = world.answers
    assert (answer.text, answer.flags) == ("abcdgh", [kept, last])
    assert (answer.reason, answer.safety) == ("blocked", EndSafety("private_key", "tenant"))


def flagged(flag: LoggedFlag) -> Entry:
    """A worker's entry of it."""
    return Entry(5, EntryKind.FLAGGED, v=msgspec.json.encode(flag))


async def test_a_damaged_log_of_no_row_is_nothing(world: World):
    """Whoever deleted the conversation wants nothing of it."""
    world.text = DamagedLogError("x")
    await world.recorder()._record("t1", "r1", view())
    assert world.answers == []


async def test_catching_up_looks_among_the_newest(world: World):
    """For an event of just this request, which a gateway admitted."""
    other = msgspec.structs.replace(event("r1"), tenant="t2")
    world.newest = [(b"4-0", {}), (b"3-0", fields(other)), (b"2-0", fields(event("r2")))]
    await world.recorder().catch_up("t1", "r1", view())
    assert world.did == [("newest", "{p:default}ended", 200)]
    world.newest += [(b"1-0", fields(event("r1")))] * 2
    world.problem = "no seal"
    await world.recorder().catch_up("t1", "r1", view())
    assert world.answers == []
    world.problem = ""
    await world.recorder().catch_up("t1", "r1", view())
    assert world.answers == [RECORDED]


@pytest.mark.parametrize("conversation", ["c1", ""])
@pytest.mark.parametrize(
    ("status", "admitted_to", "withheld"),
    [
        (RequestStatus.ENDED, "default", True),
        (RequestStatus.RUNNING, "default", False),
        (RequestStatus.ENDED, "big", False),
        (RequestStatus.ENDED, None, False),
    ],
)
async def test_an_end_of_another_admission_is_stored_without_its_text(
    world: World, conversation: str, status: RequestStatus, admitted_to: str | None, withheld: bool
):
    """Where it was admitted to this pool, and has ended: by the recorder, and by the next turn before it."""
    world.problem, world.admitted_to, world.row = "no seal", admitted_to, row()
    world.views["default", "r1"] = view(status)
    world.newest = [(b"1-0", fields(event("r1", conversation)))]
    await world.recorder()._record_if_readable(event("r1", conversation))
    assert world.answers == [replace(LOST, code="internal")] * withheld
    world.answers.clear()
    await world.recorder().catch_up("t1", "r1", view(status))
    assert world.answers == [replace(LOST, code="internal")] * withheld


@pytest.mark.parametrize(
    ("found", "age_ms", "answers"),
    [
        (view(), 0, [RECORDED]),
        (view(RequestStatus.RUNNING), LOST_MS + 1, []),
        (None, LOST_MS + 1, [LOST]),
        (None, LOST_MS, []),
    ],
)
async def test_the_next_turn_may_come(world: World, found: Any, age_ms: int, answers: list[RecordedAnswer]):
    """Once the last has ended, or nobody has known of it for a minute."""
    await world.recorders().catch_up("t1", "c1")
    assert world.did == []
    world.row, world.newest = row(BEGAN_MS - age_ms), [(b"1-0", fields(event("r1")))]
    if found is not None:
        world.views["default", "r1"] = found
    await world.recorders().catch_up("t1", "c1")
    assert world.answers == answers


@pytest.mark.parametrize(
    ("has_row", "found", "known", "gone"),
    [
        (False, None, True, False),
        (True, view(RequestStatus.RUNNING), True, False),
        (True, None, True, True),
        (True, None, False, False),
    ],
)
async def test_what_no_pool_knows_is_given_up(
    world: World, has_row: bool, found: Any, known: bool, gone: bool
):
    """Not what a pool has, and what nothing is stored of."""
    world.row, world.known = row() if has_row else None, known
    if found is not None:
        world.views["default", "r1"] = found
    assert await world.recorders().give_up("t1", "r1") == gone
    assert world.answers == ([LOST] if has_row and found is None else [])


async def test_a_request_is_found_where_it_went(world: World):
    """Eight pools on at the most; of the pools that are served the first that has it."""
    world.views = {(f"p{at}", "r1"): view(RequestStatus.MOVED, f"p{at + 1}") for at in range(9)}
    world.views["p9", "r1"] = view(RequestStatus.RUNNING)
    found = [await world.recorders(pool)._find("t1", "r1") for pool in ("p0", "p1", "p9", "p10")]
    assert [each and each[1].status for each in found] == [
        RequestStatus.MOVED,
        RequestStatus.RUNNING,
        RequestStatus.RUNNING,
        None,
    ]
    at, _ = found[1] or (None, None)
    assert at is not None
    assert at._queue.pool == "p9"
    world.did.clear()
    world.views["p1", "r1"] = view(RequestStatus.MOVED, "nowhere")
    assert await world.recorders("p1", "p9")._find("t1", "r1") is not None
    assert [each[1] for each in world.did] == ["default", "p1", "nowhere", "p9"]


@pytest.mark.parametrize(
    ("error", "reached"), [(ResponseError("ERR x"), ["last"]), (ResponseError("MISCONF x"), [])]
)
async def test_every_pool_forgets(world: World, error: Exception, reached: list[str]):
    """One whose keys are spoiled keeps no other from it, and is told; one that is unwell ends it."""
    await world.recorders("a").forget("t1", "r1")
    assert world.did == [("expire", pool, "t1", "r1", 0) for pool in ("default", "a")]
    world.did.clear()
    world.broken["default"] = error
    with pytest.raises(ResponseError, match=str(error)):
        await world.recorders("last").forget("t1", "r1")
    assert [each[1] for each in world.did] == reached


def test_how_long_a_pool_may_know_a_request(world: World):
    """Its longest deadline, and what keeps a log that nobody recorded."""
    made: Any = world
    settings = Settings(deadline_bulk_ms=7_000_000, unrecorded_log_keep_seconds=900)
    assert PoolRecorders(made, settings, made, "gw").known_ms == 7_900_000


def test_it_goes_on_whatever_happens(monkeypatch: pytest.MonkeyPatch):
    """A second later; a group that is there already is no failure."""
    began = list[float]()

    async def day(error: Exception) -> list[str]:
        world = World()
        monkeypatch.setattr(module, "PoolQueue", Queue)
        made = world.recorder()

        async def step() -> None:
            began.append(passed())
            await passing(10)
            raise OSError if len(began) < 2 else ValueError

        monkeypatch.setattr(made, "_step", step)
        world.group_error = error
        running = asyncio.create_task(made.run())
        with capture_logs() as logs:
            await passing(21.5)
        running.cancel()
        assert world.asked("group")[0] == ("group", "{p:default}ended", "recorder", "0", True)
        return [each["event"] for each in logs]

    assert played(day(ResponseError("BUSYGROUP there is one"))) == ["recorder.run_failed"] * 2
    assert began == [0, 11]
    began.clear()
    assert played(day(ResponseError("ERR x"))) == ["recorder.run_failed"] * 22
    assert began == []

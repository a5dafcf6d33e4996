"""What each frame does to an answer that the Python client reads."""

from typing import Any

import pytest

from parley_client.answer import (
    Counters,
    Ended,
    FrameOrder,
    OpenAnswer,
    ProtocolError,
    Reset,
    SafetyBlock,
    SafetyFlag,
    Standing,
    Status,
    Text,
    TextTakenBack,
    Trace,
    Usage,
)
from tests.clients.python.frames import USAGE, delta, end

FLAG: dict[str, Any] = {"category": "card", "action": "redact", "scope": "tenant", "p": 3, "n": 8}


def bound(traced: bool = False) -> OpenAnswer:
    """One that the server took."""
    reading = OpenAnswer("r", {"t": "send"}, traced)
    reading.bind({"g": 1, "epoch": 4})
    return reading


def applied(reading: OpenAnswer, *frames: dict[str, Any]) -> list[Any]:
    """The events of frames that come in order."""
    assert [reading.take(frame) for frame in frames] == [FrameOrder.NEXT] * len(frames)
    return [reading.apply()[1] for _ in frames]


def test_a_new_one_has_nothing():
    """It is being sent."""
    reading = OpenAnswer("r", None)
    assert (reading.id, reading.message, reading.accepted, reading.g, reading.epoch) == (
        "r",
        None,
        False,
        None,
        None,
    )
    assert (reading.applied, reading.text, reading.tokens, reading.standing) == (0, "", 0, Standing.SENDING)
    assert (reading.moved_because, reading.paused, reading.cancelling, reading.ended) == (
        None,
        False,
        False,
        None,
    )
    assert (reading.error, reading.waiting) == (None, False)
    reading.notify()
    assert Counters() == Counters(0, 0, 0, 0, 0, 0, 0, 0)


@pytest.mark.parametrize(
    ("frame", "order"),
    [
        (delta(3, 4, "c", 2), FrameOrder.NEXT),
        (delta(2, 4, "c", 2), FrameOrder.GAP),
        (delta(1, 2, "ab", 0), FrameOrder.STALE),
        (delta(2, 2, "b", 1), FrameOrder.STALE),
        (delta(4, 4, "d", 3), FrameOrder.GAP),
        ({"t": "event", "k": "running", "o": 3}, FrameOrder.NEXT),
        ({"t": "event", "k": "running", "o": 2}, FrameOrder.STALE),
        ({"t": "event", "k": "running", "o": 4}, FrameOrder.GAP),
        ({"t": "event", "k": "paused"}, FrameOrder.NEXT),
        ({"t": "snap", "o": 9, "x": "", "epoch": 2}, FrameOrder.NEXT),
        ({"t": "retract", "o": 9, "p": 0}, FrameOrder.NEXT),
        (end(3, "ab"), FrameOrder.NEXT),
        (end(5, "ab"), FrameOrder.GAP),
    ],
)
def test_frames_are_kept_in_the_order_of_the_log(frame: dict[str, Any], order: FrameOrder):
    """What comes again is stale and what leaves something out a gap; a snap says where the log is now."""
    reading = bound()
    applied(reading, delta(1, 2, "ab", 0))
    assert reading.take(frame) is order
    assert reading.waiting is (order is FrameOrder.NEXT)


def test_what_arrives_counts_before_it_is_applied():
    """Until it is forgotten: then reading goes on at what was applied."""
    reading = bound()
    for number in (1, 2, 3):
        assert reading.take(delta(number, number, "x", number - 1)) is FrameOrder.NEXT
    reading.apply()
    assert reading.take(delta(2, 2, "x", 1)) is FrameOrder.STALE
    assert reading.take({"t": "snap", "o": 8, "x": "", "epoch": 2}) is FrameOrder.NEXT
    assert reading.take(delta(9, 9, "x", 0)) is FrameOrder.NEXT
    reading.forget_arrived()
    assert (reading.waiting, reading.applied) == (False, 1)
    assert reading.take(delta(2, 2, "x", 1)) is FrameOrder.NEXT


def test_an_answer_is_read_to_its_end():
    """Text, where it stands, tokens, cost and whether the text has its hash."""
    reading = bound()
    assert (reading.accepted, reading.g, reading.epoch, reading.standing) == (True, 1, 4, Standing.QUEUED)
    cost = {"nano": 7, "currency": "USD"}
    events = applied(
        reading,
        {"t": "event", "k": "running", "o": 1, "v": "w1"},
        delta(2, 3, "He", 0, i=2),
        delta(4, 4, "llo", 2),
        end(5, "Hello", code="c", cost=cost, timing={"total_ms": 9}),
    )
    ended = Ended("stop", "c", Usage(3, 1, 2, 5), 7, "USD", {"total_ms": 9}, verified=True)
    assert events == [Status("running", "w1"), Text("He"), Text("llo"), ended]
    assert (reading.text, reading.tokens, reading.applied, reading.ended) == ("Hello", 2, 5, ended)
    assert (reading.standing, reading.waiting) == (Standing.ENDED, False)


def test_what_safety_marked_and_blocked_is_told():
    """A flag as an event where it stands in the log, and with the text; fields that are new are left out."""
    reading = bound()
    events = applied(
        reading,
        delta(1, 1, "at [CARD_1]", 0),
        {"t": "event", "k": "flagged", "o": 2, "v": FLAG | {"new": 1}},
        end(3, "at [CARD_1]", reason="blocked", safety={"category": "email", "scope": "platform", "new": 1}),
    )
    assert (events[1].kind, events[1].detail) == ("flagged", FLAG | {"new": 1})
    assert reading.flags == [SafetyFlag("card", "redact", "tenant", 3, 8)]
    assert events[2].safety == SafetyBlock("email", "platform")


def test_amounts_that_are_not_told_are_none():
    """Where the tenant does not show them."""
    usage = {name: count for name, count in USAGE.items() if name != "cached_input"}
    untraced = OpenAnswer("r", None)
    (ended,) = applied(untraced, end(1, "", usage=usage))
    assert ended.trace is None
    assert (ended.usage.cached_input, ended.cost_nano, ended.currency, ended.code) == (None, None, None, None)


def test_a_snap_and_a_retract_replace_the_text():
    """A snap brings another epoch, too; what was applied is as far as it says."""
    reading = bound()
    events = applied(
        reading,
        delta(1, 3, "abc", 0),
        {"t": "retract", "o": 4, "p": 1},
        {"t": "snap", "o": 9, "x": "xyz", "epoch": 5},
        delta(10, 10, "!", 3),
    )
    assert events == [Text("abc"), Reset("a"), Reset("xyz"), Text("!")]
    assert (reading.text, reading.applied, reading.epoch) == ("xyz!", 10, 5)
    assert reading.standing is Standing.RUNNING


def test_what_does_not_fit_is_read_again_once():
    """From 0; a second time it is taken as it is, and its hash says so."""
    reading = bound()
    applied(reading, delta(1, 1, "ab", 0, i=3))
    reading.take(delta(2, 2, "c", 1))
    reading.take(delta(3, 3, "d", 2))
    assert reading.apply()[1] is None
    assert (reading.text, reading.applied, reading.tokens, reading.waiting) == ("", 0, 0, False)
    events = applied(reading, delta(1, 1, "ab", 0), delta(2, 2, "c", 9), end(3, "abX"))
    assert events[:2] == [Text("ab"), Text("c")]
    assert (events[2].verified, reading.text) == (False, "abc")


def test_a_wrong_hash_is_read_again_once():
    """The second time the answer ends, not verified."""
    reading = bound()
    applied(reading, delta(1, 1, "ab", 0))
    reading.take(end(2, "xx"))
    assert reading.apply()[1] is None
    assert (reading.text, reading.applied, reading.ended) == ("", 0, None)
    *_, ended = applied(reading, delta(1, 1, "ab", 0), end(2, "xx"))
    assert (ended.verified, reading.standing, reading.ended) == (False, Standing.ENDED, ended)


@pytest.mark.parametrize(
    ("state", "standing"),
    [
        ("running", "running"),
        ("parked", "parked"),
        ("queued", "queued"),
        (None, "queued"),
        ("ended", "queued"),
    ],
)
def test_a_welcome_says_where_it_stands(state: str | None, standing: str):
    """As long as nothing better is known; of the epoch the first word counts; whoever waits is told."""
    told = list[int]()
    reading = OpenAnswer("r", None)
    reading.notify = lambda: told.append(1)
    reading.paused = True
    reading.bind({"g": 2, "epoch": 6} | ({} if state is None else {"state": state}))
    assert (reading.standing, reading.g, reading.epoch, reading.paused) == (Standing(standing), 2, 6, False)
    reading.bind({"g": 3, "epoch": 7, "state": "parked"})
    assert (reading.standing, reading.g, reading.epoch) == (Standing(standing), 3, 6)
    assert told == [1, 1]


def test_events_say_where_it_stands():
    """And why it moved; one of this connection alone is applied without moving on in the log."""
    reading = bound()
    seen = list[tuple[str, bool]]()
    for number, kind in enumerate(("running", "parked", "resumed", "moved", "queued", "flagged"), 1):
        applied(reading, {"t": "event", "k": kind, "o": number, "v": {"why": "drain"} | FLAG})
        seen.append((reading.standing, reading.moved_because == "drain"))
    assert seen == [
        ("running", False),
        ("parked", False),
        ("resumed", False),
        ("moved", True),
        ("queued", True),
        ("queued", True),
    ]
    reading.take({"t": "event", "k": "paused"})
    assert reading.paused  # before it is read: who is paused does not read
    assert (reading.apply()[1], reading.applied) == (Status("paused"), 6)
    reading.take({"t": "event", "k": "elsewhere"})
    assert reading.paused
    reading.take({"t": "event", "k": "unpaused"})
    assert not reading.paused
    reading.take({"t": "event", "k": "moved", "o": 7, "v": "old"})
    for _ in range(3):
        reading.apply()
    assert (reading.moved_because, reading.standing) == ("drain", Standing.MOVED)


def test_an_end_and_a_failure_are_told_to_whoever_waits():
    """Neither is paused or being cancelled any more."""
    for fails in (True, False):
        told = list[int]()
        reading = bound()
        reading.paused = reading.cancelling = True
        reading.notify = lambda: told.append(1)  # noqa: B023
        if fails:
            reading.fail(ProtocolError({"code": "x", "message": "y"}))
            assert (reading.standing, told, str(reading.error)) == (Standing.FAILED, [1], "x: y")
        else:
            applied(reading, end(1, ""))
        assert (reading.paused, reading.cancelling) == (False, False)


def test_a_trace_says_where_text_is_from():
    """Only to who asked for it."""
    reading = bound(traced=True)
    events = applied(
        reading,
        delta(1, 2, "ab", 0, i=2, batch=4, ms=20),
        {"t": "snap", "o": 3, "x": "ab", "epoch": 1},
        end(4, "ab"),
    )
    assert [each.trace for each in events] == [
        Trace("r", 1, 2, 2, False, 4, 20),
        Trace("r", 3, 3, 2, False, None, None),
        Trace("r", 4, 4, 2, True, None, None),
    ]


def test_an_error_has_all_that_the_server_says():
    """What it leaves out is not known; whether to retry is no."""
    facts: dict[str, Any] = {
        "after_ms": 1,
        "scope": "user",
        "limit": 2,
        "dimension": "cost",
        "remaining": 3,
        "spent": 4,
        "held": 5,
        "resets_at_ms": 6,
    }
    error = ProtocolError({"code": "c", "message": "m", "retry": True, **facts})
    assert {name: getattr(error, name) for name in facts} == facts
    assert (error.code, error.message, error.retry) == ("c", "m", True)
    bare = ProtocolError({"code": "c", "message": "m"})
    assert ({getattr(bare, name) for name in facts}, bare.retry) == ({None}, False)
    taken = TextTakenBack("t")
    assert (taken.text, "read events()" in str(taken)) == ("t", True)

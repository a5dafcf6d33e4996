"""An entry of an answer's log that a worker wrote and that is none, in a live stream: the reading of that
answer ends with a typed error, and the connection's other answers go on."""

# A line of a play is an expression for its effect.
# pyright: reportUnusedExpression=false

import msgspec
import pytest

from engine.api import Entry, EntryKind
from engine.queue.notifications import _hints  # pyright: ignore[reportPrivateUsage]
from engine.queue.request_log import DamagedLogError, entry_of
from server.protocol import messages as m
from server.protocol.codes import ErrorCode
from server.session import effects as fx
from server.session import events as ev
from server.session.events import ReadableRequest
from server.session.machine import SessionState
from tests.server.playbook import Playbook, all_effects_are_expected, end, open_session, text, texts

__all__ = ["all_effects_are_expected"]

FLAG: dict[str, object] = {"category": "email", "action": "redact", "scope": "platform", "p": 0, "n": 1}
HUGE = b"9" * 40
DAMAGED = {
    "an end that is empty": Entry(2, EntryKind.END),
    "an end that is no JSON": Entry(2, EntryKind.END, v=b"\xff"),
    "an end of wrong types": Entry(2, EntryKind.END, v=b'{"reason": 1}'),
    "an end with a number that msgpack has not": Entry(
        2, EntryKind.END, v=end(2).v.replace(b'"input":1', b'"input":' + HUGE)
    ),
    "a retract that is a list": Entry(2, EntryKind.RETRACT, v=b"[]"),
    "a retract that is empty": Entry(2, EntryKind.RETRACT),
    "an end blocked by a sentence": Entry(
        2, EntryKind.END, v=end(2).v[:-1] + b',"safety":{"category":"My key is","scope":"tenant"}}'
    ),
    **{
        f"a flag with {what}": Entry(2, EntryKind.FLAGGED, v=msgspec.json.encode(FLAG | change))
        for what, change in {
            "text for a category": {"category": "call 0123"},
            "a line of a category": {"category": "email\n"},
            "an endless category": {"category": "a" * 65},
            "an action of its own": {"action": "show"},
            "nobody's scope": {"scope": "user"},
            "a place before the text": {"p": -1},
            "no width": {"n": 0},
            "a place that no text has": {"p": 1 << 31},
            "a number for a text": {"category": 1},
            "a fraction": {"n": 1.5},
        }.items()
    },
    "a flag that is empty": Entry(2, EntryKind.FLAGGED),
    "an event that is deep": Entry(2, EntryKind.FLAGGED, v=b'{"a":' * 100_000),
    "an event with a number that msgpack has not": Entry(2, EntryKind.FLAGGED, v=b'{"n":' + HUGE + b"}"),
}


def refused(id: str) -> m.Error:
    """What the reader is told."""
    return m.Error(ErrorCode.LOG_LOST.value, "the platform lost a part of this answer", False, id=id)


@pytest.mark.parametrize("way", ["news", "log"])
@pytest.mark.parametrize("damaged", DAMAGED)
def test_an_entry_that_is_none_ends_one_reading(damaged: str, way: str):
    """What stands before it is delivered, and nothing behind it; the other answer is read on, to its end."""
    play = open_session(ReadableRequest("r", 1, 0, 0, "running"), ReadableRequest("s", 1, 0, 0, "running"))
    play << fx.Follow("r") << fx.Follow("s")
    entries = [text(1), DAMAGED[damaged], end(3)]
    if way == "news":
        play >> ev.LogGrew("r", entries, 3)
    else:
        play >> ev.LogGrew("r", [], 3)
        assert isinstance(play.effects.popleft(), fx.ReadLog)
        play >> ev.LogRead("r", 0, entries)
    play << m.Delta(1, 1, 1, 0, "a", 1) << refused("r")
    ended(play)
    play >> ev.LogGrew("r", [text(4)], 4)
    play.nothing() >> ev.LogGrew("s", [*texts(1, 2), end(3)], 3) << m.Delta(2, 1, 2, 0, "aa", 2)
    assert play.message(m.End).g == 2
    play >> m.Ack([(2, 3)]) << fx.ConfirmResumeToken() << fx.Unfollow("s", done=True)
    assert play.session.state is SessionState.OPEN


def test_of_a_flag_only_its_own_fields_get_through():
    """What else a worker wrote there stays with it."""
    play = open_session(ReadableRequest("r", 1, 0, 0, "running")) << fx.Follow("r")
    more = Entry(1, EntryKind.FLAGGED, r=40, v=msgspec.json.encode(FLAG | {"match": "ann@example.org"}))
    play >> ev.LogGrew("r", [more], 1)
    assert play.message(m.Event) == m.Event(1, "flagged", 1, FLAG)


def test_one_that_waited_for_the_pace_is_met_alone():
    """The timer serves the other streams, too."""
    play = open_session(*(ReadableRequest(id, 1, 0, 0, "running") for id in "rs"))
    play << fx.Follow("r") << fx.Follow("s")
    play >> ev.LogGrew("r", [text(1)], 1) << m.Delta(1, 1, 1, 0, "a", 1)
    play >> ev.LogGrew("s", [text(1)], 1) << m.Delta(2, 1, 1, 0, "a", 1)
    play >> ev.LogGrew("r", [text(2), Entry(3, EntryKind.END)], 3) >> ev.LogGrew("s", [text(2)], 2)
    play.nothing().at(1.0) >> ev.TimerFired() << m.Delta(1, 2, 2, 1, "a", 2) << refused("r")
    ended(play)
    play << m.Delta(2, 2, 2, 1, "a", 2)


def ended(play: Playbook) -> None:
    """The reading of `r` is over, and whoever runs this is told why."""
    unfollowed = play.effects.popleft()
    assert isinstance(unfollowed, fx.Unfollow)
    assert (unfollowed.id, unfollowed.done) == ("r", False)
    assert "cannot be read" in unfollowed.damaged


@pytest.mark.parametrize("field", ["p", "r", "i"])
@pytest.mark.parametrize("number", ["9" * 40, "-1", str(1 << 53)])
def test_a_number_that_no_client_can_take_is_none(field: str, number: str):
    """Neither in the log nor in a hint: a frame with it could not be written."""
    with pytest.raises(DamagedLogError):
        entry_of(b"1-0", {b"x": b"a", field.encode(): number.encode()})
    numbers = [number if name == field else 0 for name in "pri"]
    assert _hints("default", msgspec.msgpack.encode([["t", "r", 1, [["t", "a", *numbers, ""]], 1]])) == []
    numbers = [0, 0, 0]
    good = msgspec.msgpack.encode([["t", "r", 1, [["t", "a", *numbers, ""]], 1]])
    assert [hint.head for hint in _hints("default", good)] == [1]

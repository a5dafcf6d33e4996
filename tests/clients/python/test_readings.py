"""What the Python client says about its open answers, and when it gives one up."""

from typing import Any

import pytest

from parley_client.acks import Acks
from parley_client.answer import Ended, OpenAnswer, Reset, Text
from parley_client.readings import OpenAnswers
from tests.clients.python.frames import delta, end

ACKS = (10, 200, 500)


def accepted(readings: OpenAnswers, id: str, g: int, message: bool = True) -> OpenAnswer:
    """An answer that the server has taken."""
    reading = readings.add(id, {"t": "send", "id": id} if message else None)
    readings.bind({"id": id, "g": g, "epoch": 1})
    return reading


def on(g: int, frame: dict[str, Any]) -> dict[str, Any]:
    """A frame of another answer."""
    return frame | {"g": g}


def test_a_hello_lists_the_newest_first():
    """At most 32; what is only in the outbox comes last."""
    readings = OpenAnswers()
    for number in range(40):
        if number % 10 == 0:
            readings.add(f"r{number}", {"t": "send"})
        else:
            accepted(readings, f"r{number}", number).applied = number
    asked = readings.asked()
    assert (len(asked), asked[0]) == (32, {"id": "r39", "epoch": 1, "o": 39})
    assert [each["id"] for each in asked] == [f"r{number}" for number in range(39, 4, -1) if number % 10]
    few = OpenAnswers()
    few.add("sent", {"t": "send"})
    accepted(few, "old", 1)
    accepted(few, "new", 2)
    few.add("later", {"t": "send"})
    assert [each["id"] for each in few.asked()] == ["new", "old", "later", "sent"]
    assert few.asked()[2] == {"id": "later", "epoch": None, "o": 0}


def test_a_frame_goes_to_the_answer_that_has_its_number():
    """One of nobody's is ignored; who waits is told of the next, not of what comes again."""
    readings, told = OpenAnswers(), list[str]()
    one, two = accepted(readings, "a", 1), accepted(readings, "b", 2)
    one.notify, two.notify = (lambda: told.append("a")), (lambda: told.append("b"))
    assert readings.receive(on(3, delta(1, 1, "x", 0))) == []
    assert readings.receive(on(2, delta(1, 1, "x", 0))) == []
    assert readings.receive(on(2, delta(1, 1, "x", 0))) == []
    assert (told, readings.counters.stale, readings.counters.gaps) == (["b"], 1, 0)
    assert not readings.acks.pending  # it is not applied yet
    assert readings.apply(two) == (Text("x"), [])
    assert readings.acks.take() == [(2, 1)]
    readings.receive(on(2, delta(1, 1, "x", 0)))
    assert readings.acks.take() == [(2, 1)]  # the server asks for it again, so it is said again
    assert readings.counters.stale == 2


def test_what_came_again_and_is_not_applied_is_not_acknowledged():
    """Also where the end of the frame is."""
    readings = OpenAnswers()
    one = accepted(readings, "a", 1)
    readings.receive(delta(1, 1, "x", 0))
    readings.receive(delta(2, 2, "y", 1))
    readings.apply(one)
    readings.acks.take()
    readings.receive(delta(2, 2, "y", 1))
    assert not readings.acks.pending


def test_a_gap_is_read_again_from_what_is_applied():
    """Frames of the old cursor are ignored until the server says `attached`."""
    readings = OpenAnswers()
    one = accepted(readings, "a", 1)
    readings.receive(delta(1, 2, "xy", 0))
    readings.apply(one)
    readings.receive(delta(3, 3, "?", 2))
    assert readings.receive(delta(5, 5, "z", 4)) == [{"t": "attach", "id": "a", "o": 2, "epoch": 1}]
    assert (readings.counters.gaps, readings.acks.pending) == (1, False)
    assert readings.receive(delta(3, 3, "z", 2)) == []
    assert not one.waiting
    readings.bind({"id": "a", "g": 7, "epoch": 1})
    readings.receive(on(7, delta(3, 3, "z", 2)))
    assert readings.apply(one)[0] == Text("z")


def test_what_does_not_fit_is_attached_from_the_start():
    """Its reader sees the text go away."""
    readings = OpenAnswers()
    one = accepted(readings, "a", 1)
    readings.receive(delta(1, 1, "x", 5))
    assert readings.apply(one) == (Reset(""), [{"t": "attach", "id": "a", "o": 0, "epoch": 1}])
    assert readings.counters.gaps == 1


def test_an_end_is_the_last_of_an_answer():
    """It is acknowledged, counted, and forgotten."""
    for text, counts in (("", (1, 0)), ("x", (0, 1))):
        readings = OpenAnswers()
        one = accepted(readings, "a", 1)
        one._repaired = True
        readings.receive(end(1, text))
        event, frames = readings.apply(one)
        assert isinstance(event, Ended)
        assert (frames, readings.acks.take()) == ([], [(1, 1)])
        assert (readings.counters.verified, readings.counters.mismatched) == counts
        assert (readings.get("a"), readings.asked()) == (None, [])
        assert readings.receive(end(1, text)) == []
        assert not readings.acks.pending


def test_what_is_of_no_log_is_not_acknowledged():
    """Nor what comes over a number that is another's now."""
    readings = OpenAnswers()
    one = accepted(readings, "a", 1)
    readings.receive({"t": "event", "k": "paused", "g": 1})
    readings.apply(one)
    assert not readings.acks.pending
    readings.receive(delta(1, 1, "x", 0))
    accepted(readings, "b", 1)
    readings.apply(one)
    assert not readings.acks.pending


def test_detaching_is_said_once():
    """Its reader learns that it was; another answer of the same id is left alone."""
    readings = OpenAnswers()
    one = accepted(readings, "a", 1)
    assert readings.detach(one) == [{"t": "detach", "id": "a"}]
    assert one.error is not None
    assert (one.error.code, readings.detach(one)) == ("closed", [])
    again = accepted(readings, "a", 2)
    assert readings.detach(one) == []
    assert readings.get("a") is again


def test_a_new_connection_takes_up_every_answer():
    """Listed ones go on, others are attached, what the server never got is sent again; what nobody here
    reads any more is detached, what is gone fails."""
    readings = OpenAnswers()
    going = accepted(readings, "going", 1)
    going.applied = 3
    accepted(readings, "unlisted", 2)
    accepted(readings, "here", 3).cancelling = True
    asked = readings.add("asked", {"t": "send", "id": "asked"})
    readings.add("beyond", {"t": "send", "id": "beyond"})
    readings.add("far", {"t": "send", "id": "far"})
    readings.add("read", None)
    gone, why = accepted(readings, "gone", 4), accepted(readings, "why", 5)
    readings.receive(delta(1, 1, "x", 0))
    acks = Acks(*ACKS)
    out = readings.resume(
        [
            {"id": "going", "g": 9, "epoch": 1, "state": "running"},
            {"id": "here", "state": "running"},
            {"id": "stranger", "g": 8, "state": "running"},
            {"id": "gone one", "state": "gone"},
            {"id": "gone", "state": "gone"},
            {"id": "why", "state": "gone", "why": "log_lost"},
        ],
        {"going", "asked"},
        acks,
    )
    assert out == [
        {"t": "detach", "id": "stranger"},
        {"t": "attach", "id": "unlisted", "o": 0, "epoch": 1},
        {"t": "attach", "id": "here", "o": 0, "epoch": 1},
        {"t": "cancel", "id": "here"},
        asked.message,
        {"t": "send", "id": "beyond"},
        {"t": "send", "id": "far"},
        {"t": "attach", "id": "read", "o": 0},
    ]
    assert readings.acks is acks
    assert (readings.counters.resumed, readings.counters.resent) == (1, 1)
    assert (going.g, going.waiting) == (9, False)
    assert (gone.error and gone.error.code, why.error and why.error.code) == ("not_resumable", "log_lost")
    assert (readings.get("gone"), readings.get("why")) == (None, None)


def test_numbers_of_a_lost_connection_are_nobodys():
    """What nobody read yet comes again."""
    readings = OpenAnswers()
    one = accepted(readings, "a", 1)
    readings.receive(delta(1, 1, "x", 0))
    readings.lost()
    assert not one.waiting
    assert readings.receive(delta(1, 1, "x", 0)) == []
    assert not one.waiting


def refusal(id: str, re: str, retry: bool = True, **more: Any) -> dict[str, Any]:
    """An `error` that names a request."""
    return {"t": "error", "id": id, "re": re, "code": "c", "message": "m", "retry": retry, **more}


def test_an_attach_that_is_refused_for_a_while_is_tried_five_times():
    """After a second where the server names no time; the sixth refusal is the last."""
    readings = OpenAnswers()
    one = accepted(readings, "a", 1)
    assert readings.attach_again("a") == []  # nothing was refused
    assert readings.refused(refusal("a", "attach", after_ms=250)) == 0.25
    assert readings.receive(delta(1, 1, "x", 0)) == []
    assert not one.waiting
    assert readings.attach_again("a") == [{"t": "attach", "id": "a", "o": 0, "epoch": 1}]
    assert [readings.refused(refusal("a", "attach")) for _ in range(5)] == [1.0] * 4 + [None]
    assert (one.error is not None, readings.get("a")) == (True, None)
    assert readings.attach_again("a") == []


@pytest.mark.parametrize("settles", ["bind", "resume", "fail"])
def test_what_settles_an_attach_counts_its_refusals_anew(settles: str):
    """The server took it, a new connection came, or it failed for good."""
    readings = OpenAnswers()
    one = accepted(readings, "a", 1)
    for _ in range(5):
        readings.refused(refusal("a", "attach"))
    match settles:
        case "bind":
            readings.bind({"id": "a", "g": 2, "epoch": 1})
        case "resume":
            readings.resume([], set(), Acks(*ACKS))
        case _:
            readings.fail(one, {"code": "c", "message": "m"})
            readings.receive(delta(1, 1, "x", 0))
            assert not one.waiting
            readings.add("a", None)
    assert readings.attach_again("a") == []
    assert readings.refused(refusal("a", "attach")) == 1.0


def test_an_answer_that_failed_takes_no_more_of_its_frames():
    """What was on its way to it is dropped."""
    readings = OpenAnswers()
    one, other = accepted(readings, "a", 1), accepted(readings, "b", 2)
    readings.fail(one, {"code": "c", "message": "m"})
    for number in (1, 2):
        readings.receive(on(number, delta(1, 1, "x", 0)))
    assert (one.waiting, other.waiting) == (False, True)


def test_what_is_refused_for_good_fails():
    """A send always; an attach that the server will not have later either. Of others' nothing is known."""
    for error, accepted_before in (
        (refusal("a", "send"), False),
        (refusal("a", "attach", retry=False), True),
    ):
        readings = OpenAnswers()
        one = accepted(readings, "a", 1) if accepted_before else readings.add("a", {"t": "send"})
        assert readings.refused(error) is None
        assert (readings.get("a"), one.error is not None) == (None, True)
        assert readings.refused(error) is None
    assert OpenAnswers().refused({"t": "error", "code": "c", "message": "m", "retry": True}) is None


def test_a_refusal_that_changes_nothing_leaves_the_answer():
    """A cancel that is denied is not asked again; a send that came twice was taken the first time."""
    readings = OpenAnswers()
    one = accepted(readings, "a", 1)
    one.cancelling = True
    assert readings.refused(refusal("a", "send")) is None
    assert one.cancelling
    assert readings.refused(refusal("a", "cancel")) is None
    assert (one.cancelling, one.error, readings.get("a")) == (False, None, one)
    assert readings.refused(refusal("a", "attach")) == 1.0


def test_all_fail_where_the_client_stops():
    """Each reader is told why."""
    readings = OpenAnswers()
    both = [accepted(readings, "a", 1), readings.add("b", None)]
    readings.fail_all({"code": "closed", "message": "m"})
    assert [one.error and one.error.code for one in both] == ["closed"] * 2
    assert readings.asked() == []
    readings.bind({"id": "a", "g": 1, "epoch": 1})  # of nobody any more
    assert readings.receive(delta(1, 1, "x", 0)) == []

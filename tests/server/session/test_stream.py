"""One stream alone: what it keeps, asks for and merges at the very edge of its windows."""

from dataclasses import replace

import pytest

from engine.api import Entry
from server.protocol.messages import Delta
from server.session.backpressure import Backpressure, BackpressureChange
from server.session.limits import SessionLimits
from server.session.stream import DeltaPace, Stream
from server.session.window import ConnectionWindow, RequestWindow
from tests.server.playbook import LIMITS, delta, end, text, texts

KIB = 1024
PACE = DeltaPace(0.02)


def stream(
    events: int = 256, size: int = 32 * KIB, pace: DeltaPace = PACE, limits: SessionLimits = LIMITS
) -> Stream:
    """The reading of `r` with a window of so many events and bytes."""
    window = RequestWindow(ConnectionWindow(128 * KIB), events, size)
    return Stream(1, "r", 1, window, pace, Backpressure(limits))


def sent(reading: Stream, entries: list[Entry], now: float = 0.0) -> list[object]:
    """What goes to the client when these entries come in."""
    reading.offer(entries, 0, now)
    found = reading.deliver(now)
    reading.note_due()
    return list(found)


def held(reading: Stream) -> list[int]:
    """The offsets of what is kept in memory."""
    pending: list[Entry] = reading._pending  # pyright: ignore[reportPrivateUsage]
    return [entry.o for entry in pending]


def test_a_fresh_stream_reads_its_log_from_the_start():
    """Nothing is known of it, and nothing holds it back."""
    reading = stream()
    assert not reading.wants_log()
    assert sent(reading, [text(1)]) == [delta(1, 1, "a")]
    reading.offer([], 2, 0.0)
    assert reading.wants_log()


@pytest.mark.parametrize(
    ("events", "size", "first", "then", "kept"),
    [
        (4, 100, texts(1, 2), texts(3, 6), [3, 4]),
        (99, 10, texts(1, 2, "xxx"), texts(3, 5, "xx"), [3, 4]),
        (99, 10, texts(1, 2, "xxx"), texts(3, 5, "x" * 5), [3]),  # looked at again when the pace lets it
        (99, 99, texts(1, 1), [text(2, "x" * 34), end(3), text(4)], [2, 3]),
        (99, 99, texts(1, 1), [text(2, "x" * 35), end(3), text(4)], [2]),
    ],
)
def test_what_the_pace_holds_back_fits_the_window(
    events: int, size: int, first: list[Entry], then: list[Entry], kept: list[int]
):
    """INV-18: The rest is read from the log again."""
    reading = stream(events, size)
    sent(reading, first)
    assert sent(reading, then, 0.01) == []
    assert held(reading) == kept


def test_nothing_is_kept_while_a_window_is_shut_or_a_cursor_moves():
    """INV-18: News then only say that there is more."""
    shut, moving = stream(events=1), stream()
    for reading in (shut, moving):
        sent(reading, [text(1)])
    assert sent(shut, [text(2)], 1.0) == []
    moving.moving = True
    for reading in (shut, moving):
        assert sent(reading, texts(2, 3), 2.0) == []
        assert (held(reading), reading.head) == ([], 3)
        assert not reading.wants_log()


def test_the_last_byte_of_a_window_is_room():
    """A log is read on with one byte left, and with none it is not; only then is the reader shut."""
    almost, full = stream(size=10), stream(size=10)
    sent(almost, [text(1, "x" * 9)])
    sent(full, [text(1, "x" * 10)])
    for reading in (almost, full):
        reading.offer([], 2, 0.0)
        assert reading.deliver(0.0) == []
    assert (almost.wants_log(), almost.backpressure.due()) == (True, 30.0)
    assert (full.wants_log(), full.backpressure.due()) == (False, 2.0)


def test_the_last_event_of_a_window_is_room():
    """As with bytes."""
    almost = stream(events=2)
    sent(almost, [text(1)])
    almost.offer([], 2, 0.0)
    assert almost.deliver(0.0) == []
    assert (almost.wants_log(), almost.backpressure.due()) == (True, 30.0)


def test_an_entry_larger_than_what_is_left_is_not_asked_for_again_and_again():
    """Until an acknowledgement says that there may be room."""
    reading = stream(size=10)
    sent(reading, [text(1, "x" * 9)])
    assert sent(reading, [text(2, "y" * 5)], 1.0) == []
    assert not reading.wants_log()
    reading.opened()
    assert reading.wants_log()


@pytest.mark.parametrize(("size", "deltas"), [(6_384, 1), (6_385, 2)])
def test_a_delta_is_cut_where_it_would_pass_16_kib(size: int, deltas: int):
    """Of 16,384 bytes it is still one."""
    reading = stream()
    first = sent(reading, [text(1, "x" * 10_000), text(2, "y" * size)])
    assert len(first) + len(reading.deliver(1.0)) == deltas


def test_windows_count_the_bytes_of_text():
    """Not its characters."""
    reading = stream()
    sent(reading, [text(1, "äöü")])
    assert (reading.window.unacked, reading.window.bytes_room()) == (6, 32 * KIB - 6)


@pytest.mark.parametrize(
    ("batch", "after", "wait"), [(True, 0.5, 0.02), (True, 1.0, 0.04), (False, 1.0, 0.02)]
)
def test_the_pace_slows_a_second_after_the_first_delta_for_who_asked_for_it(
    batch: bool, after: float, wait: float
):
    """To 40 ms."""
    reading = stream(pace=DeltaPace(0.02, batch))
    sent(reading, [text(1)], 7.0)
    sent(reading, [text(2)], 7.0 + after)
    sent(reading, [text(3)], 7.0 + after)
    assert reading.due == pytest.approx(7.0 + after + wait)


@pytest.mark.parametrize(
    ("size", "each", "at_once"),
    [(10, 4, False), (10, 5, True), (99 * KIB, 8_191, False), (99 * KIB, 8_192, True)],
)
def test_who_catches_up_waits_until_a_delta_is_as_large_as_it_can_be(size: int, each: int, at_once: bool):
    """As large as the window, or 16 KiB."""
    reading = stream(size=size)
    sent(reading, [text(1, "")])
    reading.backpressure.catching_up = True
    assert bool(sent(reading, texts(2, 3, "x" * each), 0.01)) is at_once


def test_who_has_caught_up_reads_at_the_usual_pace_again():
    """250 ms apart only until the head of the log."""
    reading = stream(events=2)
    sent(reading, texts(1, 3), 1.0)
    assert reading.escalate(3.0) == BackpressureChange(paused=True, stuck=False)
    reading.ack(2, 4.0)
    reading.opened()
    assert [type(each).__name__ for each in sent(reading, [text(3)], 4.0)] == ["Event", "Delta"]
    assert reading.take_stall() == 3.0
    assert reading.take_stall() is None
    reading.ack(3, 4.0)
    assert sent(reading, [text(4)], 4.1) == []
    assert reading.due == 4.25
    assert len(reading.deliver(4.25)) == 1
    reading.ack(4, 4.25)
    assert sent(reading, [text(5)], 4.251) == []
    assert reading.due == pytest.approx(4.27)


def test_a_reader_is_as_far_behind_as_the_tokens_it_has_not_acknowledged():
    """Those that it has are no part of it."""
    reading = stream(events=6, limits=replace(LIMITS, stuck_tokens=7))
    sent(reading, texts(1, 6))
    reading.ack(6, 0.0)
    sent(reading, texts(7, 13), 1.0)
    assert reading.escalate(3.0) == BackpressureChange(paused=True, stuck=False)
    reading.offer([text(14)], 0, 3.0)
    assert reading.escalate(3.0) == BackpressureChange(paused=False, stuck=True)


def test_an_answer_of_no_tokens_leaves_nobody_behind():
    """Not even where none at all may be missing."""
    reading = stream(events=0, limits=replace(LIMITS, stuck_tokens=0))
    assert sent(reading, [end(1)]) == []
    assert reading.escalate(2.0) == BackpressureChange(paused=True, stuck=False)


def test_reading_from_another_place_begins_anew():
    """Nothing of what waited comes, nothing of its time counts, and the end is to be read again."""
    reading = stream()
    sent(reading, [text(1)])
    assert sent(reading, [text(2)], 0.001) == []
    assert len(reading.deliver(0.02)) == 1
    assert len(sent(reading, [end(3), text(4)], 1.0)) == 2
    assert sent(reading, [text(5)], 1.001) == []
    reading.escalate(30.0)
    assert reading.backpressure.stuck
    reading.restart(0, 5, 2)
    assert (held(reading), reading.backpressure.stuck, reading.done()) == ([], False, False)
    assert sent(reading, [text(1)], 31.0) == [Delta(1, 1, 1, 0, "a", 1)]
    assert reading.backpressure.due() == 61.0

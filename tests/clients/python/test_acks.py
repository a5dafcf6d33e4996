"""When the Python client acknowledges: just below each limit not yet, at it at once."""

from typing import Any

import pytest

from parley_client.acks import Acks


def delta(g: int, a: int, b: int, text: str = "") -> dict[str, Any]:
    """A logged piece of text."""
    return {"t": "delta", "g": g, "a": a, "b": b, "x": text}


@pytest.mark.parametrize(
    ("frames", "urgent"),
    [
        ([delta(1, 1, 4)], False),
        ([delta(1, 1, 5)], True),
        ([delta(1, 1, 2), delta(1, 3, 4)], False),
        ([delta(1, 1, 2), delta(1, 3, 5)], True),
        ([delta(1, 1, 4), delta(2, 1, 4)], False),  # windows are per request
        ([delta(1, 1, 1, "x" * 99)], False),
        ([delta(1, 1, 1, "x" * 100)], True),
        ([delta(1, 1, 1, "é" * 50)], True),  # bytes, not characters
        ([delta(1, 1, 1, "x" * 60), delta(1, 2, 2, "x" * 40)], True),
        ([delta(1, 1, 1, "x" * 99), delta(2, 1, 1, "x" * 99), delta(3, 1, 1, "x" * 51)], False),
        ([delta(1, 1, 1, "x" * 99), delta(2, 1, 1, "x" * 99), delta(3, 1, 1, "x" * 52)], True),
        ([{"t": "event", "g": 1, "o": 1}], False),  # counts 64 bytes
        ([{"t": "event", "g": 1, "o": 1}, delta(1, 2, 2, "x" * 35)], False),
        ([{"t": "event", "g": 1, "o": 1}, delta(1, 2, 2, "x" * 36)], True),
        ([{"t": "end", "g": 1, "o": 1}], True),
        ([{"t": "snap", "g": 1, "o": 1, "x": ""}], True),
        ([{"t": "retract", "g": 1, "o": 1}], False),
        ([{"t": "end", "g": 1, "o": 1}, delta(1, 2, 2)], True),  # it stays urgent
    ],
)
def test_half_a_window_is_acknowledged_at_once(frames: list[dict[str, Any]], urgent: bool):
    """Of 10 events, of 200 bytes, or of the 500 of the connection; each snap and end."""
    acks = Acks(10, 200, 500)
    assert not acks.urgent
    for frame in frames:
        assert not acks.pending or frame is not frames[0]
        acks.note(frame)
    assert (acks.urgent, acks.pending) == (urgent, True)


def test_what_is_taken_counts_anew():
    """The vector has the last offset of each; what is dropped is not in it."""
    acks = Acks(10, 200, 500)
    for frame in (delta(1, 1, 4), delta(2, 7, 9), delta(3, 1, 5), delta(1, 5, 6)):
        acks.note(frame)
    acks.drop(2)
    acks.drop(9)
    assert acks.urgent
    assert acks.take() == [(1, 6), (3, 5)]
    assert (acks.urgent, acks.pending, acks.take()) == (False, False, [])
    acks.note(delta(1, 7, 10))
    assert (acks.urgent, acks.take()) == (False, [(1, 10)])

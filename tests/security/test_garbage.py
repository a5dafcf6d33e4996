"""Bytes that a worker wrote, wherever they are read: each reader says that they are none, and goes on."""

import contextlib
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from billing.booking.assess import Quarantined, assess
from billing.booking.assess import _metadata as labels  # pyright: ignore[reportPrivateUsage]
from billing.reconciliation.pools import _row as engine_hour  # pyright: ignore[reportPrivateUsage]
from billing.usage import read_event
from core.redis.unreadable import Unreadable, read
from engine.lifecycle.migration import tokens_needed
from engine.node.reports import _order, _report  # pyright: ignore[reportPrivateUsage]
from engine.queue import script_replies
from engine.queue.notifications import _hints, _wake  # pyright: ignore[reportPrivateUsage]
from engine.queue.request_log import DamagedLogError, entry_of
from engine.queue.script_replies import ReapReply
from engine.request import input_decoder
from tests.support.packed_rows import packed_row

CANARY = "the-words-nobody-may-see"
DEEP = 100_000
GARBAGE = {
    "nothing": b"",
    "no UTF-8": b"\xff\xfe" + CANARY.encode(),
    "no UTF-8 in msgpack": b"\xa2\xff\xfe",
    "a text": msgspec.json.encode(CANARY),
    "a text in msgpack": msgspec.msgpack.encode(CANARY),
    "deep lists": b"[" * DEEP,
    "deep objects": b'{"a":' * DEEP,
    "deep lists in msgpack": b"\x91" * DEEP,
    "a huge whole number": b"9" * 5_000,
    "a list said to be huge": b"\xdd\xff\xff\xff\xff",
    "no number": b"NaN",
    "no number in msgpack": msgspec.msgpack.encode(float("nan")),
    "wrong types": msgspec.json.encode({"tenant": 1, "k": [CANARY]}),
    "wrong types in msgpack": msgspec.msgpack.encode({"tenant": 1, "prompt": CANARY}),
    "huge numbers in msgpack": msgspec.msgpack.encode([1 << 63, -(1 << 62)]),
    "cut off": msgspec.msgpack.encode({"tenant": CANARY})[:-3],
}


def a_log_entry(data: bytes) -> None:
    """As each field of one."""
    for field in (b"k", b"x", b"p", b"r", b"i"):
        with contextlib.suppress(DamagedLogError):
            entry_of(b"1-0", {field: data})


READERS: dict[str, Callable[[bytes], object]] = {
    "usage event": read_event,
    "input": lambda data: read("input", input_decoder.decode, data),
    "size of an input": tokens_needed,
    "labels": labels,
    "log entry": a_log_entry,
    "hint": lambda data: _hints("default", data),
    "wake": lambda data: read("wake", _wake, data),
    "order": lambda data: read("order", _order, data),
    "report": lambda data: read("report", _report, data),
    "worker": lambda data: read(
        "worker",
        lambda info: script_replies.worker("w", 1, 2, 0, {b"info": info, b"fingerprint": info}),
        data,
    ),
    "engine's hour": lambda data: read("hour", lambda hour: engine_hour("default", b"w:1", hour, 1), data),
    "hour of an engine": lambda data: read("hour", lambda of: engine_hour("default", of, b"\x80", 1), data),
    "ends and moves": lambda data: script_replies.reaped(
        ReapReply(
            requeued=0, expired=[packed_row(*[data] * 4)], dead_readers=0, moves=[packed_row(*[data] * 2)]
        )
    ),
}


@pytest.mark.parametrize("garbage", GARBAGE)
@pytest.mark.parametrize("reader", READERS)
def test_garbage_is_unreadable_and_is_not_told(reader: str, garbage: str):
    """Nothing is raised, and nothing of what it says is in what is said of it."""
    with capture_logs() as lines:
        found: Any = READERS[reader](GARBAGE[garbage])
    if isinstance(found, Unreadable):
        assert CANARY not in str(found)
    assert CANARY not in str(lines)


@pytest.mark.parametrize("garbage", GARBAGE)
def test_an_event_that_is_none_is_held_and_nothing_else(garbage: str):
    """With the type of what was raised."""
    batch = assess("default", [GARBAGE[garbage]], 1)
    assert (len(batch.held), batch.good, batch.settlements) == (1, [], [])
    assert batch.held[0].reason == Quarantined.UNDECODABLE
    assert CANARY not in batch.held[0].detail


def test_what_can_be_read_is_read():
    """The ends and moves beside some that cannot be."""
    expired = [packed_row(*[b"\xff"] * 4), packed_row(b"t", b"r", b"deadline", b"")]
    moves = [packed_row(*[b"\xff"] * 2), packed_row(b"t", b"r")]
    found = script_replies.reaped(ReapReply(requeued=1, expired=expired, dead_readers=2, moves=moves))
    assert [(end.tenant, end.id) for end in found.expired] == [("t", "r")]
    assert found.moves == [("t", "r")]
    assert read("number", int, "7") == 7

"""What the pool's scripts reply, as processes of ours read it; and the orders and entries that go with it."""

from typing import Any

import msgspec
import pytest

from core.errors import Refusal
from core.signing.signed_text import Keyring
from engine.queue import script_replies
from engine.queue.migration_orders import MigrationOrder, MigrationOrders, order_of
from engine.queue.request_log import DamagedLogError, entry_of, pack_entry, unpack_entries, visible_text
from engine.queue.script_replies import (
    CommitReply,
    EndReply,
    EndsReply,
    EnqueueReply,
    ReapReply,
    RenewReply,
    ReplayReply,
    StatusReply,
    ViewReply,
)
from engine.queue.types import (
    AppendCode,
    Appended,
    EndedAt,
    Enqueued,
    ExpiredRequest,
    MigratedTo,
    ReaderView,
    Reaped,
    Renewed,
    ReplayCode,
    Watermark,
    WorkerView,
)
from engine.request import Control, Entry, EntryKind, PriorityClass, RequestStatus
from tests.support.packed_rows import packed_row

HOUR_MS, NOW_MS = 3_600_000, 1_800_000_000_000
DEADLINE_MS = NOW_MS + HOUR_MS


@pytest.mark.parametrize(
    ("reason", "code", "words", "scope"),
    [
        ("rejected_capacity", "overloaded", "the pool is full", None),
        ("rejected_no_worker", "overloaded", "no worker runs this model now", None),
        ("rejected_stranger", "rejected_stranger", "the pool takes no requests of this tenant now", None),
        ("rejected_deadline", "overloaded", "the deadline would pass before it is this request's turn", None),
        ("rejected_buried", "overloaded", "it was admitted too long ago: send it again", None),
        ("rejected_tenant_cap", "rate_limited", "too many of the tenant's requests are waiting", "tenant"),
    ],
)
def test_who_is_refused_for_now_is_told_when_to_come_again(
    reason: str, code: str, words: str, scope: str | None
):
    """And whether others are refused too."""
    expected = Refusal(code, words, retry=True, after_ms=70, scope=scope)
    assert script_replies.enqueued(EnqueueReply(refusal=reason, number=70)) == expected


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("id_conflict", Refusal("id_conflict", "this id was used for another request")),
        (
            "rejected_too_large",
            Refusal("too_large", "prompt and answer may take 70 tokens together", limit=70),
        ),
    ],
)
def test_who_is_refused_for_good_is_not_told_to_come_again(reason: str, expected: Refusal):
    """Nothing will change."""
    assert script_replies.refusal(reason, 70) == expected


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (
            script_replies.enqueued(
                EnqueueReply(
                    created=True, status=RequestStatus.QUEUED, epoch=2, head=3, position=4, wait_ms=5
                )
            ),
            Enqueued(True, RequestStatus.QUEUED, 2, 3, 4, 5),
        ),
        (
            script_replies.enqueued(
                EnqueueReply(status=RequestStatus.MOVED, epoch=2, head=3, position=4, wait_ms=5, dest="far")
            ),
            Enqueued(False, RequestStatus.MOVED, 2, 3, 4, 5, "far"),
        ),
        (
            script_replies.appended(CommitReply(code=AppendCode.OK, n=1, o=2, control=4, granted=5)),
            Appended(AppendCode.OK, 1, 2, Control(4), 5, None),
        ),
        (
            script_replies.appended(
                CommitReply(
                    code=AppendCode.ENDED, n=1, o=2, control=0, granted=5, end_at="7-1", end_memory="m"
                )
            ).ended,
            EndedAt("m", "7-1"),
        ),
        (script_replies.ended_at(None), None),
        (script_replies.ended_at(EndReply(at="7-1", memory="m")), EndedAt("m", "7-1")),
        (script_replies.watermark(EndsReply(memory="m", ms="7", sequence="1")), Watermark("m", (7, 1))),
        (
            script_replies.replayed(
                ReplayReply(memory="m", outcomes=[(ReplayCode.PUT, "7-1"), (ReplayCode.KNOWN, "8-1")])
            ),
            [(ReplayCode.PUT, EndedAt("m", "7-1")), (ReplayCode.KNOWN, EndedAt("m", "8-1"))],
        ),
        (script_replies.status(None), None),
        (script_replies.status(StatusReply(status=RequestStatus.RUNNING)), RequestStatus.RUNNING),
        (
            script_replies.status(
                StatusReply(status=RequestStatus.MOVED, dest="far", hop=2, ordered_ms=9, seal=b"seal")
            ),
            MigratedTo("far", MigrationOrder("far", 2, 9, b"seal")),
        ),
        (
            script_replies.renewed(
                RenewReply(
                    alive=True,
                    control=[
                        msgspec.Raw(msgspec.msgpack.encode(("t1", "r1", 4))),
                        packed_row(b"t1", b"\xff"),
                    ],
                )
            ),
            Renewed(True, [("t1", "r1", Control(4))], 1),
        ),
        (script_replies.renewed(RenewReply(alive=False, control=[])), Renewed(False, [])),
        (
            script_replies.reaped(
                ReapReply(
                    requeued=1,
                    expired=[packed_row(b"t1", b"r1", b"error", b"c"), packed_row(b"\xff")],
                    dead_readers=2,
                    moves=[packed_row(b"t1", b"r2"), packed_row(b"\xff")],
                )
            ),
            Reaped(1, [ExpiredRequest("t1", "r1", "error", "c")], 2, [("t1", "r2")], 2),
        ),
        (script_replies.view(None), None),
    ],
)
def test_a_reply_is_read_as_the_script_writes_it(found: Any, expected: Any):
    """Field by field; what cannot be read holds up nothing else."""
    assert found == expected


@pytest.mark.parametrize("ended", [False, True])
def test_a_view_is_read_as_the_script_writes_it(ended: bool):
    """Of a request whose record is gone its body's hash is empty."""
    state, body_hash = (RequestStatus.ENDED, "") if ended else (RequestStatus.RUNNING, "hash")
    reply = ViewReply(
        status=state,
        epoch=1,
        head=2,
        n=3,
        control=4,
        worker="w1",
        deadline_ms=DEADLINE_MS,
        first=6,
        dest="far",
        priority=PriorityClass.BULK,
        following=ended,
        body_hash=body_hash,
        told="[9]",
        hop=7,
        ordered_ms=8,
        seal=b"seal",
    )
    assert script_replies.view(reply) == ReaderView(
        status=state,
        epoch=1,
        head=2,
        n=3,
        control=Control(4),
        worker="w1",
        deadline_ms=DEADLINE_MS,
        ended=ended,
        first=6,
        dest="far",
        priority=PriorityClass.BULK,
        following=ended,
        body_hash=body_hash,
        order=MigrationOrder("far", 7, 8, b"seal"),
        told="[9]",
    )


@pytest.mark.parametrize(("lease_ms", "alive"), [(101, True), (100, False)])
def test_a_worker_lives_as_long_as_its_lease(lease_ms: int, alive: bool):
    """At its last millisecond it is over."""
    fields = {b"fingerprint": b"f"}
    assert script_replies.worker("w1", lease_ms, 100, 3, fields) == WorkerView(
        "w1", "f", alive, lease_ms, 3, {}
    )


def test_a_hint_says_where_each_of_its_entries_stands():
    """The last one is at the head, the others before it, as they were packed."""
    entries = [
        Entry(o=7, k=EntryKind.TEXT, x="hé", p=1, r=2, i=3),
        Entry(o=8, k=EntryKind.TEXT, x="!", p=3, r=4, i=4),
        Entry(o=9, k=EntryKind.END, i=4, v=b'{"reason":"stop"}'),
    ]
    packed = [pack_entry(entry) for entry in entries]
    assert packed[2] == ("end", "", 0, 0, 4, '{"reason":"stop"}')
    assert unpack_entries(9, packed) == entries


@pytest.mark.parametrize("number", [0, 1, (1 << 53) - 1])
def test_an_entry_is_read_with_the_defaults_of_what_it_leaves_out(number: int):
    """A text without positions; numbers up to the last that JSON's readers tell apart."""
    assert entry_of(b"5-0", {}) == Entry(5, EntryKind.TEXT, "", 0, 0, 0, b"")
    fields = {b"k": b"retract", b"x": b"x", b"v": b"{}", **dict.fromkeys((b"p", b"r", b"i"), b"%d" % number)}
    assert entry_of(b"5-0", fields) == Entry(5, EntryKind.RETRACT, "x", number, number, number, b"{}")


@pytest.mark.parametrize("written", [b"-1", b"%d" % (1 << 53), b"x"])
@pytest.mark.parametrize("field", [b"p", b"r", b"i"])
def test_an_entry_with_a_number_that_is_none_is_damaged(field: bytes, written: bytes):
    """Its offset is named, and nothing of what it holds."""
    with pytest.raises(DamagedLogError, match=r"^the entry at offset 5 cannot be read"):
        entry_of(b"5-0", {field: written})


def test_a_retract_cuts_what_was_said_before_it():
    """On this page and on those before; nothing else is text."""
    entries = [
        Entry(1, EntryKind.RUNNING, "?", 0, 0, 0, b""),
        Entry(2, EntryKind.TEXT, "cd", 2, 0, 0, b""),
        Entry(3, EntryKind.RETRACT, "", 1, 0, 0, b""),
        Entry(4, EntryKind.TEXT, "e", 1, 0, 0, b""),
    ]
    assert visible_text(entries, "ab") == "ae"
    assert visible_text(entries[:2], "ab") == "abcd"


@pytest.mark.parametrize(
    ("hop", "ago_ms", "good"),
    [
        (0, 0, False),
        (1, 0, True),
        ((1 << 31) - 1, 0, True),
        (1 << 31, 0, False),
        (1, HOUR_MS, True),
        (1, HOUR_MS + 1, False),
        (1, -300_000, True),
        (1, -300_001, False),
    ],
)
def test_an_order_is_good_for_an_hour_and_for_clocks_five_minutes_apart(hop: int, ago_ms: int, good: bool):
    """A sealed one; its hop is a number that Redis can hold."""
    orders = MigrationOrders(Keyring(b"secret" * 8), "here")
    order = orders.give("t1", "r1", "near", "far", hop, NOW_MS - ago_ms)
    assert (order.dest, order.hop, order.at_ms) == ("far", hop, NOW_MS - ago_ms)
    assert orders.good("t1", "r1", "near", order, NOW_MS) is good


def test_a_record_without_an_order_has_an_empty_one():
    """Which is never good."""
    order = order_of(None, None, None, None)
    assert order == MigrationOrder("", 0, 0, b"")
    assert not MigrationOrders(Keyring(b"secret" * 8), "here").good("t1", "r1", "near", order, 0)

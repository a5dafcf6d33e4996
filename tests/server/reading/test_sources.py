"""From where a reader goes on, and a stored answer as the last of its log."""

from collections import defaultdict
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from core.errors import Refused
from core.redis.pools import HOPS_MAX
from engine.api import Entry, EntryKind, PriorityClass, ReaderView, RequestStatus, text_hash
from server.conversations.history import PromptContext
from server.conversations.tables import Message
from server.protocol.context_use import ContextUse, TurnFacts
from server.protocol.messages import Cost, EndPayload, EndUsage, Event, Timing
from server.reading.sources import (
    OpenedRequest,
    RequestReaders,
    StoredSource,
    pieces_of,
    reading_of,
    stored_opening,
)
from server.reading.subscriptions import FollowedRequest, RequestName
from server.session.entries import message_of
from server.session.events import ReadableRequest

KIB_16 = 16 * 1024


def view(status: RequestStatus = RequestStatus.RUNNING, told: str = "") -> ReaderView:
    """A log of epoch 2 with the head at 5."""
    return cast(Any, msgspec.defstruct("Seen", ["status", "epoch", "head", "told"]))(status, 2, 5, told)


@pytest.mark.parametrize(
    ("epoch", "o", "after", "snap"),
    [(2, 3, 3, None), (2, 5, 5, None), (2, 6, 0, ""), (1, 3, 0, ""), (None, 5, 5, None), (None, 6, 0, "")],
)
def test_a_reader_goes_on_where_it_is_if_its_log_has_that(
    epoch: int | None, o: int, after: int, snap: str | None
):
    """Else from the start, and it forgets what it has."""
    assert reading_of("r", view(), epoch, o) == ReadableRequest("r", 2, after, 5, "running", snap)


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (RequestStatus.QUEUED, "queued"),
        (RequestStatus.PARKED, "parked"),
        (RequestStatus.MOVING, "running"),
        (RequestStatus.MOVED, "running"),
        (RequestStatus.ENDED, "ended"),
    ],
)
def test_who_reads_is_not_told_of_a_move(status: RequestStatus, said: str):
    """It runs, wherever that is."""
    assert reading_of("r", view(status), 2, 0).state == said


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        ("", [0]),
        ("x" * KIB_16, [KIB_16]),
        ("x" * (KIB_16 + 1), [KIB_16, 1]),
        ("x" + "ä" * (KIB_16 // 2), [KIB_16 - 1, 2]),
    ],
    ids=["empty", "full", "one more", "a character is not cut"],
)
def test_a_text_is_cut_in_pieces_of_one_message(text: str, sizes: list[int]):
    """Nothing of it is lost."""
    pieces = pieces_of(text)
    assert [len(piece.encode()) for piece in pieces] == sizes
    assert "".join(pieces) == text


def stored(content: str, head: int, **more: Any) -> OpenedRequest:
    """The answer of that text, as its row says."""
    facts: Any = {"cost_nano": 5, "code": "", **more}
    row = Message(
        tenant_id="t",
        id="m",
        conversation_id="c",
        position=1,
        role="assistant",
        request_id="r",
        status="ended",
        content=content,
        reason="stop",
        head=head,
        epoch=3,
        **facts,
    )
    return stored_opening("r", row)


@pytest.mark.parametrize("told", ["", "{", "[1,2,3]", '["9"]', '[9,{"kept":"all"}]'])
def test_what_was_pinned_of_a_turn_is_told_to_each_of_its_readers(told: str):
    """While its log is kept, and from its stored answer. A record that is older, or damaged, tells none."""
    assert reading_of("r", view(told=told), 2, 0).facts == TurnFacts()
    facts = TurnFacts(9, ContextUse(9_999_999, 9_999_999, 9_999_999))
    assert len(facts.packed()) < 64
    assert reading_of("r", view(told=facts.packed()), 2, 0).facts == facts
    pinned = PromptContext("m1", 9_999_999, 9_999_999, 9_999_999).packed("m", 9)
    assert stored("x", 5, context=pinned).reading.facts == facts
    del pinned["max_tokens"]
    assert stored("x", 5, context=pinned).reading.facts == TurnFacts(None, facts.context)


async def test_a_stored_answer_is_a_snap_and_the_last_offsets_of_its_log():
    """Its text through the first piece, the rest as text, the end last; its offsets end at the log's head."""
    content = "a" * KIB_16 + "b" * KIB_16 + "c"
    usage, timing = {"prompt": 4, "output": 7, "cached": 1}, {"queue_ms": 2}
    found = stored(content, 90, usage=usage, timing=timing)
    assert found.reading == ReadableRequest("r", 3, 87, 90, "ended", "a" * KIB_16)
    assert found.priority is PriorityClass.INTERACTIVE
    entries = await found.source.read(0, 99, 0)
    assert entries[:2] == [
        Entry(o=88, k=EntryKind.TEXT, x="b" * KIB_16, p=KIB_16, i=7),
        Entry(o=89, k=EntryKind.TEXT, x="c", p=2 * KIB_16, i=7),
    ]
    end = entries[2]
    assert (end.o, end.k, len(entries)) == (90, EntryKind.END, 3)
    assert msgspec.json.decode(end.v, type=EndPayload) == EndPayload(
        reason="stop",
        usage=EndUsage(*(usage.get(name, 0) for name in EndUsage.__struct_fields__)),
        cost=Cost(5, "usd"),
        timing=Timing(*(timing.get(name, 0) for name in Timing.__struct_fields__)),
        h=text_hash(content),
        code=None,
    )


async def test_an_answer_without_figures_has_an_end_of_zeros():
    """One whose head is not known takes the offsets that it needs."""
    found = stored("a" * (KIB_16 + 1), 0, code="oom", cost_nano=0)
    assert found.reading == ReadableRequest("r", 3, 1, 3, "ended", "a" * KIB_16)
    text, end = await found.source.read(1, 99, 0)
    assert (text.o, text.i, end.o) == (2, 0, 3)
    said = msgspec.json.decode(end.v, type=EndPayload)
    assert (said.usage, said.timing, said.code) == (EndUsage(0, 0, 0, 0), Timing(0, 0, 0), "oom")
    assert stored("", 0).reading == ReadableRequest("r", 3, 1, 2, "ended", "")


async def test_a_stored_answer_says_what_safety_marked():
    """Its flags between text and end, in their order; its end what blocked it."""
    flags = [
        {"category": "email", "action": "redact", "scope": "platform", "p": 3, "n": 9},
        {"category": "phone", "action": "flag", "scope": "project", "p": 13, "n": 2},
    ]
    veto = {"category": "private_key", "scope": "tenant"}
    found = stored("a" * KIB_16 + "b", 90, flags=flags, safety=veto, usage={"output": 7})
    assert found.reading == ReadableRequest("r", 3, 86, 90, "ended", "a" * KIB_16)
    text, *marked, end = await found.source.read(0, 99, 0)
    assert (text.o, text.x) == (87, "b")
    assert [(each.o, each.k, each.i) for each in marked] == [
        (88, EntryKind.FLAGGED, 7),
        (89, EntryKind.FLAGGED, 7),
    ]
    assert [message_of(1, each) for each in marked] == [
        Event(1, "flagged", o, flag) for o, flag in zip((88, 89), flags, strict=True)
    ]
    assert msgspec.json.decode(end.v)["safety"] == veto
    assert stored("ab", 0, flags=flags).reading == ReadableRequest("r", 3, 1, 4, "ended", "ab")


async def test_a_stored_answer_is_read_after_an_offset():
    """So many entries at most."""
    source = StoredSource([Entry(o, EntryKind.TEXT) for o in (4, 5, 6)])
    assert [entry.o for entry in await source.read(4, 9, 0)] == [5, 6]
    assert [entry.o for entry in await source.read(3, 2, 0)] == [4, 5]
    assert await source.read(6, 9, 0) == []


class SourcePools:
    """Subscriptions and pools of readers: each pool's record as a test puts it there."""

    def __init__(self) -> None:
        self.views = dict[str, Any]()
        self.open = list[FollowedRequest]()
        self.released = list[tuple[str, str]]()
        self.queues = defaultdict[str, Any](lambda: SimpleNamespace(reader=self.reader))
        self.logs: Any = {}
        self.gateway = "g"
        self.recorders = SimpleNamespace(give_up=self.nothing)
        quota: Any = SimpleNamespace(directory=self.nothing, release=self.release)
        conversations: Any = SimpleNamespace(answer_row=self.nothing)
        self.readers = RequestReaders(quota, cast(Any, self), conversations, cast(Any, self))

    async def nothing(self, *_: object) -> None:
        """What is not there."""

    async def release(self, tenant: str, id: str) -> None:
        """See Quota."""
        self.released.append((tenant, id))

    async def follow(self, pool: str) -> bool:
        """See Subscriptions."""
        return pool in self.views

    def join(self, name: RequestName, _: object) -> FollowedRequest:
        """See Subscriptions."""
        self.open.append(FollowedRequest(name))
        return self.open[-1]

    def leave(self, name: RequestName, _: object) -> None:
        """See Subscriptions."""
        self.open = [each for each in self.open if each.name != name]

    async def reader(self, _tenant: str, id: str, _gateway: str, _state: str) -> Any:
        """See PoolQueue; the request's id says the pool too."""
        view = self.views[self.open[-1].name.pool]
        if isinstance(view, Exception):
            raise view
        return view

    def is_ordered(self, pool: str, _tenant: str, _id: str, order: object) -> bool:
        """See Edge."""
        return order == f"from {pool}"

    async def opened(self) -> OpenedRequest | None:
        """The log of `r`, from the pool `0` on."""
        return await self.readers.open_log(RequestName("0", "t", "r"), "hash", None, 0)


def seen(**changed: Any) -> Any:
    """A whole log of the request that was asked for."""
    usual = {
        "status": RequestStatus.RUNNING,
        "epoch": 2,
        "head": 5,
        "first": 1,
        "body_hash": "hash",
        "told": "",
    }
    return SimpleNamespace(**{**usual, "priority": PriorityClass.BULK, "dest": "", "order": None, **changed})


def moved(pool: int) -> Any:
    """It went on to the next pool."""
    return seen(status=RequestStatus.MOVED, dest=str(pool + 1), order=f"from {pool}")


async def test_a_whole_log_is_opened_and_its_epoch_is_known():
    """The source is followed then."""
    pools = SourcePools()
    pools.views["0"] = seen()
    found = await pools.opened()
    assert found is not None
    assert (found.reading.epoch, found.priority) == (2, PriorityClass.BULK)
    assert [each.epoch for each in pools.open] == [2]


@pytest.mark.parametrize(
    "view",
    [
        None,
        seen(first=2),
        seen(first=6),
        seen(body_hash="other"),
        seen(status=RequestStatus.MOVED, order="forged"),
    ],
    ids=["gone", "trimmed", "empty", "another's", "a forged move"],
)
async def test_what_is_no_whole_log_of_the_request_is_not_followed(view: Any):
    """Nobody reads it here."""
    pools = SourcePools()
    pools.views["0"] = view
    assert await pools.opened() is None
    assert pools.open == []


async def test_a_pool_that_does_not_answer_leaves_no_reader():
    """The error is the caller's."""
    pools = SourcePools()
    pools.views["0"] = OSError("gone")
    with pytest.raises(OSError, match="gone"):
        await pools.opened()
    assert pools.open == []


@pytest.mark.parametrize(("hops", "is_found"), [(HOPS_MAX, True), (HOPS_MAX + 1, False)])
async def test_a_request_is_followed_through_so_many_pools(hops: int, is_found: bool):
    """Then it goes in circles."""
    pools = SourcePools()
    pools.views = {str(pool): moved(pool) for pool in range(hops)} | {str(hops): seen()}
    assert (await pools.opened() is not None) is is_found
    assert [each.name.pool for each in pools.open] == ([str(hops)] if is_found else [])


async def test_what_is_lost_counts_as_open_no_more():
    """Its admission is given back, and the reader is told."""
    pools = SourcePools()
    principal: Any = SimpleNamespace(tenant="t")
    with pytest.raises(Refused, match="log_lost"):
        await pools.readers.reopen(principal, "r", 1, 0)
    assert pools.released == [("t", "r")]
    with pytest.raises(Refused, match="not_resumable"):
        await pools.readers.open(principal, "r", 1, 0)

"""One request that several connections of a gateway read: what they are told of it, and the pool."""

import asyncio
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import pytest

from engine.api import Entry, EntryKind, Hint, RequestStatus
from server.reading.subscriptions import POLLS_AT_ONCE_MAX, FollowedRequest, RequestName, Subscriptions
from tests.support.watch import watch_in_hand


class StubReader:
    """What it was told."""

    def __init__(self) -> None:
        self.heads = list[int]()
        self.breaks = 0

    def news(self, entries: list[Entry], head: int) -> None:
        """See Listener."""
        self.heads.append(head)

    def broken(self) -> None:
        """See Listener."""
        self.breaks += 1


def followed(name: str, epoch: int | None) -> tuple[FollowedRequest, StubReader]:
    """A request in this incarnation, and who reads it."""
    found, reader = FollowedRequest(RequestName("p", "t", name)), StubReader()
    found.listeners[reader] = reader
    found.holders.add(reader)
    if epoch is not None:
        found.seen(epoch)
    return found, reader


@pytest.mark.parametrize(
    ("before", "seen", "breaks"), [(None, 1, 0), (1, 1, 0), (1, 2, 1), (2, 1, 1), (0, 0, 0), (0, 1, 1)]
)
def test_another_incarnation_breaks_what_was_read(before: int | None, seen: int, breaks: int):
    """The first that is heard of does not."""
    one, reader = followed("a", before)
    one.news([Entry(5, EntryKind.END)], 5)
    one.seen(seen)
    assert (one.epoch, reader.breaks) == (seen, breaks)
    assert (one.head, one.ended) == ((0, False) if breaks else (5, True))


@pytest.mark.parametrize(("here", "there", "breaks"), [(1, 1, 0), (1, 2, 1), (None, 2, 0), (1, None, 0)])
def test_who_read_it_where_it_was_reads_it_where_it_is(here: int | None, there: int | None, breaks: int):
    """Anew where it is another incarnation; its own readers go on."""
    new, own = followed("a", here)
    old, other = followed("b", there)
    old.stuck.add(other)
    new.take_over(old)
    assert (own.breaks, other.breaks) == (0, breaks)
    assert (set(new.listeners), new.holders, new.stuck) == ({own, other}, {own, other}, {other})
    assert old.successor is new


def test_news_only_go_on():
    """The head never goes back, an end stays; who is told is told of the head."""
    with watch_in_hand() as watch:
        one, reader = followed("a", 1)
        heard = one.heard_at
        watch.ms += 1_000
        for head, end in ((3, False), (2, True), (4, False)):
            one.news([Entry(head, EntryKind.END if end else EntryKind.TEXT)], head)
        assert (reader.heads, one.ended) == ([3, 3, 4], True)
        assert one.heard_at == heard + 1


def test_readers_are_stuck_where_all_of_them_are():
    """Nobody is not."""
    one, reader = followed("a", 1)
    assert one.state == "reading"
    one.stuck.add(reader)
    assert one.state == "stuck"
    one.holders.add(StubReader())
    assert one.state == "reading"
    one.holders.clear()
    assert one.state == "reading"


class HintQueue:
    """A pool's line: it notes who reads what, and answers with what a test puts there."""

    def __init__(self) -> None:
        self.told = list[tuple[str, str]]()
        self.view: object = None

    async def reader(self, tenant: str, id: str, gateway: str, state: str) -> object:
        """See PoolQueue."""
        self.told.append((id, state))
        return self.view


class Poll(NamedTuple):
    """What a hub reads of the settings."""

    poll_interval_seconds: float = 1.0


class PlainSubscriptions:
    """A hub whose one pool is no more than that."""

    def __init__(self) -> None:
        self.queue = HintQueue()
        pools: Any = SimpleNamespace(gateway="g", queues={"p": self.queue})
        self.hub = Subscriptions(cast(Any, None), cast(Any, Poll()), pools, cast(Any, None))

    async def since(self) -> list[tuple[str, str]]:
        """What the pool was told since the last look; nothing is under way then."""
        while self.hub.work:
            await asyncio.gather(*self.hub.work)
            await asyncio.sleep(0)
        told, self.queue.told = self.queue.told, []
        return told


ONE = RequestName("p", "t", "r")


async def test_a_pool_is_told_where_that_changes_how_its_readers_stand():
    """Stuck where all are, reading again with one more, gone with the last."""
    told = PlainSubscriptions()
    hub = told.hub
    followed = hub.join(ONE, "a")
    assert (hub.join(ONE, "a") is followed, followed.head) == (True, 0)
    hub.report(ONE, "stranger", True)
    hub.report(ONE._replace(id="other"), "a", True)
    assert (await told.since(), len(hub)) == ([], 1)
    hub.report(ONE, "a", True)
    hub.report(ONE, "a", True)
    assert await told.since() == [("r", "stuck")]
    hub.join(ONE, "b")
    assert await told.since() == [("r", "reading")]
    hub.report(ONE, "b", True)
    hub.report(ONE, "b", False)
    assert followed.state == "reading"
    await told.since()
    followed.listeners |= {"a": StubReader(), "b": StubReader()}
    hub.leave(ONE, "b")
    assert (await told.since(), list(followed.listeners)) == ([("r", "stuck")], ["a"])
    hub.leave(ONE, "b")
    hub.leave(ONE, "a")
    hub.leave(ONE, "a")
    assert (await told.since(), len(hub), followed.stuck, followed.listeners) == (
        [("r", "gone")],
        0,
        set(),
        {},
    )


async def test_a_pool_is_told_nothing_of_what_has_ended():
    """Neither how its readers stand nor that they are gone."""
    told = PlainSubscriptions()
    followed = told.hub.join(ONE, "a")
    followed.news([Entry(1, EntryKind.END)], 1)
    told.hub.report(ONE, "a", True)
    told.hub.leave(ONE, "a")
    assert await told.since() == []


async def test_who_comes_back_at_once_is_not_gone():
    """Before the pool was told."""
    told = PlainSubscriptions()
    told.hub.join(ONE, "a")
    told.hub.leave(ONE, "a")
    told.hub.join(ONE, "b")
    assert await told.since() == []


async def test_a_record_that_is_gone_breaks_its_readers_once():
    """One that was never seen does not: it may be on its way. What the pool knows is news."""
    told, reader = PlainSubscriptions(), StubReader()
    followed = told.hub.join(ONE, reader)
    followed.listeners[reader] = reader

    async def looked() -> tuple[int | None, list[int], int]:
        told.hub.report(ONE, reader, followed.state == "reading")
        await told.since()
        return followed.epoch, reader.heads, reader.breaks

    assert await looked() == (None, [], 0)
    told.queue.view = SimpleNamespace(status=RequestStatus.RUNNING, epoch=4, ended=False, head=7)
    assert await looked() == (4, [7], 0)
    told.queue.view = None
    assert await looked() == (None, [7], 1)
    assert await looked() == (None, [7], 1)
    told.queue.view = SimpleNamespace(status=RequestStatus.ENDED, epoch=5, ended=True, head=9)
    assert await looked() == (5, [7, 9], 1)
    assert followed.ended


async def test_hints_are_news_of_the_log_that_is_read():
    """Of another incarnation they are a reason to look; so is a move."""
    told, reader = PlainSubscriptions(), StubReader()
    followed = told.hub.join(ONE, reader)
    followed.listeners[reader] = reader
    told.queue.view = SimpleNamespace(status=RequestStatus.RUNNING, epoch=2, ended=False, head=0)

    async def hinted(id: str, epoch: int, dest: str = "") -> tuple[list[int], list[tuple[str, str]]]:
        take = told.hub._take  # pyright: ignore[reportPrivateUsage]
        take(Hint("p", "t", id, [Entry(3, EntryKind.TEXT)], 3, epoch, dest))
        reader.heads.clear()
        take(Hint("p", "t", id, [Entry(4, EntryKind.TEXT)], 4, epoch, dest))
        heads = list(reader.heads)
        return heads, (await told.since())[:1]

    assert await hinted("other", 1) == ([], [])
    assert await hinted("r", 1) == ([4], [])
    assert await hinted("r", 1, "q") == ([4], [("r", "reading")])
    assert (followed.epoch, reader.breaks) == (2, 0)
    assert await hinted("r", 1) == ([], [("r", "reading")])
    assert await hinted("r", 2) == ([4], [])


async def test_what_was_quiet_for_a_poll_is_looked_at():
    """All of it, however much; what ended is not, nor what was heard of since."""
    with watch_in_hand() as watch:
        told = PlainSubscriptions()
        poll = told.hub._poll  # pyright: ignore[reportPrivateUsage]
        quiet = {f"r{number}" for number in range(2 * POLLS_AT_ONCE_MAX + 1)}
        for id in quiet:
            told.hub.join(ONE._replace(id=id), "a")
        told.hub.join(ONE._replace(id="ended"), "a").ended = True
        watch.ms += 999
        await poll()
        assert told.queue.told == []
        watch.ms += 1
        told.hub.join(ONE._replace(id="fresh"), "a")
        await poll()
        assert sorted(told.queue.told) == sorted((id, "reading") for id in quiet)

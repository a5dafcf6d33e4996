"""One request that several connections of a gateway read: what they are told of it. Pure."""

import pytest

from engine.api import Entry, EntryKind
from server.hub import Followed, Name
from tests.support.watch import watch_in_hand


class Reader:
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


def followed(name: str, epoch: int | None) -> tuple[Followed, Reader]:
    """A request in this incarnation, and who reads it."""
    found, reader = Followed(Name("p", "t", name)), Reader()
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
    one.holders.add(Reader())
    assert one.state == "reading"
    one.holders.clear()
    assert one.state == "reading"

"""A journal's bytes: whatever happens to a file, what is whole comes back, and nothing else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.redis.unreadable import Unreadable
from engine.queue import journaled_ends
from engine.queue.journaled_ends import (
    FALSE_FRAMES_MAX,
    FALSE_PER_BYTE,
    HEAD,
    MAGIC,
    MARK,
    PAYLOAD_BYTES_MAX,
    JournalContents,
    JournaledEnd,
    contents,
    frame,
)

names = st.text(max_size=20)
places = st.just("") | st.from_regex(r"[0-9]{1,19}-[0-9]{1,19}", fullmatch=True)
ends = st.builds(JournaledEnd, names, names, names, places, st.binary(max_size=200))
files = st.lists(ends, max_size=8)


def a_file(found: list[JournaledEnd]) -> bytes:
    """As a journal writes it."""
    return MAGIC + b"".join(map(frame, found))


def read(data: bytes) -> JournalContents:
    """What a journal's file holds."""
    found = contents(data)
    assert isinstance(found, JournalContents)
    return found


@given(files)
def test_what_was_written_is_read(found: list[JournaledEnd]):
    """All of it, in its order."""
    assert read(a_file(found)) == JournalContents(found)


@given(files, st.data())
def test_a_torn_tail_is_cut_cleanly(found: list[JournaledEnd], data: st.DataObject):
    """Of a file that ends anywhere, each whole end comes back, and the rest is no damage."""
    whole = a_file(found)
    kept = data.draw(st.integers(0, len(whole)))
    torn = read(whole[:kept])
    sizes = [len(a_file(found[: n + 1])) for n in range(len(found))]
    count = sum(size <= kept for size in sizes)
    assert list(torn.ends) == found[:count]
    assert torn.damaged == 0
    before = [len(MAGIC), *sizes][count] if kept >= len(MAGIC) else 0
    assert torn.torn == kept - before


@given(files.filter(bool), st.data())
def test_a_flipped_bit_costs_its_own_end_alone(found: list[JournaledEnd], data: st.DataObject):
    """No other end is lost, and none comes back otherwise than it was written."""
    whole = bytearray(a_file(found))
    bit = data.draw(st.integers(0, len(whole) * 8 - 1))
    whole[bit // 8] ^= 1 << bit % 8
    damaged = (
        read(bytes(whole)) if contents(bytes(whole)) != Unreadable("journal", "no whole frame") else None
    )
    came = list(damaged.ends) if damaged else []
    lost = [end for end in found if came.count(end) < found.count(end)]
    assert all(came.count(end) <= found.count(end) for end in came)
    assert len(set(map(repr, lost))) <= 1
    assert len(found) - len(came) <= 1


@given(files, st.binary(max_size=300), st.data())
def test_what_is_put_between_is_no_end(found: list[JournaledEnd], noise: bytes, data: st.DataObject):
    """Noise in a file is counted; what was written around it comes back."""
    at = data.draw(st.integers(0, len(found)))
    mixed = a_file(found[:at]) + noise + b"".join(map(frame, found[at:]))
    assert [end for end in read(mixed).ends if end in found] == found


@given(st.binary(max_size=2_000))
def test_garbage_is_refused_by_its_kind(data: bytes):
    """A file of anything is no journal: it is said so, and nothing is raised."""
    found = contents(b"x" + data)
    assert isinstance(found, Unreadable)
    assert str(found) == "journal cannot be read (no whole frame)"


def test_the_largest_event_that_the_biller_takes_fits():
    """1 MiB, with what names it."""
    largest = JournaledEnd("t" * 200, "r" * 200, "m" * 40, "1-0", bytes(1 << 20))
    assert read(a_file([largest])) == JournalContents([largest])
    assert PAYLOAD_BYTES_MAX == 1_048_576 + 4_096


def test_a_length_beyond_all_events_is_damage():
    """Nobody waits for it, and what follows is found."""
    good = JournaledEnd("t", "r", "m", "1-0", b"event")
    huge = HEAD.pack(MARK, PAYLOAD_BYTES_MAX + 1, 0)
    found = read(a_file([good]) + huge + frame(good))
    assert (list(found.ends), found.damaged, found.torn) == ([good, good], HEAD.size, 0)
    assert read(a_file([]) + huge).damaged == HEAD.size


@pytest.mark.parametrize("length", [0, 100, 500_000, PAYLOAD_BYTES_MAX])
def test_false_heads_cost_no_more_than_a_few_times_the_file(length: int, monkeypatch: pytest.MonkeyPatch):
    """However many heads there are and however long they say their frames are: then it is no journal."""
    hashed = 0
    checksum = journaled_ends._checksum  # pyright: ignore[reportPrivateUsage]

    def counted(length: int, payload: bytes) -> int:
        nonlocal hashed
        hashed += len(payload)
        return checksum(length, payload)

    monkeypatch.setattr(journaled_ends, "_checksum", counted)
    made_up = MAGIC + HEAD.pack(MARK, length, 1) * (3 * 2**20 // HEAD.size)
    found = contents(made_up)
    assert hashed <= FALSE_PER_BYTE * len(made_up) + (FALSE_FRAMES_MAX + 1) * PAYLOAD_BYTES_MAX
    assert isinstance(found, Unreadable) == (length > 0)


def test_a_file_of_which_many_heads_are_damaged_is_read():
    """Each costs its own end alone."""
    good = JournaledEnd("t", "r", "m", "1-0", b"event" * 100)
    damaged = bytearray(frame(good))
    damaged[-1] ^= 1
    found = read(a_file([good]) + bytes(damaged) * 1_000 + frame(good))
    assert (list(found.ends), found.damaged) == ([good, good], 1_000 * len(damaged))

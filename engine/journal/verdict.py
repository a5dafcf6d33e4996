"""Decides what to do with a journal's ends, by what Redis has and what is known of what it had. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from engine.queue.journaled_ends import JournaledEnd
from engine.queue.types import Watermark

Id = tuple[int, int]
NOTHING: Id = (0, 0)


class SegmentVerdict(Enum):
    """DONE: all of it is billed or held, and the file may go. WAITS: the biller has not acknowledged all of
    it. LOST: Redis no longer has the memory it was written to, so its ends are to be brought back."""

    DONE = auto()
    WAITS = auto()
    LOST = auto()


@dataclass(frozen=True)
class SortedEnds:
    """The ends of a file that still matter: those to bring back, and those that Redis still has."""

    lost: Sequence[JournaledEnd]
    waiting: Sequence[JournaledEnd]


def id_of(text: str) -> Id:
    """A stream's id; an invalid one counts as above all that is acknowledged."""
    milliseconds, _, sequence = text.partition("-")
    if milliseconds.isdecimal() and sequence.isdecimal():
        return int(milliseconds), int(sequence)
    return 1 << 64, 0


def last_ids(ends: Iterable[JournaledEnd]) -> dict[str, Id]:
    """The last id of each memory that a file names."""
    found: dict[str, Id] = {}
    for end in ends:
        found[end.memory] = max(found.get(end.memory, NOTHING), id_of(end.id))
    return found


def verdict(last: Mapping[str, Id], now: Watermark, before: Mapping[str, Id]) -> SegmentVerdict:
    """Verdict on a file, by the last id of each memory in it. `before`: the biller's position in other
    memories when they were last looked at."""
    if any(id >= before.get(memory, NOTHING) for memory, id in last.items() if memory != now.memory):
        return SegmentVerdict.LOST
    return (
        SegmentVerdict.WAITS if now.memory in last and last[now.memory] >= now.below else SegmentVerdict.DONE
    )


def split_ends(ends: Sequence[JournaledEnd], now: Watermark, before: Mapping[str, Id]) -> SortedEnds:
    """Unacknowledged ends, each once, in their order."""
    lost: dict[tuple[str, str, str], JournaledEnd] = {}
    waiting: dict[tuple[str, str, str], JournaledEnd] = {}
    for end in ends:
        key = (end.memory, end.id, end.request)
        if end.memory != now.memory and id_of(end.id) >= before.get(end.memory, NOTHING):
            lost.setdefault(key, end)
        elif end.memory == now.memory and id_of(end.id) >= now.below:
            waiting.setdefault(key, end)
    return SortedEnds([*lost.values()], [*waiting.values()])

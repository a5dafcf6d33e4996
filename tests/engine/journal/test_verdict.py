"""What becomes of a journal's ends: cut, kept or brought back, by what Redis has now and had before."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from engine.journal.verdict import Id, SegmentVerdict, id_of, last_ids, split_ends, verdict
from engine.queue.journaled_ends import JournaledEnd
from engine.queue.types import Watermark

NOW = Watermark("2.0", (50, 3))
ids = st.tuples(st.integers(1, 99), st.integers(0, 9))
marks = st.dictionaries(st.sampled_from(["1.0", "1.1"]), ids)


def an_end(id: str, memory: str = "2.0", request: str = "r1") -> JournaledEnd:
    """Of tenant t1."""
    return JournaledEnd("t1", request, memory, id, b"event")


ends = st.lists(
    st.builds(
        lambda id, memory, request: an_end(f"{id[0]}-{id[1]}", memory, request),
        ids,
        st.sampled_from(["1.0", "1.1", "2.0"]),
        st.sampled_from(["r1", "r2"]),
    ),
    max_size=12,
)


def judged(found: Sequence[JournaledEnd], before: dict[str, Id]) -> SegmentVerdict:
    """Of a file with these."""
    return verdict(last_ids(found), NOW, before)


def test_a_file_goes_once_the_biller_has_acknowledged_all_of_it():
    """Its last end decides, and only of the memory that Redis has."""
    assert judged([an_end("50-2"), an_end("49-9")], {}) is SegmentVerdict.DONE
    assert judged([an_end("50-2"), an_end("50-3")], {}) is SegmentVerdict.WAITS
    assert judged([], {}) is SegmentVerdict.DONE


def test_what_another_memory_had_is_brought_back_unless_it_was_acknowledged_there():
    """How far the biller was in it is known to who looked; who did not look takes it for lost."""
    assert judged([an_end("7-0", "1.0")], {}) is SegmentVerdict.LOST
    assert judged([an_end("7-0", "1.0")], {"1.0": (7, 0)}) is SegmentVerdict.LOST
    assert judged([an_end("7-0", "1.0")], {"1.0": (7, 1)}) is SegmentVerdict.DONE
    assert judged([an_end("7-0", "1.0"), an_end("60-0")], {"1.0": (7, 1)}) is SegmentVerdict.WAITS


def test_the_least_id_of_a_memory_that_nobody_knows_is_brought_back():
    """Of it nothing is known to be acknowledged."""
    first = an_end("0-0", "1.0")
    assert last_ids([first]) == {"1.0": (0, 0)}
    assert judged([first], {}) is SegmentVerdict.LOST
    assert split_ends([first], NOW, {}).lost == [first]


def test_the_last_id_of_a_memory_is_its_greatest_whatever_comes_after_it():
    """Ends of several writers are in a file as they came."""
    later, earlier = an_end("9-1", "1.0"), an_end("2-0", "1.0", "r2")
    assert last_ids([later, earlier]) == last_ids([earlier, later]) == {"1.0": (9, 1)}


def test_the_first_that_was_not_acknowledged_elsewhere_is_brought_back():
    """The watermark is the first id that is not: below it nothing is, from it on all."""
    first, acknowledged = an_end("5-0", "1.0"), an_end("4-9", "1.0", "r2")
    assert split_ends([acknowledged, first], NOW, {"1.0": (5, 0)}).lost == [first]


def test_an_id_that_is_none_is_never_acknowledged():
    """Nobody but us writes them, but a file is anybody's bytes."""
    assert all(id_of(text) > (1 << 63, 0) for text in ("", "x", "1", "1-", "-1", "١-٢x", "1-2-3"))
    assert id_of("12-3") == (12, 3)


@given(ends, marks)
def test_nothing_is_forgotten_that_is_not_acknowledged(found: list[JournaledEnd], before: dict[str, Id]):
    """Each end is brought back, kept or acknowledged, each once; a file goes once the last is so of all."""
    sorted_ = split_ends(found, NOW, before)
    limits: dict[str, Id] = {**before, NOW.memory: NOW.below}
    for end in found:
        acknowledged = id_of(end.id) < limits.get(end.memory, (0, 0))
        same = (end.memory, end.id, end.request)
        there = [
            each for each in (*sorted_.lost, *sorted_.waiting) if (each.memory, each.id, each.request) == same
        ]
        assert len(there) == (0 if acknowledged else 1)
    assert all(end.memory != NOW.memory for end in sorted_.lost)
    assert all(end.memory == NOW.memory for end in sorted_.waiting)
    expected = (
        SegmentVerdict.LOST
        if sorted_.lost
        else SegmentVerdict.WAITS
        if sorted_.waiting
        else SegmentVerdict.DONE
    )
    assert judged(found, before) is expected

"""Which worker indexes stay, start and drain."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.node.index_fit import ANY, IndexFit, IndexNow, fit, wanted_versions

OLD, READY_OLD, DRAINING = IndexNow(0, "1"), IndexNow(1, "1", True), IndexNow(2, "1", True, True)
CASES = [
    ("nothing runs", [], {"1": 1, "2": 1}, IndexFit({}, [], [(0, "1"), (1, "2")])),
    ("the one that is not ready drains", [OLD, READY_OLD], {"1": 1}, IndexFit({1: "1"}, [0], [])),
    ("else the highest", [READY_OLD, IndexNow(4, "1", True)], {"1": 1}, IndexFit({1: "1"}, [4], [])),
    ("a place that drains is no free one", [OLD, DRAINING], {"1": 1, "2": 1}, IndexFit({0: "1"}, [], [])),
    ("beside one that drains", [OLD, DRAINING], {"1": 1, "2": 2}, IndexFit({0: "1"}, [], [(1, "2")])),
    ("in the place of another", [OLD], {"2": 1}, IndexFit({}, [0], [])),
    ("any version will do", [OLD, READY_OLD], {ANY: 3}, IndexFit({0: "1", 1: "1"}, [], [(2, ANY)])),
    ("what has no version yet gets one", [IndexNow(0, ANY)], {"2": 1}, IndexFit({0: "2"}, [], [])),
    ("which has its own first", [IndexNow(0, ANY), READY_OLD], {"1": 1}, IndexFit({1: "1"}, [0], [])),
]


@pytest.mark.parametrize(
    ("running", "wanted", "found"), [case[1:] for case in CASES], ids=[c[0] for c in CASES]
)
def test_indexes_fit_what_is_wanted(running: list[IndexNow], wanted: dict[str, int], found: IndexFit):
    """One version after the other; what nobody wants drains."""
    assert fit(running, wanted) == found


VERSIONS = st.sampled_from(["1", "2", ANY])
RUNNING = st.dictionaries(st.integers(0, 6), st.tuples(VERSIONS, st.booleans(), st.booleans()))


@given(running=RUNNING, wanted=st.dictionaries(VERSIONS, st.integers(1, 4)))
def test_any_indexes_get_where_they_should_be(
    running: dict[int, tuple[str, bool, bool]], wanted: dict[str, int]
):
    """In two steps: what drains is gone, and what was missing has begun. There are never more than wanted of
    those that were there or begin, and what is told never depends on what runs."""
    now = [IndexNow(index, *facts) for index, facts in running.items()]
    first = fit(now, wanted)
    assert len(now) + len(first.start) <= max(len(now), sum(wanted.values()))
    assert sum(wanted_versions(now, wanted).values()) == sum(wanted.values())
    then = [IndexNow(index, version) for index, version in (*first.versions.items(), *first.start)]
    second = fit(then, wanted)
    assert (len(second.versions) + len(second.start), second.drain) == (sum(wanted.values()), [])

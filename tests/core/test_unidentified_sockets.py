"""Sockets that have not shown who they are: bounded by address and over all; silent ones make room."""

from hypothesis import given
from hypothesis import strategies as st

from core.network.unidentified_sockets import GRACE_SECONDS, UnidentifiedSockets
from tests.core.bucket_clock import BucketClock


class BoundedSockets:
    """Unidentified sockets, and those put out."""

    def __init__(self, per_address_max: int, most: int) -> None:
        self.clock = BucketClock()
        self.out: list[str] = []
        self.sockets = UnidentifiedSockets(per_address_max, most, self.clock)

    def enter(self, who: str, address: str | None) -> bool:
        """See UnidentifiedSockets."""
        full = self.sockets.full(address)
        came = self.sockets.enter(who, address, lambda: self.out.append(who))
        assert came is not full
        return came


def test_the_oldest_silent_one_of_an_address_makes_room_there():
    bounded = BoundedSockets(2, 100)
    assert bounded.enter("other", "b")
    assert bounded.enter("a1", "a")
    assert bounded.enter("a2", "a")
    assert not bounded.enter("a3", "a"), "who came a moment ago may stay"
    bounded.clock.now += GRACE_SECONDS
    assert bounded.enter("a3", "a")
    assert bounded.out == ["a1"]
    assert bounded.enter("b2", "b"), "an address of its own"


def test_over_all_the_oldest_silent_one_makes_room():
    bounded = BoundedSockets(0, 2)
    assert bounded.enter("a1", "a")
    assert bounded.enter("b1", None)
    assert not bounded.enter("c1", "c")
    bounded.clock.now += GRACE_SECONDS
    assert bounded.enter("c1", "c")
    assert bounded.out == ["a1"]


def test_who_speaks_is_not_put_out_and_still_counts():
    bounded = BoundedSockets(2, 100)
    bounded.enter("a1", "a")
    bounded.enter("a2", "a")
    bounded.sockets.spoke("a1")
    bounded.clock.now += GRACE_SECONDS
    assert bounded.enter("a3", "a")
    assert bounded.out == ["a2"]
    bounded.sockets.spoke("a3")
    bounded.clock.now += GRACE_SECONDS
    assert not bounded.enter("a4", "a")
    bounded.sockets.left("a1")
    assert bounded.enter("a4", "a")


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["enter", "spoke", "left", "wait"]), st.integers(0, 20), st.sampled_from("abc")
        ),
        max_size=80,
    )
)
def test_it_never_holds_more_than_it_may_and_forgets_who_left(steps: list[tuple[str, int, str]]):
    bounded, here = BoundedSockets(3, 5), dict[str, str]()
    for step, number, address in steps:
        who = f"{address}{number}"
        match step:
            case "enter" if who not in here:
                if bounded.enter(who, address):
                    here[who] = address
            case "spoke":
                bounded.sockets.spoke(who)
            case "left":
                bounded.sockets.left(who)
                here.pop(who, None)
            case _:
                bounded.clock.now += 0.6
        for gone in bounded.out:
            here.pop(gone, None)
        bounded.out.clear()
        assert len(bounded.sockets) == len(here) <= 5
        assert all(list(here.values()).count(each) <= 3 for each in "abc")
    for who in list(here):
        bounded.sockets.left(who)
    assert not any(
        vars(bounded.sockets)[name] for name in ("_places", "_silent", "_of_address", "_silent_of_address")
    )

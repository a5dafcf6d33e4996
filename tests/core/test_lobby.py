"""The lobby: bounded by address and over all, and the silent make room for those who come."""

from hypothesis import given
from hypothesis import strategies as st

from core.network.unidentified_sockets import GRACE_SECONDS, UnprovenSockets
from tests.core.bucket_clock import BucketClock


class LobbyHouse:
    """A lobby, and whom it put out."""

    def __init__(self, per_address_max: int, most: int) -> None:
        self.clock = BucketClock()
        self.out: list[str] = []
        self.lobby = UnprovenSockets(per_address_max, most, self.clock)

    def enter(self, who: str, address: str | None) -> bool:
        """See Lobby."""
        full = self.lobby.full(address)
        came = self.lobby.enter(who, address, lambda: self.out.append(who))
        assert came is not full
        return came


def test_the_oldest_silent_one_of_an_address_makes_room_there():
    house = LobbyHouse(2, 100)
    assert house.enter("other", "b")
    assert house.enter("a1", "a")
    assert house.enter("a2", "a")
    assert not house.enter("a3", "a"), "who came a moment ago may stay"
    house.clock.now += GRACE_SECONDS
    assert house.enter("a3", "a")
    assert house.out == ["a1"]
    assert house.enter("b2", "b"), "an address of its own"


def test_over_all_the_oldest_silent_one_makes_room():
    house = LobbyHouse(0, 2)
    assert house.enter("a1", "a")
    assert house.enter("b1", None)
    assert not house.enter("c1", "c")
    house.clock.now += GRACE_SECONDS
    assert house.enter("c1", "c")
    assert house.out == ["a1"]


def test_who_speaks_is_not_put_out_and_still_counts():
    house = LobbyHouse(2, 100)
    house.enter("a1", "a")
    house.enter("a2", "a")
    house.lobby.spoke("a1")
    house.clock.now += GRACE_SECONDS
    assert house.enter("a3", "a")
    assert house.out == ["a2"]
    house.lobby.spoke("a3")
    house.clock.now += GRACE_SECONDS
    assert not house.enter("a4", "a")
    house.lobby.left("a1")
    assert house.enter("a4", "a")


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["enter", "spoke", "left", "wait"]), st.integers(0, 20), st.sampled_from("abc")
        ),
        max_size=80,
    )
)
def test_it_never_holds_more_than_it_may_and_forgets_who_left(steps: list[tuple[str, int, str]]):
    house, here = LobbyHouse(3, 5), dict[str, str]()
    for step, number, address in steps:
        who = f"{address}{number}"
        match step:
            case "enter" if who not in here:
                if house.enter(who, address):
                    here[who] = address
            case "spoke":
                house.lobby.spoke(who)
            case "left":
                house.lobby.left(who)
                here.pop(who, None)
            case _:
                house.clock.now += 0.6
        for gone in house.out:
            here.pop(gone, None)
        house.out.clear()
        assert len(house.lobby) == len(here) <= 5
        assert all(list(here.values()).count(each) <= 3 for each in "abc")
    for who in list(here):
        house.lobby.left(who)
    assert not any(
        vars(house.lobby)[name] for name in ("_places", "_silent", "_of_address", "_silent_of_address")
    )

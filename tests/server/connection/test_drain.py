"""How a gateway that stops is left."""

from typing import Any

import pytest

from core.network.unidentified_sockets import UnidentifiedSockets
from server.connection.drain import drain
from server.connection.registry import ConnectionRegistry
from server.session.events import DrainStarted
from tests.server.virtual.loop import passed, played

SECONDS = 10.0


class LeavingPeer:
    """A connection, and when it was asked to go on elsewhere. `goes`: it does."""

    def __init__(self, registry: ConnectionRegistry, name: int, goes: bool) -> None:
        self.id = self.address = str(name)
        self.asked = list[tuple[float, int]]()
        self._registry = registry
        self._goes = goes

    def feed(self, event: Any) -> None:
        """See OpenSocket."""
        assert isinstance(event, DrainStarted)
        self.asked.append((passed(), event.in_ms))
        if self._goes:
            self._registry.leave(self)  # pyright: ignore[reportArgumentType]  (as much of one as this takes)

    def put_out(self) -> None:
        """See OpenSocket."""


def drained(peers: int, goes: bool) -> tuple[list[tuple[float, int]], float]:
    """When each was asked, with the milliseconds left, in order; and when the drain was over."""

    async def whole() -> tuple[list[tuple[float, int]], float]:
        registry = ConnectionRegistry(UnidentifiedSockets(0, 0))
        here: list[Any] = [LeavingPeer(registry, name, goes) for name in range(peers)]
        for each in here:
            registry.enter(each)
        await drain(registry, SECONDS)
        return sorted(asked for each in here for asked in each.asked), passed()

    return played(whole())


def test_clients_are_asked_one_after_the_other_in_the_first_half():
    """Balancers know first, and the last one asked has half of the time. It is over when all have gone."""
    asked, over = drained(peers=4, goes=True)
    assert [at for at, _ in asked] == pytest.approx([1.0, 2.0, 3.0, 4.0])
    assert [left_ms for _, left_ms in asked] == pytest.approx([9_000, 8_000, 7_000, 6_000], abs=1)
    assert over == pytest.approx(4.0, abs=0.1)


def test_who_does_not_go_is_waited_for_until_the_time_is_up():
    """And asked once. Where nobody is, nothing is waited for."""
    asked, over = drained(peers=2, goes=False)
    assert [at for at, _ in asked] == pytest.approx([1.0, 3.0])
    assert over == pytest.approx(SECONDS, abs=0.1)
    assert drained(peers=0, goes=False) == ([], 0.0)

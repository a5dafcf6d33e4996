"""Which connections a gateway has, and what its metrics and its end see of them."""

from types import SimpleNamespace
from typing import Any

import pytest

from core.network.unidentified_sockets import UnidentifiedSockets
from server.connection.registry import ConnectionRegistry
from tests.support.watch import StubClock


def socket(name: str, sent: int = 0) -> Any:
    """A connection from an address of its own, with so much on its way."""
    return SimpleNamespace(
        id=name, address=f"192.0.2.{ord(name)}", put_out=None, bytes_in_flight=lambda: sent
    )


def figures(registry: ConnectionRegistry) -> tuple[int, int, int, int]:
    """As metrics see them: connections, sessions, bytes on their way, those a drain waits for."""
    return (
        registry.connections_open(),
        registry.sessions_open(),
        registry.bytes_in_flight(),
        registry.drain_remaining(),
    )


def test_a_connection_has_a_session_from_its_hello_to_its_end(watch: StubClock):
    """Before that it has one of few places, and nothing of it counts as on its way."""
    registry, a, b, record = (
        ConnectionRegistry(UnidentifiedSockets(0, 2)),
        socket("a", 5),
        socket("b", 7),
        object(),
    )
    assert (registry.enter(a), registry.enter(b), registry.enter(socket("c"))) == (True, True, False)
    registry.leave(socket("c"))
    assert (figures(registry), registry.sessions()) == ((2, 0, 0, 0), [])
    held: Any = record
    registry.admit(a, held)
    assert registry.enter(socket("d")), "who said hello makes room"
    assert (figures(registry), registry.sessions()) == ((3, 1, 5, 0), [(a, record)])
    assert (registry.find("a"), registry.find("b"), registry.find("c")) == (a, b, None)
    registry.leave(a)
    assert (figures(registry), registry.find("a")) == ((2, 0, 0, 0), None)
    registry.leave(a)
    assert [each.id for each in registry.sockets()] == ["b", "d"]


def test_what_is_left_of_a_drain_is_never_less_than_nothing(watch: StubClock):
    """It waits for every connection, those before hello, too."""
    registry = ConnectionRegistry(UnidentifiedSockets(0, 0))
    registry.enter(socket("a"))
    assert (registry.draining, registry.drain_left_ms(), registry.busy) == (False, 0, True)
    registry.start_draining(2.5)
    assert (registry.draining, registry.drain_left_ms(), registry.drain_remaining()) == (True, 2_500, 1)
    watch.ms += 2_400
    assert registry.drain_left_ms() == pytest.approx(100, abs=1)
    watch.ms += 200
    registry.leave(socket("a"))
    assert (registry.drain_left_ms(), registry.drain_remaining(), registry.busy) == (0, 0, False)


async def test_a_gateway_is_busy_while_work_of_those_who_left_goes_on():
    """It ends with the last of it."""
    registry = ConnectionRegistry(UnidentifiedSockets(0, 0))

    async def nothing() -> None:
        pass

    task = registry.work.start(nothing())
    assert registry.busy
    await task
    assert not registry.busy

"""Drains a gateway that stops: its clients go on elsewhere one after the other, not all at once."""

import asyncio
import random

from core.clock import monotonic
from server.connection.registry import ConnectionRegistry
from server.session.events import DrainStarted

LOOK_SECONDS = 0.02
LEAD = 0.1


async def drain(connections: ConnectionRegistry, seconds: float) -> None:
    """Ask every client to go on elsewhere, spread over the first half of `seconds`.

    It begins a moment later, when balancers know. Returns when all have gone, or been closed because the
    time is up."""
    began = monotonic()
    connections.start_draining(seconds)
    leaving = connections.sockets()
    random.shuffle(leaving)
    first = began + seconds * LEAD
    gap = seconds * (0.5 - LEAD) / max(1, len(leaving))
    for at, socket in enumerate(leaving):
        await asyncio.sleep(max(0.0, first + at * gap - monotonic()))
        if connections.find(socket.id) is not None:
            socket.feed(DrainStarted(connections.drain_left_ms()))
        if not connections.connections_open():
            break
    while connections.busy and connections.drain_left_ms():  # noqa: ASYNC110  (many things make it idle; this runs once)
        await asyncio.sleep(LOOK_SECONDS)

"""A server that takes a connection and then says nothing more, whatever is sent."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from tests.support.patience import wait_until


@dataclass
class HoldingOut:
    """`came`: somebody is kept waiting; `left`: and has hung up."""

    port: int = 0
    came: asyncio.Event = field(default_factory=asyncio.Event)
    left: asyncio.Event = field(default_factory=asyncio.Event)


@asynccontextmanager
async def holding_out(greeting: bytes = b"", heard: int = 1) -> AsyncGenerator[HoldingOut]:
    """Says `greeting` and no more, once it heard so many bytes (0: at once)."""
    server = HoldingOut()
    sockets: list[Any] = []

    async def hold_out(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        sockets.append(writer.get_extra_info("socket"))
        writer.write(greeting)
        await reader.readexactly(heard)
        server.came.set()
        with suppress(ConnectionError):
            await reader.read()
        server.left.set()
        writer.close()

    async with await asyncio.start_server(hold_out, "127.0.0.1", 0) as listening:
        server.port = listening.sockets[0].getsockname()[1]
        yield server
        await closed(sockets)


async def closed(sockets: Sequence[Any]) -> None:
    """Wait until these, of clients that have gone, are closed: the end of a loop would leave one open."""
    await wait_until(lambda: all(each.fileno() == -1 for each in sockets))

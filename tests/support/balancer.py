"""A TCP balancer: every new connection goes to a gateway whose /readyz answers 200, and stays there.

It looks into nothing. When one side of a connection ends, so does the other, as behind a real load balancer.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Protocol

import httpx

CHECK_SECONDS = 0.1
CHECK_SECONDS_MAX = 2.0
CHUNK_BYTES = 64 * 1024


class Backend(Protocol):
    """Where connections go."""

    @property
    def port(self) -> int:
        """On the loopback."""
        ...


class PortBalancer:
    """`ready` holds the ports that take new connections; `carried` counts connections by port."""

    def __init__(self, backends: Sequence[Backend]) -> None:
        self.port = 0
        self.ready: list[int] = []
        self.carried: dict[int, int] = {}
        self._backends = backends
        self._turn = 0
        self._pipes: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        """Where clients connect."""
        return f"http://127.0.0.1:{self.port}"

    async def check(self) -> None:
        """Ask every backend once."""
        async with httpx.AsyncClient(timeout=CHECK_SECONDS_MAX) as client:
            ports = [backend.port for backend in self._backends]
            answers = await asyncio.gather(*(_is_ready(client, port) for port in ports))
        self.ready = [port for port, ready in zip(ports, answers, strict=True) if ready]

    async def watch(self, check_seconds: float) -> None:
        """Ask again and again, for ever."""
        while True:
            await self.check()
            await asyncio.sleep(check_seconds)

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry one client's connection."""
        task = asyncio.current_task()
        assert task is not None
        self._pipes.add(task)
        try:
            await self._carry(reader, writer)
        finally:
            self._pipes.discard(task)
            writer.transport.abort()

    def cut(self) -> None:
        """Cut every connection that is open now."""
        for pipe in self._pipes:
            pipe.cancel()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        opened = await self._open()
        if opened is None:
            return
        there, to_there = opened
        ways = [asyncio.create_task(_copy(reader, to_there)), asyncio.create_task(_copy(there, writer))]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            with suppress(ConnectionError):
                await writer.drain()
            writer.close()
        except asyncio.CancelledError:
            return
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            to_there.transport.abort()

    async def _open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        """The next backend in turn that takes a connection."""
        ports = self.ready
        for _ in range(len(ports)):
            self._turn += 1
            port = ports[self._turn % len(ports)]
            with suppress(OSError):
                opened = await asyncio.open_connection("127.0.0.1", port)
                self.carried[port] = self.carried.get(port, 0) + 1
                return opened
        return None


@asynccontextmanager
async def running_balancer(
    backends: Sequence[Backend], check_seconds: float = CHECK_SECONDS
) -> AsyncGenerator[PortBalancer]:
    """A balancer on a free loopback port; leaving the block cuts what it carries."""
    balancer = PortBalancer(backends)
    await balancer.check()
    server = await asyncio.start_server(balancer.take, "127.0.0.1", 0, backlog=2048)
    balancer.port = server.sockets[0].getsockname()[1]
    watching = asyncio.create_task(balancer.watch(check_seconds))
    try:
        yield balancer
    finally:
        watching.cancel()
        server.close()
        balancer.cut()
        await asyncio.gather(watching, return_exceptions=True)
        await server.wait_closed()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(CHUNK_BYTES):
            writer.write(data)
            await writer.drain()


async def _is_ready(client: httpx.AsyncClient, port: int) -> bool:
    try:
        return (await client.get(f"http://127.0.0.1:{port}/readyz")).status_code == 200
    except httpx.HTTPError:
        return False

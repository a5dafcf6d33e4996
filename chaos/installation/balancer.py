"""A TCP balancer: each new connection goes to a gateway whose /readyz answers 200, and stays there.

It looks into nothing that it carries. When one side of a connection ends, so does the other once it has what
was sent before, as behind a real load balancer.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit
from weakref import WeakSet

import httpx

from core.tasks import TaskSet

CHECK_SECONDS = 0.1
CHECK_SECONDS_MAX = 2.0
CONNECT_SECONDS_MAX = 5.0
BACKLOG = 2048


class Side(asyncio.Protocol):
    """One side of a carried connection; what it receives goes to the other. Clients' sides have a number."""

    def __init__(self, number: int = 0) -> None:
        self.number = number
        self.transport: Any = None
        self.other: Side | None = None
        self._early: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio.Protocol."""
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        """To the other side; kept while that is still being connected, and then nothing more is read."""
        if self.other is not None:
            self.other.transport.write(data)
        else:
            self._early.append(data)
            self.transport.pause_reading()

    def eof_received(self) -> bool:
        """The other side may still have something to say."""
        if self.other is not None and self.other.transport.can_write_eof():
            self.other.transport.write_eof()
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        """Close the other side, after what was written to it."""
        if self.other is not None:
            self.other.transport.close()

    def pause_writing(self) -> None:
        """Our peer is slow: the other side's waits."""
        if self.other is not None:
            self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        """Our peer has caught up."""
        if self.other is not None and not self.other.transport.is_closing():
            self.other.transport.resume_reading()

    def join(self, other: "Side") -> None:
        """Carry both ways from now on."""
        self.other, other.other = other, self
        if self.transport.is_closing():
            other.transport.close()
            return
        if self._early:
            other.transport.write(b"".join(self._early))
            self._early.clear()
            self.transport.resume_reading()


class Balancer:
    """`ready`: where new connections go, in turns. `carried` counts them by gateway."""

    def __init__(self, gateways: Sequence[str], client: httpx.AsyncClient) -> None:
        self.url = ""
        self.ready: list[str] = []
        self.carried: dict[str, int] = dict.fromkeys(gateways, 0)
        self._gateways = list(gateways)
        self._client = client
        self._turn = 0
        self._accepted = 0
        self._opening = TaskSet()
        self._sides: WeakSet[Side] = WeakSet()

    @property
    def clients(self) -> list[Side]:
        """The clients' sides of what is carried now, oldest first."""
        open_ = [side for side in self._sides if side.other is not None and not side.transport.is_closing()]
        return sorted(open_, key=lambda side: side.number)

    def add(self, gateway: str) -> None:
        """One more gateway, by its http:// URL."""
        self._gateways.append(gateway)
        self.carried[gateway] = 0

    async def check(self) -> None:
        """Ask every gateway once whether it is ready."""
        gateways = list(self._gateways)
        ready = await asyncio.gather(*(_is_ready(self._client, url) for url in gateways))
        self.ready = [url for url, yes in zip(gateways, ready, strict=True) if yes]

    async def watch(self) -> None:
        """Ask again and again, for ever."""
        while True:
            await self.check()
            await asyncio.sleep(CHECK_SECONDS)

    def accept(self) -> Side:
        """A client's side, to be joined with a gateway's."""
        self._accepted += 1
        side = Side(self._accepted)
        self._sides.add(side)
        self._opening.start(self._open(side))
        return side

    async def _open(self, client: Side) -> None:
        loop = asyncio.get_running_loop()
        for _ in range(len(self.ready)):
            self._turn += 1
            url = self.ready[self._turn % len(self.ready)]
            parts = urlsplit(url)
            assert parts.hostname is not None
            assert parts.port is not None
            try:
                async with asyncio.timeout(CONNECT_SECONDS_MAX):
                    _, side = await loop.create_connection(Side, parts.hostname, parts.port)
            except OSError:
                continue
            self.carried[url] += 1
            client.join(side)
            return
        if client.transport is not None:  # it may have gone meanwhile
            client.transport.abort()


@asynccontextmanager
async def running_balancer(gateways: Sequence[str]) -> AsyncGenerator[Balancer]:
    """A balancer on a free loopback port, in this event loop, before gateways given by their http:// URLs."""
    loop = asyncio.get_running_loop()
    async with httpx.AsyncClient(timeout=CHECK_SECONDS_MAX) as client:
        balancer = Balancer(gateways, client)
        await balancer.check()
        server = await loop.create_server(balancer.accept, "127.0.0.1", 0, backlog=BACKLOG)
        balancer.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        watching = asyncio.create_task(balancer.watch())
        try:
            yield balancer
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
            server.close()


async def _is_ready(client: httpx.AsyncClient, url: str) -> bool:
    try:
        return (await client.get(f"{url}/readyz")).status_code == 200
    except httpx.HTTPError:
        return False

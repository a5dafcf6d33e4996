"""A Redis in this process whose replies the test writes, and which knows which connections are open."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import hiredis
from redis.asyncio import ConnectionPool

from tests.support.patience import wait_until

Answer = Callable[[list[bytes]], bytes | None]


class ScriptedRedis:
    """`answer` makes the bytes of each reply, None: there is none. `connected` lets connections in."""

    def __init__(self) -> None:
        self.port = 0
        self.open: list[asyncio.StreamWriter] = []
        self.accepted = 0
        self.answer: Answer = lambda _: b"+OK\r\n"
        self.greets = asyncio.Event()
        self.greets.set()

    @property
    def pool(self) -> ConnectionPool:
        """For a client."""
        return ConnectionPool.from_url(f"redis://127.0.0.1:{self.port}?protocol=2")

    def say(self, unasked: bytes) -> None:
        """To all that are connected."""
        for writer in self.open:
            writer.write(unasked)

    async def all_gone(self) -> None:
        """Nobody has a connection any more."""
        await wait_until(lambda: not self.open)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, to its end."""
        self.accepted += 1
        self.open.append(writer)
        commands = hiredis.Reader()
        try:
            while data := await reader.read(65536):
                commands.feed(data)
                while isinstance(command := commands.gets(), list):
                    await self.greets.wait()
                    greeting = command[0].upper() in (b"CLIENT", b"HELLO", b"SELECT")
                    writer.write(b"+OK\r\n" if greeting else self.answer(command) or b"")
        except ConnectionError:
            pass
        finally:
            self.open.remove(writer)
            writer.close()


@asynccontextmanager
async def scripted_redis() -> AsyncGenerator[ScriptedRedis]:
    """One that listens on a free port."""
    redis = ScriptedRedis()
    server = await asyncio.start_server(redis.serve, "127.0.0.1", 0)
    redis.port = server.sockets[0].getsockname()[1]
    try:
        yield redis
    finally:
        redis.greets.set()
        server.close()
        for writer in redis.open:
            writer.close()
        await redis.all_gone()

"""A file as the answer of an operation, in pieces that are made while it is sent: it may be of any size."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager


class FileAnswer:
    """`name`: of plain ASCII characters, for whoever saves it; `ended`: called once it is sent, or nobody
    reads on."""

    __slots__ = ("ended", "media_type", "name", "pieces")

    def __init__(
        self,
        name: str,
        media_type: str,
        pieces: AsyncGenerator[bytes],
        ended: Callable[[], object] = lambda: None,
    ) -> None:
        plain = name.isascii() and name.isprintable() and '"' not in name
        assert plain, "a header holds it"
        self.name = name
        self.media_type = media_type
        self.pieces = pieces
        self.ended = ended

    @asynccontextmanager
    async def read(self) -> AsyncGenerator[AsyncGenerator[bytes]]:
        """The pieces, in `async with`."""
        try:
            yield self.pieces
        finally:
            try:
                await self.pieces.aclose()
            finally:
                self.ended()

"""The reply that is a file, sent as it is made: its receiver's pace is the maker's, who waits so long."""

import asyncio

from starlette.responses import StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from core.file_answer import FileAnswer

PIECE_SECONDS_MAX = 30.0  # a receiver that takes no piece for so long holds others up


class FileReply(StreamingResponse):
    """Sends a file for saving. What it was made with is let go when it is sent, or nobody reads on; a file
    that cannot be made to its end breaks off, so that nobody takes it for whole."""

    def __init__(self, file: FileAnswer) -> None:
        headers = {
            "cache-control": "no-store",
            "content-disposition": f'attachment; filename="{file.name}"',
            "x-content-type-options": "nosniff",
        }
        super().__init__(file.pieces, 200, headers, file.media_type)
        self._file = file

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""

        async def send_in_time(message: Message) -> None:
            async with asyncio.timeout(PIECE_SECONDS_MAX):
                await send(message)

        async with self._file.read():
            await super().__call__(scope, receive, send_in_time)

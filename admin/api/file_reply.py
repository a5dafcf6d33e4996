"""The reply that is a file, sent as it is made: its receiver's pace is the maker's, who waits so long."""

import asyncio
import time
from collections.abc import Awaitable, Callable

from starlette.responses import StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from core.file_answer import FileAnswer

STILL_SECONDS = 5.0  # between looks at whether the caller may still have it
PIECE_SECONDS_MAX = 30.0  # a receiver that takes no piece for so long holds others up
GRACE_SECONDS = 60.0  # of waiting for the receiver, before its pace counts
BYTES_PER_SECOND_MIN = 64 << 10  # that it takes from then on, over the whole file
FILE_SECONDS_MAX = 1800.0  # of waiting for it in all; 600 MB take 350 kB a second


class ReceiverPace:
    """Decides how long a file's receiver is waited for. What the file takes to be made is not its time."""

    def __init__(self) -> None:
        self._waited_seconds = 0.0
        self._bytes_taken = 0

    def seconds_left(self) -> float:
        """How long the next piece is waited for; not above 0: no more."""
        earned = GRACE_SECONDS + self._bytes_taken / BYTES_PER_SECOND_MIN
        return min(PIECE_SECONDS_MAX, min(earned, FILE_SECONDS_MAX) - self._waited_seconds)

    def took(self, size_bytes: int, waited_seconds: float) -> None:
        """The receiver took a piece after so long."""
        self._waited_seconds += waited_seconds
        self._bytes_taken += size_bytes


class FileReply(StreamingResponse):
    """Sends a file for saving, as long as its caller may `still` have it. What it was made with is let go
    when it is sent, or nobody reads on; a file that cannot be made to its end, or whose receiver is too slow
    or was removed, breaks off, so that nobody takes it for whole."""

    def __init__(self, file: FileAnswer, still: Callable[[], Awaitable[bool]]) -> None:
        headers = {
            "cache-control": "no-store",
            "content-disposition": f'attachment; filename="{file.name}"',
            "x-content-type-options": "nosniff",
        }
        super().__init__(file.pieces, 200, headers, file.media_type)
        self._file = file
        self._still = still

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI. Raises ClientDisconnect where the receiver is too slow, or may not have it any more."""
        pace, looked = ReceiverPace(), time.monotonic()

        async def send_in_time(message: Message) -> None:
            nonlocal looked
            begun = time.monotonic()
            if begun - looked >= STILL_SECONDS:
                looked = begun
                if not await self._still():
                    raise OSError("who asked for the file may not have it any more")
            async with asyncio.timeout(pace.seconds_left()):
                await send(message)
            pace.took(len(message.get("body", b"")), time.monotonic() - begun)

        async with self._file.read():
            await super().__call__(scope, receive, send_in_time)

"""Reads bodies of calls: only so large, only so long, and only so many of one caller at once, so that nobody
fills this process' memory with what never ends."""

import asyncio
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager

from starlette.requests import Request

from core.errors import Refusal, Refused, bad_request

BODY_BYTES_MAX = 1 << 20
SIGN_IN_BYTES_MAX = 8 << 10  # of who is nobody yet
BODY_SECONDS_MAX = 10.0
DIGITS_MAX = 20  # of a length that is stated
BODIES_AT_ONCE = 8  # of one caller


class CallBodies:
    """Bodies that are being read at one process."""

    def __init__(self) -> None:
        self._of: Counter[str] = Counter()

    async def read(self, request: Request, caller: str) -> bytes:
        """The body of a call of somebody known. Raises Refused as `read_body`, and where the caller sends too
        many at once."""
        with self._counted(caller):
            return await read_body(request, BODY_BYTES_MAX)

    @contextmanager
    def _counted(self, caller: str) -> Generator[None]:
        if self._of[caller] >= BODIES_AT_ONCE:
            told = f"you send more than {BODIES_AT_ONCE} bodies at once"
            raise Refused(Refusal("rate_limited", told, retry=True, after_ms=1000))
        self._of[caller] += 1
        try:
            yield
        finally:
            self._of[caller] -= 1
            if not self._of[caller]:
                del self._of[caller]


async def read_body(request: Request, bytes_max: int) -> bytes:
    """The whole body. Raises Refused beyond so many bytes, where they are stated before any is read, and
    where it does not arrive soon."""
    too_large = Refused(Refusal("too_large", f"a body has at most {bytes_max:,} bytes"))
    stated = request.headers.get("content-length", "")
    if stated.isascii() and stated.isdecimal() and len(stated) < DIGITS_MAX and int(stated) > bytes_max:
        raise too_large
    try:
        async with asyncio.timeout(BODY_SECONDS_MAX):
            body = bytearray()
            async for piece in request.stream():
                if len(body) + len(piece) > bytes_max:
                    raise too_large
                body += piece
            return bytes(body)
    except TimeoutError:
        raise bad_request(f"the body did not arrive within {BODY_SECONDS_MAX:.0f} s") from None

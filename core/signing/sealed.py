"""Content that only we can have made, for one purpose and until a time. Pure.

Nobody who can write Redis or a table can forge it. Use at most once is Redis' part (core/redis/one_time.py).
"""

from collections.abc import Callable
from typing import Generic, TypeVar

import msgspec

from core.signing import signed_text
from core.signing.signed_text import Keyring

T = TypeVar("T", bound=msgspec.Struct)


class SealedContent(Generic[T]):
    """One kind of sealed content. `ends`: Unix ms until which it can be shown. `prefix` begins its text.
    Change `purpose`, which has a key of its own, whenever the shape changes."""

    def __init__(self, kind: type[T], purpose: bytes, ends: Callable[[T], int], prefix: str = "") -> None:
        self._purpose = purpose
        self._ends = ends
        self._prefix = prefix
        self._encoder = msgspec.msgpack.Encoder()
        self._decoder = msgspec.msgpack.Decoder(kind)

    def seal(self, content: T, keyring: Keyring) -> str:
        """The text that its bearer shows. The bearer can read what is in it."""
        return self._prefix + signed_text.seal(self._encoder.encode(content), self._purpose, keyring)

    def unseal(self, text: str, keyring: Keyring, now_ms: int) -> T | None:
        """The content of a text; None for one that is forged, damaged, of another kind, or expired: its
        bearer is not told which."""
        if not text.startswith(self._prefix):
            return None
        body = signed_text.unseal(text.removeprefix(self._prefix), self._purpose, keyring)
        if body is None:
            return None
        try:
            content = self._decoder.decode(body)
        except msgspec.MsgspecError:  # sealed by us, in a shape of another release
            return None
        return content if self._ends(content) > now_ms else None

"""Content that only we can have made, for one purpose and until a time. Pure.

Nobody who writes Redis or a table can make one. That one is used once, Redis says (core/redis/one_time.py).
"""

from collections.abc import Callable
from typing import Generic, TypeVar

import msgspec

from core.signing import signed_text
from core.signing.signed_text import Keyring

T = TypeVar("T", bound=msgspec.Struct)


class SealedContent(Generic[T]):
    """One kind of such content. `ends`: by when it must be shown, Unix ms. `prefix` begins its text. Where
    the shape changes so does `purpose`, which has a key of its own."""

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
        """What is in a text; None for one that is forged, damaged, of another kind, or over: whoever shows it
        is told no more than that."""
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

"""Signed sign-in cookies: who signed in, until when. Pure."""

import msgspec

from core import signed
from core.signed import Keyring

COOKIE = "parley_session"
PURPOSE = b"parley cookie v1"


class SignedIn(msgspec.Struct, frozen=True, array_like=True):
    """A browser that signed in with a key, or with a code made for that key. `expires_ms` is Unix ms."""

    tenant: str
    key: str
    expires_ms: int


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(SignedIn)


def seal(signed_in: SignedIn, keyring: Keyring) -> str:
    """The cookie's value."""
    return signed.seal(_encoder.encode(signed_in), PURPOSE, keyring)


def unseal(value: str, keyring: Keyring, now_ms: int) -> SignedIn | None:
    """Who signed in; None for a forged, damaged or expired cookie."""
    body = signed.unseal(value, PURPOSE, keyring)
    signed_in = _decoder.decode(body) if body is not None else None
    return signed_in if signed_in is not None and signed_in.expires_ms > now_ms else None

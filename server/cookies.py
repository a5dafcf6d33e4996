"""Signed sign-in cookies: who signed in, until when. Pure; the signature is HMAC-SHA256."""

import base64
import hashlib
import hmac

import msgspec

COOKIE = "parley_session"
PURPOSE = b"parley cookie v1"


class SignedIn(msgspec.Struct, frozen=True, array_like=True):
    """A browser that signed in with a key, or with a code made for that key. `expires_ms` is Unix ms."""

    tenant: str
    key: str
    expires_ms: int


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(SignedIn)


def seal(signed_in: SignedIn, secret: bytes) -> str:
    """The cookie's value."""
    body = _encoder.encode(signed_in)
    return f"{_text(body)}.{_text(_signature(body, secret))}"


def unseal(value: str, secret: bytes, now_ms: int) -> SignedIn | None:
    """Who signed in; None for a forged, damaged or expired cookie."""
    body_text, _, signature = value.partition(".")
    try:
        body = _bytes(body_text)
        if not hmac.compare_digest(_signature(body, secret), _bytes(signature)):
            return None
        signed_in = _decoder.decode(body)
    except (ValueError, msgspec.MsgspecError):
        return None
    return signed_in if signed_in.expires_ms > now_ms else None


def _signature(body: bytes, secret: bytes) -> bytes:
    return hmac.digest(hashlib.sha256(PURPOSE + secret).digest(), body, "sha256")


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _bytes(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))

"""Texts that only we can have made: a body and its HMAC-SHA256, both in URL-safe base64. Pure.

`purpose` keeps a text made for one thing from being taken for another.
"""

import base64
import hashlib
import hmac


def seal(body: bytes, purpose: bytes, secret: bytes) -> str:
    """The signed text of a body. The body can be read by anybody who holds it."""
    return f"{_text(body)}.{_text(_signature(body, purpose, secret))}"


def unseal(text: str, purpose: bytes, secret: bytes) -> bytes | None:
    """The body of a text that we signed for this purpose, None for any other. Compares in constant time."""
    body_text, _, signature = text.partition(".")
    try:
        body, shown = _bytes(body_text), _bytes(signature)
    except ValueError:
        return None
    return body if hmac.compare_digest(_signature(body, purpose, secret), shown) else None


def _signature(body: bytes, purpose: bytes, secret: bytes) -> bytes:
    return hmac.digest(hashlib.sha256(purpose + secret).digest(), body, "sha256")


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _bytes(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)

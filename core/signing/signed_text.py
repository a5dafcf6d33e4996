"""Texts that only we can have made: a body and its HMAC-SHA256, both in URL-safe base64. Pure.

`purpose` keeps a text made for one thing from being taken for another; each has a key of its own.
"""

import base64
import hashlib
import hmac
from collections.abc import Iterable
from dataclasses import dataclass

from core.errors import StartupError

SECRET_BYTES_MIN = 32
# Length of a seal that is kept beside its body, once for each request: half of a MAC is long enough.
SEAL_BYTES = 16


@dataclass(frozen=True, repr=False)
class Keyring:
    """The installation's secret, and the one before it while it is being changed: that one opens what it
    sealed and seals nothing new."""

    current: bytes
    previous: bytes | None = None

    def key(self, purpose: bytes) -> bytes:
        """The key for one purpose. It tells nothing of the secret, nor of another purpose's key."""
        return _derived(self.current, purpose)

    def keys(self, purpose: bytes) -> list[bytes]:
        """Keys that open a text of this purpose, the current one first."""
        secrets = [self.current] + ([self.previous] if self.previous else [])
        return [_derived(secret, purpose) for secret in secrets]


def checked_secret(text: str, name: str) -> bytes:
    """A secret that is long enough. Raises StartupError where it is too short; `name`: where it was read
    from."""
    secret = text.encode()
    if len(secret) < SECRET_BYTES_MIN:
        raise StartupError(
            f"{name} has {len(secret)} bytes and needs at least {SECRET_BYTES_MIN}, or it can be guessed: "
            "make one with `openssl rand -hex 32`, the same for every gateway and console"
        )
    return secret


def seal(body: bytes, purpose: bytes, keyring: Keyring) -> str:
    """The signed text of a body. The body can be read by anybody who holds it."""
    return f"{_text(body)}.{_text(mac(body, keyring.key(purpose)))}"


def unseal(text: str, purpose: bytes, keyring: Keyring) -> bytes | None:
    """The body of a text that we signed for this purpose, None for any other. Compares in constant time."""
    body_text, _, signature = text.partition(".")
    try:
        body, shown = _bytes(body_text), _bytes(signature)
    except ValueError:
        return None
    good = [hmac.compare_digest(mac(body, key), shown) for key in keyring.keys(purpose)]
    return body if any(good) else None


def mac(body: bytes, key: bytes) -> bytes:
    """HMAC-SHA256 of a body under a purpose's key."""
    return hmac.digest(key, body, "sha256")


def short_seal(body: bytes, key: bytes) -> bytes:
    """Seal of SEAL_BYTES to keep beside a body, by which a reader of both can tell whether we wrote it."""
    return mac(body, key)[:SEAL_BYTES]


def is_sealed(body: bytes, shown: bytes, keys: Iterable[bytes]) -> bool:
    """True where a short seal was made of this body under one of the keys. Compares in constant time."""
    good = [hmac.compare_digest(short_seal(body, key), shown) for key in keys]
    return any(good)


def _derived(secret: bytes, purpose: bytes) -> bytes:
    """A purpose's key. Never change this derivation: sign-ins in use were made with it."""
    return hashlib.sha256(purpose + secret).digest()


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _bytes(text: str) -> bytes:
    if "+" in text or "/" in text:  # it would take them too, and so one text in two forms
        raise ValueError("not the URL-safe alphabet")
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)

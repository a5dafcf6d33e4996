"""A few bytes, stored where others may read and write, that tell them nothing. Pure but for randomness.

They are encrypted with the HMAC of a random nonce; a tag over both proves whose key it was, and for what.
"""

import base64
import binascii
import hmac
import os

from core.signing.signed_text import Keyring, mac

NONCE_BYTES, TAG_BYTES, HIDDEN_BYTES_MAX = 16, 16, 32


def hide_bytes(data: bytes, purpose: bytes, keyring: Keyring) -> str:
    """At most 32 bytes, hidden: another text each time. `purpose` may name whose they are, so that nobody
    can put them into another's row."""
    assert len(data) <= HIDDEN_BYTES_MAX, "one HMAC covers no more"
    nonce, key = os.urandom(NONCE_BYTES), keyring.key(purpose)
    covered = _under(data, nonce, key)
    return base64.urlsafe_b64encode(nonce + _tag(covered, nonce, key) + covered).decode()


def reveal_bytes(text: str, purpose: bytes, keyring: Keyring) -> bytes | None:
    """The bytes; None where we did not hide them for this purpose."""
    try:
        data = base64.urlsafe_b64decode(text)
    except (binascii.Error, ValueError):
        return None
    nonce, tag = data[:NONCE_BYTES], data[NONCE_BYTES : NONCE_BYTES + TAG_BYTES]
    covered = data[NONCE_BYTES + TAG_BYTES :]
    for key in keyring.keys(purpose):
        if hmac.compare_digest(_tag(covered, nonce, key), tag):
            return _under(covered, nonce, key)
    return None


def _under(data: bytes, nonce: bytes, key: bytes) -> bytes:
    pad = mac(b"pad" + nonce, key)
    return bytes(each ^ over for each, over in zip(data, pad, strict=False))


def _tag(covered: bytes, nonce: bytes, key: bytes) -> bytes:
    return mac(b"tag" + nonce + covered, key)[:TAG_BYTES]

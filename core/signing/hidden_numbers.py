"""Numbers that their bearer carries and cannot read. Pure but for randomness.

Eight bytes are encrypted with the HMAC of a random nonce; a tag proves whose key it was.
"""

import hmac
import os

from core.signing.signed_text import Keyring, mac

NONCE_BYTES, NUMBER_BYTES, TAG_BYTES = 16, 8, 8
HIDDEN_BYTES = NONCE_BYTES + NUMBER_BYTES + TAG_BYTES


def hide_number(number: int, purpose: bytes, keyring: Keyring) -> bytes:
    """A number from 0 to 2^63, hidden: another text each time, of one length."""
    nonce, key = os.urandom(NONCE_BYTES), keyring.key(purpose)
    return nonce + _under(number.to_bytes(NUMBER_BYTES), nonce, key) + _tag(number, nonce, key)


def reveal_number(data: bytes, purpose: bytes, keyring: Keyring) -> int | None:
    """The number; None where we did not hide it for this purpose."""
    if len(data) != HIDDEN_BYTES:
        return None
    nonce, rest = data[:NONCE_BYTES], data[NONCE_BYTES:]
    for key in keyring.keys(purpose):
        number = int.from_bytes(_under(rest[:NUMBER_BYTES], nonce, key))
        if hmac.compare_digest(_tag(number, nonce, key), rest[NUMBER_BYTES:]):
            return number
    return None


def _under(data: bytes, nonce: bytes, key: bytes) -> bytes:
    pad = mac(b"pad" + nonce, key)
    return bytes(each ^ over for each, over in zip(data, pad, strict=False))


def _tag(number: int, nonce: bytes, key: bytes) -> bytes:
    return mac(b"tag" + nonce + number.to_bytes(NUMBER_BYTES), key)[:TAG_BYTES]

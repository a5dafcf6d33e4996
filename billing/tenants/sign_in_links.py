"""One-time links that sign a browser in as one user of a tenant. Pure.

A link's code is sealed content: writing to Redis is not enough to forge one, and Redis only records that a
link was used.
"""

import secrets

import msgspec

from core.signing.sealed import SealedContent
from core.signing.signed_text import Keyring

PURPOSE = b"parley sign-in v2"
LIFETIME_SECONDS = 3600
ID_BYTES = 12


class SignInLink(msgspec.Struct, frozen=True, array_like=True):
    """Content of a link: its opener becomes `user`, with the rights of the key. `opens_by_ms` is Unix ms."""

    id: str
    tenant: str
    key: str
    user: str
    opens_by_ms: int


_links = SealedContent(SignInLink, PURPOSE, lambda link: link.opens_by_ms)


def make_link_code(keyring: Keyring, tenant: str, key: str, user: str, now_ms: int) -> str:
    """Make a code that signs one browser in, once, within an hour."""
    link = SignInLink(secrets.token_urlsafe(ID_BYTES), tenant, key, user, now_ms + LIFETIME_SECONDS * 1000)
    return _links.seal(link, keyring)


def read_link_code(code: str, keyring: Keyring, now_ms: int) -> SignInLink | None:
    """Read a code; None where it is forged, damaged or too old."""
    return _links.unseal(code, keyring, now_ms)

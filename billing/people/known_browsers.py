"""Browsers in which an account was signed in before: each holds a sealed cookie that says so for half a year.

It lets nobody in. Tries from such a browser are counted apart from those of strangers, so that nobody who
only knows an address keeps its owner out. Pure.
"""

import secrets

import msgspec

from billing.people.tries import account_hash
from core.signing.sealed import SealedContent
from core.signing.signed_text import Keyring

PURPOSE = b"parley known browser v1"
KNOWN_SECONDS = 180 * 86_400
ID_BYTES = 12
CODE_CHARACTERS_MAX = 500


class KnownBrowser(msgspec.Struct, frozen=True, array_like=True):
    """Content of the cookie: a browser, the hash of the account that was signed in, and until when (Unix
    ms)."""

    id: str
    account: str
    ends_ms: int


_browsers = SealedContent(KnownBrowser, PURPOSE, lambda browser: browser.ends_ms)


def make_known_browser(keyring: Keyring, account: str, now_ms: int) -> str:
    """The cookie for a browser in which an account has just signed in."""
    browser = KnownBrowser(
        secrets.token_urlsafe(ID_BYTES), account_hash(account), now_ms + KNOWN_SECONDS * 1000
    )
    return _browsers.seal(browser, keyring)


def known_browser(code: str, keyring: Keyring, account: str, now_ms: int) -> str | None:
    """The id of a browser that knows this account; None where the cookie is none, late, or another's."""
    if not code or len(code) > CODE_CHARACTERS_MAX:
        return None
    browser = _browsers.unseal(code, keyring, now_ms)
    return browser.id if browser is not None and browser.account == account_hash(account) else None

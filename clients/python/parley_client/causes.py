"""Why a client is not connected, as a code and a sentence that says what to do. Pure."""

import ipaddress
import json
import re
from urllib.parse import urlsplit

MARKUP = re.compile(r"\s*<")
NO_TOKEN = re.compile(r"[\s\0-\x1f<>]")  # no key or ticket has any of these
TOKEN_CHARACTERS_MAX = 2048
SHOWN_MAX = 200
PAGE = "a web page in place of Parley's answer: a proxy, a firewall or a sign-in page stands before it"
TOKEN_SHOULD = "the key function must give a ticket or a key"


def checked_token(given: object) -> str:
    """What a key function gave, where it can be a token. Raises ValueError."""
    if not isinstance(given, str) or not given:
        raise ValueError("it gave an empty text" if given == "" else f"it gave {type(given).__name__}")
    if MARKUP.match(given):
        raise ValueError("it gave a web page: is its address right, and is the user signed in there?")
    if len(given) > TOKEN_CHARACTERS_MAX or NO_TOKEN.search(given):
        raise ValueError("it gave a text that is no token")
    return given


def no_token(error: BaseException, seconds_max: float) -> str:
    """The sentence for a key function that raised, hung, or gave no token."""
    if isinstance(error, TimeoutError) and not str(error):
        return f"no token to connect with: nothing within {seconds_max:.0f} s ({TOKEN_SHOULD})"
    said = str(error)[:SHOWN_MAX] or type(error).__name__
    if isinstance(error, json.JSONDecodeError):
        said = f"its reply is no JSON: {PAGE}"
    return f"no token to connect with: {said} ({TOKEN_SHOULD})"


def first_words(body: bytes | bytearray) -> str:
    """What an HTTP reply says, in a line; a web page is named as one."""
    said = body.decode(errors="replace").strip()
    if MARKUP.match(said):
        return PAGE
    return said.splitlines()[0][:SHOWN_MAX] if said else ""


def is_loopback(url: str) -> bool:
    """True for an address of this machine, which no proxy leads to."""
    host = (urlsplit(url).hostname or "").rstrip(".")
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False

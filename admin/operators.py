"""How operators sign in to the console: a one-time code that `parley up` or `parley console --link` makes."""

import hashlib
import re
import secrets

from core import signed
from core.redis import Client
from core.signed import Keyring

CODE_SECONDS = 3600
SESSION_SECONDS = 12 * 3600
COOKIE = "parley_operator"
CODE = re.compile(r"[0-9a-f]{32}", re.ASCII)
PURPOSE = b"parley operator v1"


async def make_operator_code(redis: Client) -> str:
    """A code that signs one browser in as operator, once, within an hour."""
    code = secrets.token_hex(16)
    await redis.set(_name(code), b"1", ex=CODE_SECONDS)
    return code


async def use_operator_code(redis: Client, code: str) -> bool:
    """Whether the code is good; it is used up by this."""
    return CODE.fullmatch(code) is not None and await redis.getdel(_name(code)) is not None


def seal(keyring: Keyring, now_ms: int) -> str:
    """The cookie of an operator who signed in now."""
    return signed.seal(str(now_ms + SESSION_SECONDS * 1000).encode(), PURPOSE, keyring)


def is_operator(cookie: str, keyring: Keyring, now_ms: int) -> bool:
    """Whether a cookie is ours and not expired."""
    expires = signed.unseal(cookie, PURPOSE, keyring)
    return expires is not None and int(expires) > now_ms


def _name(code: str) -> str:
    return f"parley:operator:{hashlib.sha256(code.encode()).hexdigest()}"

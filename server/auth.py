"""Who is calling: API keys, single-use tickets for browsers, one-time sign-in codes, and the Origin check.

Secrets are kept hashed; a ticket or code is taken out of Redis by the first who shows it.
"""

import hashlib
import re
import secrets
from collections.abc import Mapping
from dataclasses import replace
from urllib.parse import urlsplit

import msgspec

from billing.api import Principal, authenticate_key, principal_of_key
from core.clock import now_ms
from core.database import Database
from core.redis import Client
from core.settings import Settings
from server.closed_users import ClosedUsers

LOGIN_CODE_SECONDS = 3600
TICKET = re.compile(r"pt_([0-9a-f-]{36})_([0-9a-f]{48})", re.ASCII)
CODE = re.compile(r"[0-9a-f]{32}", re.ASCII)


class Ticket(msgspec.Struct, frozen=True, array_like=True):
    """What a ticket stands for: a key, and the one user its bearer may be."""

    key: str
    user: str


class LoginCode(msgspec.Struct, frozen=True, array_like=True):
    """What a sign-in code stands for."""

    tenant: str
    key: str


async def make_login_code(redis: Client, tenant: str, key_id: str) -> str:
    """A code that signs one browser in as this key, once, within an hour."""
    code = secrets.token_hex(16)
    packed = msgspec.json.encode(LoginCode(tenant, key_id))
    await redis.set(_code_name(code), packed, ex=LOGIN_CODE_SECONDS)
    return code


class Authenticator:
    """Checks what callers show. Asks the database each time, so a revocation holds at once."""

    def __init__(self, db: Database, redis: Client, settings: Settings, closed_users: ClosedUsers) -> None:
        self._db = db
        self._closed_users = closed_users
        self._redis = redis
        self._settings = settings

    async def principal(self, token: str) -> Principal | None:
        """Who an API key or a ticket belongs to; a ticket is used up by this, and lets its bearer in for
        `access_seconds`."""
        ticket = TICKET.fullmatch(token)
        if ticket is None:
            return await authenticate_key(self._db, token)
        packed = await self._redis.getdel(_ticket_name(ticket[1], ticket[2]))
        if not isinstance(packed, bytes):
            return None
        grant = msgspec.json.decode(packed, type=Ticket)
        principal = await principal_of_key(self._db, ticket[1], grant.key)
        if principal is None or await self._closed_users.has(principal.tenant, grant.user):
            return None
        ends = now_ms() + self._settings.access_seconds * 1000
        if principal.access_ends_ms is not None:
            ends = min(ends, principal.access_ends_ms)
        return replace(principal, user=grant.user, fixed_user=True, access_ends_ms=ends)

    async def of_key(self, tenant: str, key_id: str) -> Principal | None:
        """Who a signed-in key stands for now."""
        return await principal_of_key(self._db, tenant, key_id)

    async def of_code(self, code: str) -> Principal | None:
        """Who a sign-in code was made for; it is used up by this."""
        if CODE.fullmatch(code) is None:
            return None
        packed = await self._redis.getdel(_code_name(code))
        if not isinstance(packed, bytes):
            return None
        found = msgspec.json.decode(packed, type=LoginCode)
        return await principal_of_key(self._db, found.tenant, found.key)

    async def ticket(self, principal: Principal, user: str) -> tuple[str, int]:
        """A single-use ticket that lets its bearer be `user`, and when it expires (Unix ms)."""
        secret = secrets.token_hex(24)
        seconds = self._settings.ticket_seconds
        packed = msgspec.json.encode(Ticket(principal.key, user))
        await self._redis.set(_ticket_name(principal.tenant, secret), packed, ex=seconds)
        return f"pt_{principal.tenant}_{secret}", now_ms() + seconds * 1000


def origin_allowed(headers: Mapping[str, str], settings: Settings) -> bool:
    """A browser's Origin must be the gateway's own (its Host) or in PARLEY_PUBLIC_ORIGINS."""
    origin = headers.get("origin")
    if origin is None:
        return True
    listed = [each.strip().rstrip("/") for each in settings.public_origins.split(",") if each.strip()]
    if origin in listed:
        return True
    return urlsplit(origin).netloc == headers.get("host")


def _ticket_name(tenant: str, secret: str) -> str:
    return f"{{t:{tenant}}}ticket:{hashlib.sha256(secret.encode()).hexdigest()}"


def _code_name(code: str) -> str:
    return f"parley:code:{hashlib.sha256(code.encode()).hexdigest()}"

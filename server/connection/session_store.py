"""Session records in Redis, under the tenant: resume tokens' numbers, and requests that are still unread.

A record outlives its connection by 15 minutes. The newest connection of a session wins.
"""

from dataclasses import dataclass
from pathlib import Path

import msgspec

from billing.api import Principal
from core.clock import now_ms
from core.configuration.settings import Settings
from core.ids import uuid7
from core.redis.client import RedisClient
from core.redis.script_calls import ScriptCall, ScriptReply
from core.redis.scripts import Script
from server.access.authorization import owner_of
from server.session.resume_token import ResumeToken, seal, unseal

BEFORE_GRACE_MS = 30_000
OPEN_IDS_MAX = 256
# A connection may live long after its welcome: the session's record says whether the token is still good.
TOKEN_KEPT_MS = 30 * 24 * 3600 * 1000

_FOLDER = Path(__file__).parent / "lua"


class ResumeCall(ScriptCall, kw_only=True):
    """Take a session over with its resume token's number."""

    now_ms: int = 0
    owner: str
    number: int
    connection: str
    gateway: str
    keep_ms: int


class ResumeReply(ScriptReply, kw_only=True):
    """The token's new number, and the connection that had the session before."""

    number: int
    connection: str
    gateway: str


class ConfirmCall(ScriptCall, kw_only=True):
    """Confirm that the client has this connection's token: the one before is good for a while only."""

    now_ms: int = 0
    connection: str
    grace_ms: int


RESUME = Script(_FOLDER / "session_resume.lua", ResumeCall, ResumeReply)
CONFIRM = Script(_FOLDER / "session_confirm.lua", ConfirmCall, bool)


@dataclass(frozen=True)
class SessionRecord:
    """A session as this connection holds it. `token_expires_ms`: if the connection were lost now;
    `superseded`: (connection, gateway) that held it before."""

    session: str
    tenant: str
    connection: str
    token: str
    token_expires_ms: int
    resumed: bool
    open_ids: frozenset[str] = frozenset()
    superseded: tuple[str, str] | None = None


class SessionStore:
    """Makes, resumes and ends sessions. `gateway`: this process's name."""

    def __init__(self, redis: RedisClient, settings: Settings, gateway: str) -> None:
        self._redis = redis
        self._keyring = settings.keyring
        self._keep_ms = settings.resume_seconds * 1000
        self._gateway = gateway

    async def open(self, principal: Principal, connection: str, token: str | None) -> SessionRecord:
        """Resume the token's session, or make a new one where there is no token or it is not good."""
        now = now_ms()
        shown = unseal(token, self._keyring, now) if token else None
        owner = _owner(principal)
        if shown is not None and (shown.tenant, shown.owner) == (principal.tenant, owner):
            resumed = await self._resume(principal, connection, shown)
            if resumed is not None:
                return resumed
        session = uuid7(now)
        fields = {
            "owner": owner,
            "n": 1,
            "before_until": "0",
            "connection": connection,
            "gateway": self._gateway,
        }
        key = _key(principal.tenant, session)
        await self._redis.hset(key, mapping=fields)
        await self._redis.pexpire(key, self._keep_ms)
        return self._record(principal, session, connection, 1, resumed=False)

    async def confirm(self, record: SessionRecord) -> None:
        """Note that the client has the newest token: the one before expires soon."""
        keys = [_key(record.tenant, record.session)]
        await CONFIRM(self._redis, keys, ConfirmCall(connection=record.connection, grace_ms=BEFORE_GRACE_MS))

    async def keep(self, record: SessionRecord) -> bool:
        """Keep the record of a live connection. False: another connection has the session now."""
        key = _key(record.tenant, record.session)
        pipe = self._redis.pipeline(transaction=False)
        pipe.hget(key, "connection").pexpire(key, self._keep_ms).pexpire(_ids(key), self._keep_ms)
        holder = (await pipe.execute())[0]
        return holder is None or holder.decode() == record.connection

    async def note(self, record: SessionRecord, id: str) -> None:
        """Add a request whose end the client has not applied."""
        key = _ids(_key(record.tenant, record.session))
        if await self._redis.scard(key) < OPEN_IDS_MAX:
            await self._redis.sadd(key, id)
            await self._redis.pexpire(key, self._keep_ms)

    async def forget(self, record: SessionRecord, id: str) -> None:
        """Remove a request whose end the client has applied."""
        await self._redis.srem(_ids(_key(record.tenant, record.session)), id)

    async def end(self, record: SessionRecord) -> None:
        """Void the token, as the client said bye."""
        key = _key(record.tenant, record.session)
        await self._redis.delete(key, _ids(key))

    async def _resume(
        self, principal: Principal, connection: str, shown: ResumeToken
    ) -> SessionRecord | None:
        key = _key(principal.tenant, shown.session)
        call = ResumeCall(
            owner=shown.owner,
            number=shown.number,
            connection=connection,
            gateway=self._gateway,
            keep_ms=self._keep_ms,
        )
        reply = await RESUME.or_none(self._redis, [key, _ids(key)], call)
        if reply is None:
            return None
        ids = frozenset(id.decode() for id in await self._redis.smembers(_ids(key)))
        superseded = (reply.connection, reply.gateway)
        return self._record(principal, shown.session, connection, reply.number, True, ids, superseded)

    def _record(
        self,
        principal: Principal,
        session: str,
        connection: str,
        number: int,
        resumed: bool,
        ids: frozenset[str] = frozenset(),
        superseded: tuple[str, str] | None = None,
    ) -> SessionRecord:
        now, tenant = now_ms(), principal.tenant
        token = ResumeToken(session, tenant, _owner(principal), number, now + TOKEN_KEPT_MS)
        sealed = seal(token, self._keyring)
        expires = now + self._keep_ms
        return SessionRecord(session, tenant, connection, sealed, expires, resumed, ids, superseded)


def _owner(principal: Principal) -> str:
    return msgspec.json.encode(owner_of(principal)).decode()


def _key(tenant: str, session: str) -> str:
    return f"{{t:{tenant}}}sess:{session}"


def _ids(key: str) -> str:
    return key + ":ids"

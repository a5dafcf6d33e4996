"""Operations on connections of a tenant's clients: those that are open, which gateways tell, and why the last
ones ended."""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta
from sqlalchemy.exc import SQLAlchemyError

from billing.api import ListQuestion, Look, key_names, user_named, user_names
from core.access.processes import CONNECTIONS, CONTROL, POOLS
from core.clock import iso_time
from core.errors import StartupError, see, unknown
from core.operations import ListedPage, Uses, operation
from core.redis.connection_ends import ConnectionEnd, last_ends
from core.redis.gateway_questions import TOLD_MAX, ConnectionFacts, GatewayAnswers, ask_gateways
from core.redis.members import names, reading
from core.redis.pools import known_pools
from engine.operations.pool_questions import READERS, pool_named
from engine.queue import redis_keys

ASKING = (*CONNECTIONS, CONTROL, "P:gws")


class OpenOrEnded(StrEnum):
    """Whether a connection is there."""

    OPEN = "open"
    ENDED = "ended"


class ListConnections(ListQuestion, frozen=True, kw_only=True):
    """Whose connections. `after`: the id of the last one of the page before."""

    tenant: Annotated[str, Meta(description="The tenant's name or id.")]
    state: Annotated[OpenOrEnded | None, Meta(description="Only those that are open, or ended.")] = None
    user: Annotated[str | None, Meta(description="Only this user's, by name or id.")] = None


class LastEnd(msgspec.Struct, frozen=True):
    """How the connection that had a session before this one ended."""

    cause: str
    code: int
    ended: str | None


class ListedConnection(msgspec.Struct, frozen=True, kw_only=True):
    """A connection. `user`, `key_name`: names to show; `client`: what it calls itself; `reads`: requests that
    it reads; `unacked_bytes`: sent and not acknowledged; `cause`, `code`: of its end; `before`: the end of
    the connection that had its session before."""

    connection: str
    session: str
    state: OpenOrEnded
    user: str
    user_id: str
    key: str
    key_name: str
    client: str
    protocol: str
    gateway: str
    since: str | None
    ended: str | None = None
    cause: str = ""
    code: int = 0
    reads: int = 0
    unacked_bytes: int = 0
    before: LastEnd | None = None


class ConnectionPage(ListedPage[ListedConnection], frozen=True, kw_only=True):
    """Connections, the last opened first. `unheard`: gateways that did not tell theirs."""

    unheard: list[str] = []


@operation(
    "connections.list",
    "GET /tenants/{tenant}/connections",
    may=READERS,
    uses=Uses(reads="tenant tenant_user api_key", keys=(POOLS, *ASKING, "P:sys")),
)
async def list_connections(look: Look, ask: ListConnections) -> ConnectionPage:
    """List connections of a tenant's clients, the last opened first: open ones, and those that ended within a
    day (200 at most), each with the cause. A gateway that was killed noted no ends."""
    owner = (await look.tenant(ask.tenant)).tenant_id
    user = await _user_id(look, owner, ask.user) if ask.user else ""
    told, ends = await _told(look, owner, ask, user), await last_ends(look.redis, owner)
    rows = [each for each in _merged(told, ends, ask.state) if user in ("", each[0].user_id)]
    rows = [each for each in rows if not ask.after or each[0].connection < ask.after]
    page = rows[: ask.limit]
    users = await _users(look, owner, (row.user_id for row, _ in page))
    keys = await _keys(look, owner, (row.key for row, _ in page))
    shown = [_shown(row, before, users, keys, look.who.tenant is not None) for row, before in page]
    more = len(rows) > ask.limit
    unheard = [] if look.who.tenant is not None else told.unheard
    return ConnectionPage(shown, page[-1][0].connection if more else None, unheard=unheard)


async def living_gateways(look: Look) -> set[str]:
    """Gateways whose leases in some pool are not over."""
    queue, found = pool_named(look, None), set[str]()
    now = await queue.now_ms()
    for pool in await known_pools(look.redis, look.settings):
        key = redis_keys.gateways(pool)
        found.update(names(key, await reading(key, look.redis.zrangebyscore(key, now, "+inf"), [])))
    return found


async def _user_id(look: Look, owner: str, named: str) -> str:
    """The id of a user of the tenant, named or by id, as an erased one has no name. Raises Refused where
    there is none."""
    known = await user_named(look.db, owner, named)
    if known is not None:
        return known.id
    if (await user_names(look.db, owner, [named])).get(named, named) != named:
        return named
    raise unknown(f"there is no user {named!r}", field="user", see=see("users.list", tenant=owner))


async def _told(look: Look, owner: str, ask: ListConnections, user: str) -> GatewayAnswers:
    if ask.state is OpenOrEnded.ENDED:
        return GatewayAnswers([], [], [])
    gateways, limit = await living_gateways(look), min(TOLD_MAX, ask.limit + 1)
    return await ask_gateways(look.redis, gateways, owner, before=ask.after, user=user, limit=limit)


def _merged(
    told: GatewayAnswers, ends: list[ConnectionEnd], state: OpenOrEnded | None
) -> list[tuple[ConnectionFacts, ConnectionEnd | None]]:
    """Open connections, each with the last end in its session, and ended ones; last opened first. Pure."""
    last: dict[str, ConnectionEnd] = {}
    for end in reversed(ends):
        if end.session:
            last[end.session] = end
    rows: list[tuple[ConnectionFacts, ConnectionEnd | None]] = []
    if state is not OpenOrEnded.ENDED:
        rows += [(each, last.get(each.session)) for each in told.connections]
    if state is not OpenOrEnded.OPEN:
        here = {each.connection for each in told.connections}
        rows += [(each, None) for each in ends if each.connection not in here]
    return sorted(rows, key=lambda each: each[0].connection, reverse=True)


def _shown(
    row: ConnectionFacts,
    before: ConnectionEnd | None,
    users: Mapping[str, str],
    keys: Mapping[str, str],
    to_a_member: bool,
) -> ListedConnection:
    end = row if isinstance(row, ConnectionEnd) else None
    return ListedConnection(
        connection=row.connection,
        session=row.session,
        state=OpenOrEnded.ENDED if end else OpenOrEnded.OPEN,
        user=users.get(row.user_id, row.user_id),
        user_id=row.user_id,
        key=row.key,
        key_name=keys.get(row.key, row.key),
        client=row.client,
        protocol=row.protocol,
        gateway="" if to_a_member else row.gateway,
        since=iso_time(row.since_ms),
        ended=iso_time(end.ended_ms) if end else None,
        cause=end.cause if end else "",
        code=end.code if end else 0,
        reads=0 if end else row.reads,
        unacked_bytes=row.unacked_bytes,
        before=LastEnd(before.cause, before.code, iso_time(before.ended_ms)) if before else None,
    )


async def _users(look: Look, owner: str, ids: Iterable[str]) -> dict[str, str]:
    try:
        return await user_names(look.db, owner, ids)
    except (StartupError, SQLAlchemyError, OSError):
        return {}


async def _keys(look: Look, owner: str, ids: Iterable[str]) -> dict[str, str]:
    try:
        return await key_names(look.db, owner, ids)
    except (StartupError, SQLAlchemyError, OSError):
        return {}


OPERATIONS = (list_connections,)

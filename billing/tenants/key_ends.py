"""The end of keys: which of a rotation are revoked at once, and the news that closes their connections."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from sqlmodel import col, select

from billing.audit.log import record
from billing.tables.tenants import ApiKey
from billing.tenants.edits import lock_settings
from billing.tenants.keys import KEY_REVOKED, find_key
from billing.tenants.tenancy import publish_news
from core.clock import now_ms
from core.errors import bad_request
from core.redis.client import RedisClient
from core.sql.database import Database


class Which(StrEnum):
    """Which keys of a rotation are revoked, while the old and the new one both work."""

    BOTH = "both"
    OLD = "old"
    NEW = "new"


@dataclass(frozen=True)
class Revocation:
    """The key that was named, the keys that are revoked, and those of its rotation that go on."""

    named: ApiKey
    ended: Sequence[ApiKey]
    going_on: Sequence[ApiKey]


async def revoke_key(
    db: Database, redis: RedisClient, tenant_id: str, key_id: str, which: Which = Which.BOTH
) -> ApiKey | None:
    """End a key at once, with those that it is in rotation with: first the rows, then news that closes open
    connections. None: there is no such key."""
    done = await write_revocation(db, tenant_id, key_id, which)
    if done is None:
        return None
    await tell_revoked(db, redis, tenant_id, [row.id for row in done.ended])
    return done.named


async def write_revocation(
    db: Database, tenant_id: str, key_id: str, which: Which = Which.BOTH
) -> Revocation | None:
    """As `revoke_key`, without telling gateways. Raises Refused where the old or the new one is named and the
    key is in no rotation."""
    async with db.transaction() as session:
        await lock_settings(session, tenant_id)
        key = await find_key(session, tenant_id, key_id)
        if key is None:
            return None
        chain = select(ApiKey).where(
            col(ApiKey.tenant_id) == tenant_id, col(ApiKey.owner_key) == key.owner_key
        )
        now = now_ms()
        ended, going_on = chosen(key, (await session.exec(chain)).all(), which, now)
        for row in ended:
            before = row.model_dump()
            row.revoked_ms = now if row.revoked_ms is None else row.revoked_ms
            await record(session, tenant_id, "key.revoke", row.id, before, row)
    return Revocation(key, ended, going_on)


def chosen(key: ApiKey, chain: Sequence[ApiKey], which: Which, now: int) -> tuple[list[ApiKey], list[ApiKey]]:
    """Split the working keys of a rotation, the oldest first, into those that are revoked and those that go
    on. A key that works no more is in no rotation: its successor is not ended with it. Pure."""
    working = [row for row in _oldest_first(chain) if _works(row, now)]
    if key not in working or len(working) == 1:
        if which is not Which.BOTH:
            message = f"pk_{key.prefix} is in no rotation: there is one key to revoke, leave out which"
            raise bad_request(message, field="which")
        return [key], []
    olds, new = working[:-1], working[-1:]
    return {Which.BOTH: (working, list[ApiKey]()), Which.OLD: (olds, new), Which.NEW: (new, olds)}[which]


async def tell_revoked(_: Database, redis: RedisClient, tenant_id: str, key_ids: Sequence[str]) -> None:
    """Tell gateways to close the connections of revoked keys."""
    for key_id in key_ids:
        await publish_news(redis, tenant_id, KEY_REVOKED, key_id)


def _oldest_first(chain: Sequence[ApiKey]) -> list[ApiKey]:
    # By the links, not by ids: two keys of one millisecond have no order of their own.
    followed = {row.rotated_from: row for row in chain}
    ordered: list[ApiKey] = []
    row = followed.get(None)
    while row is not None:
        ordered.append(row)
        row = followed.get(row.id)
    return ordered


def _works(row: ApiKey, now: int) -> bool:
    return row.revoked_ms is None and (row.expires_ms is None or row.expires_ms > now)

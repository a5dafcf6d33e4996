"""Whose admitted requests are: key, user and project as the directory in Redis has them, with names."""

from collections.abc import Mapping, Sequence

import msgspec
from sqlalchemy.exc import SQLAlchemyError

from billing.quota.redis_keys import rq_key
from billing.tenants.shown_names import Owned, keys_named, users_named
from core.errors import StartupError
from core.redis.client import RedisClient
from core.redis.members import readable
from core.sql.database import Database


class RequestOwner(msgspec.Struct, frozen=True):
    """Whose a request is. Names are ids where nobody knows them; all is empty where Redis has nothing."""

    user_id: str = ""
    user: str = ""
    key: str = ""
    key_name: str = ""
    project: str = ""


async def owners_of_requests(
    db: Database, redis: RedisClient, requests: Sequence[Owned]
) -> Mapping[Owned, RequestOwner]:
    """Owners of these requests, (tenant, request). While the database does not answer, ids are names."""
    pipeline = redis.pipeline(transaction=False)
    for tenant, id in requests:
        pipeline.hmget(rq_key(tenant, id), "user", "by", "project")
    replies = await pipeline.execute(raise_on_error=False) if requests else []
    known = {each: [_text(part) for part in parts] for each, parts in readable("rq:", requests, replies)}
    users = {(tenant, user) for (tenant, _), (user, _, _) in known.items()}
    keys = {(tenant, key) for (tenant, _), (_, key, _) in known.items()}
    try:
        names, of_keys = await users_named(db, users), await keys_named(db, keys)
    except (StartupError, SQLAlchemyError, OSError):
        names, of_keys = {}, {}
    return {
        (tenant, id): RequestOwner(
            user, names.get((tenant, user), user), key, of_keys.get((tenant, key), key), project
        )
        for (tenant, id), (user, key, project) in known.items()
    }


def _text(field: bytes | None) -> str:
    return (field or b"").decode(errors="replace")

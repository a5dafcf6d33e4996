"""Everything known of one request but its texts: facts from the books, from Redis, and from its pool. One
function for `parley requests explain` and the console."""

from collections.abc import Sequence

import msgspec
from redis.exceptions import RedisError

from billing.api import (
    PLATFORM,
    BookedRequest,
    HeldBack,
    HeldRequest,
    RefusalMatch,
    StandingLimit,
    booked_of,
    find_tenant,
    held_back_of,
    held_of,
    key_names,
    list_tenants,
    project_names,
    refusals_of,
    standing_limits,
    tenants_holding,
    tenants_with,
    user_names,
)
from core.clock import now_ms
from core.configuration.settings import Settings
from core.errors import bad_request, see, unknown
from core.redis.client import RedisClient
from core.redis.pools import announced_pools
from core.redis.unreadable import Unreadable
from core.sql.database import Database
from engine.operations.inspection import Inspection, RequestDetail
from engine.operations.pool_share import PoolShare, pool_share
from engine.queue.client import PoolQueue
from engine.request import RequestStatus


class Explained(msgspec.Struct, frozen=True):
    """One request. `state`: booked, held_back, refused, or its status in its pool; `refused`: the minutes in
    which it was; `unread`: sources that could not be read. `names`: of its project, key and user, by id.
    `limits` and `share` are of now, of one that is open: what stood when it was admitted is not kept."""

    id: str
    tenant: str
    tenant_name: str
    state: str
    booked: BookedRequest | None = None
    held_back: list[HeldBack] = []
    holds: HeldRequest | None = None
    in_pool: RequestDetail | None = None
    refused: list[RefusalMatch] = []
    unread: str = ""
    names: dict[str, str] = {}
    limits: list[StandingLimit] = []
    share: PoolShare | None = None


async def explain(
    db: Database, redis: RedisClient, settings: Settings, id: str, tenant: str | None
) -> Explained:
    """Explain a request. `tenant`: name or id. Raises Refused where none has it, or, without one, several."""
    inspections = _Inspections(redis, settings)
    owner = await _owner(db, redis, id, tenant)
    found = await find_tenant(db, owner)
    booked, back = await booked_of(db, owner, id), await held_back_of(db, owner, id)
    refused = await refusals_of(db, id, owner)
    holds, in_pool, unread = None, None, ""
    limits, share = list[StandingLimit](), None
    try:
        kept = await held_of(redis, owner, id)
        holds, unread = (None, str(kept)) if isinstance(kept, Unreadable) else (kept, "")
        if booked is None:
            in_pool = await inspections.detail(owner, id)
        if holds is not None and holds.state == "open":
            limits = await standing_limits(db, redis, owner, holds, now_ms())
        if in_pool is not None:
            queue = PoolQueue(redis, in_pool.row.pool, settings)
            share = await pool_share(queue, owner)
    except (RedisError, OSError) as error:
        unread = f"Redis does not answer ({type(error).__name__}): what holds it is not known"
    if not (booked or back or holds or in_pool or refused):
        raise unknown(_none(id, tenant, unread), field="request")
    return Explained(
        id=id,
        tenant=owner,
        tenant_name=found.name if found is not None else owner,
        state=_state(booked, back, holds, in_pool),
        booked=booked,
        held_back=back,
        holds=holds,
        in_pool=in_pool,
        refused=refused,
        unread=unread,
        names=await _names(db, owner, booked, holds, refused),
        limits=limits,
        share=share,
    )


async def _names(
    db: Database,
    owner: str,
    booked: BookedRequest | None,
    holds: HeldRequest | None,
    refused: Sequence[RefusalMatch],
) -> dict[str, str]:
    """Names of those of its projects, keys and users that have one, by id."""
    whose = [each for each in (booked, holds) if each is not None]
    projects = await project_names(db, owner, {each.project for each in whose})
    keys = await key_names(db, owner, {each.key for each in (*whose, *refused)})
    users = await user_names(db, owner, {each.user_id for each in (*whose, *refused)})
    return {id: name for id, name in (*projects.items(), *keys.items(), *users.items()) if id != name}


class _Inspections:
    """Inspections of an installation's pools, for looking up one request."""

    def __init__(self, redis: RedisClient, settings: Settings) -> None:
        self._redis = redis
        self._settings = settings

    async def detail(self, tenant: str, id: str) -> RequestDetail | None:
        """The request in its present pool; pools that it has left are skipped."""
        for pool in await self._all():
            detail = await pool.request(tenant, id)
            if detail is not None and detail.row.status != RequestStatus.MOVED:
                return detail
        return None

    async def _all(self) -> Sequence[Inspection]:
        names = {self._settings.pool} | await announced_pools(self._redis, self._settings)
        return [Inspection(PoolQueue(self._redis, name, self._settings)) for name in sorted(names)]


async def _owner(db: Database, redis: RedisClient, id: str, tenant: str | None) -> str:
    """The id of the tenant whose request it is, named or not. Raises Refused as `explain`."""
    if tenant is not None:
        named = await find_tenant(db, tenant)
        if named is None:
            raise unknown(f"there is no tenant {tenant!r}", field="tenant", see=see("tenants.list"))
        return named.tenant_id
    owners = set(await tenants_with(db, id)) | {each.tenant for each in await refusals_of(db, id, None)}
    owners.discard(PLATFORM)
    if not owners:
        try:
            tenants = [each.tenant_id for each in await list_tenants(db)]
            owners = set(await tenants_holding(redis, tenants, id))
        except (RedisError, OSError) as error:
            why = f"Redis does not answer ({type(error).__name__})"
            raise bad_request(f"{id!r} is in no books, and {why}: try again, or name the tenant") from error
    if not owners:
        raise unknown(_none(id, None, ""), field="request")
    if len(owners) > 1:
        raise bad_request(f"{len(owners)} tenants have a request {id!r}: name its tenant", field="tenant")
    return owners.pop()


def _none(id: str, tenant: str | None, unread: str) -> str:
    whose = f" of tenant {tenant!r}" if tenant is not None else ""
    return f"nobody knows a request {id!r}{whose}" + (f"; {unread}" if unread else "")


def _state(
    booked: BookedRequest | None,
    back: Sequence[HeldBack],
    holds: HeldRequest | None,
    in_pool: RequestDetail | None,
) -> str:
    if booked is not None:
        return "booked"
    if any(not each.resolution for each in back):
        return "held_back"
    if in_pool is not None:
        return in_pool.row.status
    if holds is not None:
        return f"admission {holds.state}"
    return "dismissed" if back else "refused"

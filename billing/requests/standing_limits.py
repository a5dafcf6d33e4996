"""The limits that stand for an open request now, with their use: what one more like it would meet.

What stood when it was admitted is not kept: the request's record names the limits that it counts in, without
their use.
"""

from enum import StrEnum

import msgspec

from billing.budgets.key_chains import chain_owners
from billing.enforcement.limit_cache import read_rows
from billing.limits import Dimension, RequestFacts, limits_of
from billing.quota.redis_keys import tag
from billing.quota.types import LimitUse
from billing.quota.usage import use_of
from billing.requests.held_requests import HeldRequest
from core.operations import MoneyAmount
from core.redis.client import RedisClient
from core.sql.database import Database


class LimitVerdict(StrEnum):
    """What a limit would say of one more request. WATCHES: it is counted in, and refuses nothing."""

    GO = "go"
    REFUSE = "refuse"
    WATCHES = "watches"


class StandingLimit(msgspec.Struct, frozen=True, kw_only=True):
    """A limit and its use. `dimension`: a policy's, a budget's period, or `wallet`, which have amounts of
    money; `held`: money that open requests hold. `known` False: nothing was counted since Redis was empty."""

    scope: str
    scope_id: str
    models: str
    dimension: str
    limit: int | MoneyAmount
    used: int | MoneyAmount
    held: MoneyAmount | None
    remaining: int | MoneyAmount
    resets_ms: int | None
    known: bool
    verdict: LimitVerdict


async def standing_limits(
    db: Database, redis: RedisClient, tenant_id: str, held: HeldRequest, now_ms: int
) -> list[StandingLimit]:
    """All limits that a request like this one is admitted under now: rates and concurrency, then money."""
    async with db.session() as session:
        owners = await chain_owners(session, tenant_id, [held.key])
    key = owners.get(held.key, held.key)
    facts = RequestFacts(tenant_id, held.project, key, held.user_id, held.model)
    limits = limits_of(await read_rows(db, tenant_id, now_ms), facts, now_ms)
    return [standing_of(use) for use in await use_of(redis, tag(tenant_id), limits, now_ms)]


def standing_of(use: LimitUse) -> StandingLimit:
    """How a limit stands, by its use. Pure."""
    money = use.dimension not in tuple(Dimension)
    spent, remaining = use.spent, use.remaining
    return StandingLimit(
        scope=use.scope,
        scope_id=use.scope_id,
        models=use.model_glob,
        dimension=use.dimension,
        limit=MoneyAmount.of(use.limit) if money else use.limit,
        used=MoneyAmount.of(spent) if money else spent,
        held=MoneyAmount.of(use.held) if money else None,
        remaining=MoneyAmount.of(remaining) if money else remaining,
        resets_ms=use.resets_at_ms,
        known=use.known,
        verdict=_verdict(use),
    )


def _verdict(use: LimitUse) -> LimitVerdict:
    if use.shadow or not use.hard:
        return LimitVerdict.WATCHES
    return LimitVerdict.GO if use.remaining > 0 else LimitVerdict.REFUSE

"""Sets, ends and lists limits. An edit ends a row and adds another; gateways are told at once.

A policy of a plan has the tenant PLATFORM and the plan's id; its changes are published for everybody.
"""

from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec
from sqlmodel import and_, col, func, or_, select
from sqlmodel.ext.asyncio.session import AsyncSession
from sqlmodel.sql.expression import SelectOfScalar

from billing.audit.log import record
from billing.budgets.key_chains import chain_keys, chain_owners, named_keys, owner_key_of, put_on_chains
from billing.enforcement.limit_push import push_limits
from billing.limits import LIMIT_NANO_MAX, UNITS_MAX, Dimension, Mode, Scope
from billing.periods import Period
from billing.tables.limits import Budget, QuotaPolicy
from billing.tables.tenants import PLATFORM
from billing.tenants.edits import lock_settings
from billing.tenants.tenancy import CONTROL_CHANNEL, ControlNews
from core.clock import now_ms
from core.errors import bad_request
from core.ids import uuid7
from core.names import checked_name
from core.redis.client import RedisClient
from core.sql.database import Database

LIMITS_CHANGED = "limits_changed"  # kind of news; tenant PLATFORM: for everybody
ROWS_MAX = 500  # most open ones of each kind, for a tenant or a plan, and of its admins' own
THRESHOLDS_MAX = 20
DEFAULT_THRESHOLDS = (50, 80, 100)
TEXT_MAX = 200

Row = TypeVar("Row", QuotaPolicy, Budget)


async def set_policy(db: Database, redis: RedisClient, tenant_id: str, **facts: Any) -> QuotaPolicy:
    """Set a limit as `write_policy`, and tell gateways."""
    row = await write_policy(db, tenant_id, **facts)
    await tell_limits(db, redis, tenant_id)
    return row


async def write_policy(
    db: Database,
    tenant_id: str,
    *,
    scope: str,
    dimension: str,
    limit: int,
    scope_id: str = "",
    model_glob: str = "*",
    burst: int | None = None,
    mode: str = Mode.ENFORCE,
    plan_id: str = "",
    author: str = "",
    by_tenant: bool = False,
    edited: str = "",
) -> QuotaPolicy:
    """Set a limit on a rate, on concurrency or on answers, replacing the one with the same count. On a key it
    is of the key's whole chain of rotations, and stored under the first key. `edited`: the id of one that it
    replaces whatever that counts.

    Raises Refused where a part of it is invalid."""
    _check_scope(scope, scope_id)
    _choice("dimension", dimension, Dimension)
    _choice("mode", mode, Mode)
    _number("limit", limit, 1 if dimension == Dimension.ANSWER else 0, UNITS_MAX)
    if dimension == Dimension.ANSWER and (burst is not None or mode != Mode.ENFORCE):
        field = "burst" if burst is not None else "mode"
        message = "the length of an answer refuses nothing: it has no burst and no shadow mode"
        raise bad_request(message, field=field)
    if burst is not None:
        _number("burst", burst, 1, UNITS_MAX)
        if dimension == Dimension.CONCURRENCY:
            message = "concurrency has no burst: its limit is how many may be open at once"
            raise bad_request(message, field="burst")
    if not model_glob or len(model_glob) > TEXT_MAX:
        raise bad_request(f"a model pattern has 1 to {TEXT_MAX} characters", field="models")
    if bool(plan_id) != (tenant_id == PLATFORM):
        raise bad_request("a policy belongs to a tenant or to a plan")
    now = now_ms()
    row = QuotaPolicy(
        tenant_id=tenant_id,
        id=uuid7(now),
        plan_id=plan_id,
        scope=scope,
        scope_id=await owner_key_of(db, tenant_id, scope, scope_id),
        model_glob=model_glob,
        dimension=dimension,
        limit_units=limit,
        burst_units=burst,
        mode=mode,
        author=author,
        by_tenant=by_tenant,
        created_ms=now,
    )
    same = {"plan_id", "scope", "scope_id", "model_glob", "dimension", "mode", "by_tenant"}
    await _replace(db, row, same, now, edited)
    return row


async def end_policy(db: Database, redis: RedisClient, tenant_id: str, policy_id: str) -> QuotaPolicy | None:
    """End a policy; None: there is no such open one. Its count stays."""
    ended = await write_policy_end(db, tenant_id, policy_id)
    if ended is not None:
        await tell_limits(db, redis, tenant_id)
    return ended


async def write_policy_end(db: Database, tenant_id: str, policy_id: str) -> QuotaPolicy | None:
    """As `end_policy`, without telling gateways."""
    return await _end(db, QuotaPolicy, tenant_id, policy_id)


async def list_policies(
    db: Database, tenant_id: str, *, plan_id: str = "", ended: bool = False
) -> Sequence[QuotaPolicy]:
    """A tenant's own policies, or with PLATFORM a plan's, oldest first. `ended`: ended ones too."""
    statement = policies_of(tenant_id, plan_id=plan_id, ended=ended)
    return await _listed(db, tenant_id, statement.order_by(col(QuotaPolicy.id)))


def policies_of(tenant_id: str, *, plan_id: str = "", ended: bool = False) -> SelectOfScalar[QuotaPolicy]:
    """The statement of `list_policies`, without an order. Pure."""
    statement = select(QuotaPolicy).where(
        col(QuotaPolicy.tenant_id) == tenant_id, col(QuotaPolicy.plan_id) == plan_id
    )
    return statement if ended else statement.where(col(QuotaPolicy.ended_ms).is_(None))


async def find_policy(db: Database, tenant_id: str, policy_id: str) -> QuotaPolicy | None:
    """A tenant's policy, open or ended."""
    statement = policies_of(tenant_id, ended=True).where(col(QuotaPolicy.id) == policy_id)
    return next(iter(await _listed(db, tenant_id, statement)), None)


async def set_budget(db: Database, redis: RedisClient, tenant_id: str, **facts: Any) -> Budget:
    """Set a budget as `write_budget`, and tell running answers and gateways."""
    row = await write_budget(db, tenant_id, **facts)
    await tell_money(db, redis, tenant_id)
    return row


async def write_budget(
    db: Database,
    tenant_id: str,
    *,
    scope: str,
    period: str,
    limit_nano: int,
    scope_id: str = "",
    hard: bool = True,
    mode: str = Mode.ENFORCE,
    thresholds: Sequence[int] = DEFAULT_THRESHOLDS,
    author: str = "",
    by_tenant: bool = False,
) -> Budget:
    """Set a budget, replacing the one with the same count; an override of that one ends with it. On a key it
    is of the key's whole chain of rotations, and stored under the first key.

    Raises Refused where a part of it is invalid."""
    _check_scope(scope, scope_id)
    _choice("period", period, Period)
    _choice("mode", mode, Mode)
    _check_money(limit_nano)
    now = now_ms()
    row = Budget(
        tenant_id=tenant_id,
        id=uuid7(now),
        scope=scope,
        scope_id=await owner_key_of(db, tenant_id, scope, scope_id),
        period=period,
        limit_nano=limit_nano,
        hard=hard,
        mode=mode,
        thresholds=_thresholds(thresholds),
        author=author,
        by_tenant=by_tenant,
        created_ms=now,
    )
    await _replace(db, row, {"scope", "scope_id", "period", "mode", "by_tenant"}, now)
    return row


async def override_budget(
    db: Database,
    redis: RedisClient,
    tenant_id: str,
    budget_id: str,
    limit_nano: int | None,
    until_ms: int = 0,
    author: str = "",
) -> Budget | None:
    """Replace a budget's limit as `write_override`, and tell running answers and gateways."""
    new = await write_override(db, tenant_id, budget_id, limit_nano, until_ms, author)
    if new is not None:
        await tell_money(db, redis, tenant_id)
    return new


async def write_override(
    db: Database,
    tenant_id: str,
    budget_id: str,
    limit_nano: int | None,
    until_ms: int = 0,
    author: str = "",
) -> Budget | None:
    """Replace a budget's limit until a time; `limit_nano` None ends an override.

    Returns the new row; None: there is no such open budget. Raises Refused where the limit or the time is
    invalid."""
    now = now_ms()
    if limit_nano is not None:
        _check_money(limit_nano)
        if until_ms <= now:
            raise bad_request("an override ends in the future", field="until")
    async with db.transaction() as session:
        await lock_settings(session, tenant_id)
        old = await session.get(Budget, (tenant_id, budget_id))
        if old is None or old.ended_ms is not None:
            return None
        facts: dict[str, Any] = old.model_dump() | {
            "id": uuid7(now),
            "created_ms": now,
            "author": author,
            "override_nano": limit_nano,
            "override_until_ms": until_ms if limit_nano is not None else None,
        }
        before = old.model_dump()
        old.ended_ms = now
        await session.flush()  # ended first: one is open at a time
        new = Budget(**facts)
        session.add(new)
        await session.flush()
        await record(session, tenant_id, "budget.override", new.id, before, new)
    return new


async def end_budget(db: Database, redis: RedisClient, tenant_id: str, budget_id: str) -> Budget | None:
    """End a budget; None: there is no such open one."""
    ended = await write_budget_end(db, tenant_id, budget_id)
    if ended is not None:
        await tell_money(db, redis, tenant_id)
    return ended


async def write_budget_end(db: Database, tenant_id: str, budget_id: str) -> Budget | None:
    """As `end_budget`, without telling anybody."""
    return await _end(db, Budget, tenant_id, budget_id)


async def list_budgets(db: Database, tenant_id: str, *, ended: bool = False) -> Sequence[Budget]:
    """A tenant's budgets, oldest first. `ended`: ended ones too."""
    return await _listed(db, tenant_id, budgets_of(tenant_id, ended=ended).order_by(col(Budget.id)))


def budgets_of(tenant_id: str, *, ended: bool = False) -> SelectOfScalar[Budget]:
    """The statement of `list_budgets`, without an order. Pure."""
    statement = select(Budget).where(col(Budget.tenant_id) == tenant_id)
    return statement if ended else statement.where(col(Budget.ended_ms).is_(None))


async def _listed(db: Database, tenant_id: str, statement: SelectOfScalar[Row]) -> Sequence[Row]:
    async with db.session() as session:
        rows = (await session.exec(statement)).all()
        session.expunge_all()
        await name_owners(session, tenant_id, rows)
    return rows


async def name_owners(session: AsyncSession, tenant_id: str, rows: Sequence[QuotaPolicy | Budget]) -> None:
    """Let rows that belong to no session name the owner keys of chains, as `put_on_chains`."""
    put_on_chains(rows, await chain_owners(session, tenant_id, named_keys(rows)))


async def publish_limits_changed(redis: RedisClient, tenant_id: str) -> None:
    """Tell every gateway to read a tenant's limits, or with PLATFORM a plan's, again."""
    await redis.publish(
        CONTROL_CHANNEL, msgspec.json.encode(ControlNews(kind=LIMITS_CHANGED, tenant=tenant_id))
    )


async def tell_limits(_: Database, redis: RedisClient, tenant_id: str) -> None:
    """Tell gateways of changed limits that are not of money."""
    await publish_limits_changed(redis, tenant_id)


async def tell_money(db: Database, redis: RedisClient, tenant_id: str) -> None:
    """Tell running answers of changed budgets first, then the gateways."""
    await push_limits(db, redis, tenant_id)
    await publish_limits_changed(redis, tenant_id)


async def _replace(db: Database, row: Row, same: set[str], now: int, edited: str = "") -> None:
    async with db.transaction() as session:
        await lock_settings(session, row.tenant_id)
        before: dict[str, Any] | None = None
        for old in await _alike(session, row, same, edited):
            before = old.model_dump()
            old.ended_ms = now
        await session.flush()
        if await _open_rows(session, row) >= ROWS_MAX:
            raise bad_request(f"there are {ROWS_MAX} already: end one first")
        session.add(row)
        await session.flush()
        await record(session, row.tenant_id, f"{_noun(row)}.set", row.id, before, row)


def _noun(row: QuotaPolicy | Budget) -> str:
    return "limit" if isinstance(row, QuotaPolicy) else "budget"


async def _alike(session: AsyncSession, row: Row, same: set[str], edited: str) -> Sequence[Row]:
    """Open rows that a new one replaces: those that count the same, and last the one that was edited."""
    of: Any = type(row)
    whose = [row.scope_id]
    if row.scope == Scope.KEY and row.scope_id:  # 0.1.0 stored limits under any key of a chain
        whose += await chain_keys(session, row.tenant_id, row.scope_id)
    counted = [getattr(of, name) == getattr(row, name) for name in sorted(same - {"scope_id"})]
    alike = and_(*counted, of.scope_id.in_(whose))
    statement = select(of).where(
        of.tenant_id == row.tenant_id, of.ended_ms.is_(None), or_(alike, of.id == edited)
    )
    return (await session.exec(statement.order_by(of.id == edited))).all()


async def _open_rows(session: AsyncSession, row: Row) -> int:
    of: Any = type(row)
    statement = select(func.count()).where(
        of.tenant_id == row.tenant_id, of.by_tenant == row.by_tenant, of.ended_ms.is_(None)
    )
    if isinstance(row, QuotaPolicy):
        statement = statement.where(of.plan_id == row.plan_id)
    return (await session.exec(statement)).one()


async def _end(db: Database, of: type[Row], tenant_id: str, row_id: str) -> Row | None:
    async with db.transaction() as session:
        await lock_settings(session, tenant_id)
        row = await session.get(of, (tenant_id, row_id))
        if row is None or row.ended_ms is not None:
            return None
        before = row.model_dump()
        row.ended_ms = now_ms()
        session.add(row)
        await session.flush()
        await record(session, tenant_id, f"{_noun(row)}.end", row.id, before, row)
    return row


def _check_scope(scope: str, scope_id: str) -> None:
    _choice("scope", scope, Scope)
    if scope == Scope.TENANT and scope_id:
        raise bad_request("a limit of the tenant names nobody in it", field="of")
    if scope_id:
        checked_name("the id of a scope", scope_id, "of")


def _check_money(limit_nano: int) -> None:
    if not 0 <= limit_nano <= LIMIT_NANO_MAX:
        raise bad_request("a money limit is from 0 to 4,000,000 USD a window", field="limit")


def _thresholds(given: Sequence[int]) -> list[int]:
    if len(given) > THRESHOLDS_MAX or not all(1 <= each <= 100 for each in given):
        message = f"thresholds are at most {THRESHOLDS_MAX} per cents from 1 to 100"
        raise bad_request(message, field="thresholds")
    return sorted(set(given))


def _choice(what: str, given: str, known: type[Dimension | Scope | Mode | Period]) -> None:
    if given not in list(known):
        raise bad_request(f"unknown {what} {given!r}: choose from {', '.join(known)}", field=what)


def _number(what: str, given: int, least: int, most: int) -> None:
    if not least <= given <= most:
        raise bad_request(f"the {what} is from {least} to {most:,}", field=what)

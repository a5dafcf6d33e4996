"""Finds ended requests among the billed ones, latest first. For operators, and for one tenant.

A statement reads at most SCANNED_MAX requests, whatever the search: where it finds too few, the page says
where to continue.
"""

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Any, TypeVar

import msgspec
from sqlalchemy import ColumnElement, tuple_
from sqlmodel import col, func, select
from sqlmodel.ext.asyncio.session import AsyncSession

from billing.ledger.transactions import LineKind
from billing.periods import LAST_MS
from billing.tables.ledger import UsageLine
from billing.tables.tenants import Tenant, UsageQuarantine, UsageRow
from billing.tenants.shown_names import users_named
from core.errors import bad_request
from core.operations import MoneyAmount
from core.sql.database import Database
from core.sql.selects import select_columns, untyped

SCANNED_MAX = 100_000
FOUND_MAX = 1_000
CURSOR_CHARACTERS_MAX = 1_000
Kind = TypeVar("Kind")
STORABLE = msgspec.Meta(pattern=r"^[^\x00]*$")

_COLUMNS = (
    *("tenant_id", "request_id", "ended_ms", "accepted_ms", "first_token_ms", "user_id", "project_id"),
    *("key_id", "model", "pool", "reason", "code", "input_uncached", "input_cached", "output_text"),
    *("output_reasoning", "cost_nano", "currency", "claims"),
)


class WhyEnded(StrEnum):
    """Why a request ended: values of engine.request.EndReason; a test compares the two."""

    STOP = "stop"
    LENGTH = "length"
    CANCELLED = "cancelled"
    BLOCKED = "blocked"
    DEADLINE = "deadline"
    BUDGET = "budget"
    SLOW_READER = "slow_reader"
    ERROR = "error"


class RequestCursor(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The last request that was read."""

    ended_ms: Annotated[int, msgspec.Meta(ge=0, le=LAST_MS)]
    tenant: Annotated[str, STORABLE]
    request: Annotated[str, STORABLE]

    def text(self) -> str:
        """Encode it for a person to pass on."""
        return packed(self)


class RequestSearch(msgspec.Struct, frozen=True, kw_only=True):
    """Conditions of a search; a request ended in [since_ms, until_ms). `tenant`, `project`, `key` and `user`
    are ids; the last three belong to that tenant. None: any. `over_ms`: took longer from acceptance to end;
    `cost_over_nano`: cost more when it was billed."""

    since_ms: int
    until_ms: int
    tenant: str | None = None
    user: str | None = None
    project: str | None = None
    key: str | None = None
    model: str | None = None
    pool: str | None = None
    reason: str | None = None
    code: str | None = None
    over_ms: int | None = None
    cost_over_nano: int | None = None
    after: RequestCursor | None = None
    limit: int = 50


class RequestMatch(msgspec.Struct, frozen=True):
    """A request found. `user` is the display name; `corrected`: sum of later corrections, of either
    sign; `first_token_after_ms` None: it had no token."""

    id: str
    tenant: str
    tenant_name: str
    ended_ms: int
    accepted_ms: int
    took_ms: int
    first_token_after_ms: int | None
    user: str
    user_id: str
    project: str
    key: str
    model: str
    pool: str
    reason: str
    code: str
    input_uncached: int
    input_cached: int
    output_text: int
    output_reasoning: int
    cost: MoneyAmount
    corrected: MoneyAmount
    currency: str
    claims: int


class RequestPage(msgspec.Struct, frozen=True):
    """Requests found, last to end first. `next`: where to continue, None where all were read."""

    found: list[RequestMatch]
    next: RequestCursor | None


def packed(cursor: msgspec.Struct) -> str:
    """Encode a cursor for a person to pass on."""
    return urlsafe_b64encode(msgspec.json.encode(cursor)).decode().rstrip("=")


def unpacked(text: str, kind: type[Kind]) -> Kind:
    """Decode the result of `packed`. Raises Refused where it is not one."""
    try:
        padded = text[:CURSOR_CHARACTERS_MAX] + "=" * (-len(text) % 4)
        return msgspec.json.decode(urlsafe_b64decode(padded.encode("ascii")), type=kind)
    except (ValueError, binascii.Error, msgspec.MsgspecError) as error:
        raise bad_request(
            "this is no place to go on from: take the `next` of the page before", field="after"
        ) from error


def cursor_of(text: str) -> RequestCursor:
    """Decode the `next` of an earlier page. Raises Refused where it is not one."""
    return unpacked(text, RequestCursor)


async def find_requests(db: Database, sought: RequestSearch) -> RequestPage:
    """Read one page, in a few statements that each read at most SCANNED_MAX requests."""
    assert 0 < sought.limit <= FOUND_MAX, "a page is bounded"
    assert sought.tenant is not None or not (sought.user or sought.project or sought.key), (
        "they are a tenant's"
    )
    async with db.snapshot() as session:
        rows = await _rows(session, sought)
        if len(rows) > sought.limit:
            rows = rows[: sought.limit]
            onward = _cursor(rows[-1])
        else:
            onward = await _bound(session, sought)
        corrected = await _corrected(session, rows)
        named = await _tenant_names(session, rows)
    users = await users_named(db, ((row.tenant_id, row.user_id) for row in rows))
    return RequestPage([_found(row, named, users, corrected) for row in rows], onward)


async def is_billed(db: Database, tenant_id: str, request_id: str) -> bool:
    """True where a request is in the books. It is then never billed again."""
    async with db.session() as session:
        return await session.get(UsageRow, (tenant_id, request_id)) is not None


async def billed_or_held(session: AsyncSession, tenant_id: str, request_ids: Sequence[str]) -> set[str]:
    """Of a few hundred requests those that are billed, or quarantined."""
    found = set[str]()
    for table in (UsageRow, UsageQuarantine):
        among = col(table.tenant_id) == tenant_id, col(table.request_id).in_(request_ids)
        found.update((await session.exec(select(table.request_id).where(*among))).all())
    return found


def _scanned(sought: RequestSearch, *columns: Any) -> Any:
    """Select the requests of the window, by index for one tenant or user."""
    ended, tenant, id = col(UsageRow.ended_ms), col(UsageRow.tenant_id), col(UsageRow.request_id)
    statement = select_columns(*columns).where(ended >= sought.since_ms, ended < sought.until_ms)
    if sought.tenant is not None:
        statement = statement.where(tenant == sought.tenant)
    if sought.user is not None:
        statement = statement.where(col(UsageRow.user_id) == sought.user)
    if (at := sought.after) is not None:
        before = tuple_(ended, tenant, id) < tuple_(at.ended_ms, at.tenant, at.request)
        statement = statement.where(ended <= at.ended_ms, before)
    return statement.order_by(ended.desc(), tenant.desc(), id.desc())


def _fits(sought: RequestSearch, of: Any) -> list[ColumnElement[bool]]:
    """Conditions that no index serves."""
    equal = {
        "project_id": sought.project,
        "key_id": sought.key,
        "model": sought.model,
        "pool": sought.pool,
        "reason": sought.reason,
        "code": sought.code,
    }
    fits = [of[name] == value for name, value in equal.items() if value is not None]
    if sought.over_ms is not None:
        fits.append(of["ended_ms"] - of["accepted_ms"] > sought.over_ms)
    if sought.cost_over_nano is not None:
        fits.append(of["cost_nano"] > sought.cost_over_nano)
    return fits


async def _rows(session: AsyncSession, sought: RequestSearch) -> Sequence[Any]:
    """Up to one row more than the page holds, which tells that there are more."""
    columns = [getattr(UsageRow, name) for name in _COLUMNS]
    scanned = _scanned(sought, *columns)
    if not _fits(sought, {name: getattr(UsageRow, name) for name in _COLUMNS}):
        return (await untyped(session).exec(scanned.limit(sought.limit + 1))).all()
    of = scanned.limit(SCANNED_MAX).subquery().c
    statement = select_columns(*(of[name] for name in _COLUMNS)).where(*_fits(sought, of))
    statement = statement.order_by(of.ended_ms.desc(), of.tenant_id.desc(), of.request_id.desc())
    return (await untyped(session).exec(statement.limit(sought.limit + 1))).all()


async def _bound(session: AsyncSession, sought: RequestSearch) -> RequestCursor | None:
    """The last request that a statement of SCANNED_MAX rows reads; None where it reads all there are."""
    columns = (UsageRow.ended_ms, UsageRow.tenant_id, UsageRow.request_id)
    last = (await untyped(session).exec(_scanned(sought, *columns).offset(SCANNED_MAX - 1).limit(1))).all()
    return RequestCursor(*last[0]) if last else None


async def _corrected(session: AsyncSession, rows: Sequence[Any]) -> dict[tuple[str, str], int]:
    """Sums of corrections to these requests, by (tenant, request)."""
    tenant, request = col(UsageLine.tenant_id), col(UsageLine.request_id)
    statement = (
        select_columns(tenant, request, func.sum(col(UsageLine.amount_nano)))
        .where(tuple_(tenant, request).in_([(row.tenant_id, row.request_id) for row in rows]))
        .where(col(UsageLine.kind) != LineKind.USAGE.value)
        .group_by(tenant, request)
    )
    return {(of, id): int(nano) for of, id, nano in (await untyped(session).exec(statement)).all()}


async def _tenant_names(session: AsyncSession, rows: Sequence[Any]) -> dict[str, str]:
    ids = sorted({row.tenant_id for row in rows})
    statement = select(Tenant.tenant_id, Tenant.name).where(col(Tenant.tenant_id).in_(ids))
    return {id: name for id, name in (await session.exec(statement)).all()}


def _cursor(row: Any) -> RequestCursor:
    return RequestCursor(row.ended_ms, row.tenant_id, row.request_id)


def _found(row: Any, tenants: Any, users: Any, corrected: Any) -> RequestMatch:
    first = row.first_token_ms
    return RequestMatch(
        id=row.request_id,
        tenant=row.tenant_id,
        tenant_name=tenants.get(row.tenant_id, row.tenant_id),
        ended_ms=row.ended_ms,
        accepted_ms=row.accepted_ms,
        took_ms=max(0, row.ended_ms - row.accepted_ms),
        first_token_after_ms=max(0, first - row.accepted_ms) if first else None,
        user=users.get((row.tenant_id, row.user_id), row.user_id),
        user_id=row.user_id,
        project=row.project_id,
        key=row.key_id,
        model=row.model,
        pool=row.pool,
        reason=row.reason,
        code=row.code,
        input_uncached=row.input_uncached,
        input_cached=row.input_cached,
        output_text=row.output_text,
        output_reasoning=row.output_reasoning,
        cost=MoneyAmount.of(row.cost_nano),
        corrected=MoneyAmount.of(corrected.get((row.tenant_id, row.request_id), 0)),
        currency=row.currency,
        claims=row.claims,
    )

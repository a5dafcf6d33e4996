"""Searches refusals by user, key, time and code, and finds the refusals of one request by its id."""

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from sqlalchemy import tuple_
from sqlmodel import col, select

from billing.periods import LAST_MS
from billing.requests.find import STORABLE, packed, unpacked
from billing.requests.refusal_counts import EVERYBODY, MINUTE_MS, OTHERS
from billing.tables.refusals import RefusalMinute
from billing.tables.tenants import Tenant
from billing.tenants.users import known_users
from core.ids import uuid7_ms
from core.sql.database import Database
from core.sql.selects import untyped

LOOKED_MAX = 20_000  # rows of one statement
FOUND_MAX = 1_000
# A request's id tells when its sender made it; it may have been sent again since.
MADE_BEFORE_MS, SENT_AFTER_MS = 10 * MINUTE_MS, 60 * MINUTE_MS


class RefusalCursor(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The last row that was read."""

    minute_ms: Annotated[int, msgspec.Meta(ge=0, le=LAST_MS)]
    tenant: Annotated[str, STORABLE]
    key: Annotated[str, STORABLE]
    user: Annotated[str, STORABLE]
    code: Annotated[str, STORABLE]

    def text(self) -> str:
        """Encode it for a person to pass on."""
        return packed(self)


class RefusalSearch(msgspec.Struct, frozen=True, kw_only=True):
    """Conditions of a search in the minutes of [since_ms, until_ms); ids, None: any."""

    since_ms: int
    until_ms: int
    tenant: str | None = None
    user: str | None = None
    key: str | None = None
    code: str | None = None
    after: RefusalCursor | None = None
    limit: int = 50


class RefusalMatch(msgspec.Struct, frozen=True):
    """Refusals of one minute, key, user and code. `others`: of everyone without a row of their own; then key
    and user are empty, and `tenant` too where tenants are not told apart."""

    minute_ms: int
    tenant: str
    tenant_name: str
    user: str
    user_id: str
    key: str
    code: str
    number: int
    why: str
    last_ids: list[str]
    others: bool


class RefusalPage(msgspec.Struct, frozen=True):
    """Refusals found, last minute first. `next`: where to continue, None where all were read."""

    found: list[RefusalMatch]
    next: RefusalCursor | None


def refusal_cursor_of(text: str) -> RefusalCursor:
    """Decode the `next` of an earlier page. Raises Refused where it is not one."""
    return unpacked(text, RefusalCursor)


async def find_refusals(db: Database, sought: RefusalSearch) -> RefusalPage:
    """Read one page, in one statement that reads at most LOOKED_MAX rows."""
    assert 0 < sought.limit <= FOUND_MAX, "a page is bounded"
    async with db.session() as session:
        looked: Sequence[RefusalMinute] = (
            await untyped(session).exec(_scanned(sought).limit(LOOKED_MAX))
        ).all()
    fits = [row for row in looked if _fits(sought, row)]
    onward = None
    if len(fits) > sought.limit:
        onward = _cursor(fits[sought.limit - 1])
    elif len(looked) == LOOKED_MAX:
        onward = _cursor(looked[-1])
    return RefusalPage(await _shown(db, fits[: sought.limit]), onward)


async def refusals_of(db: Database, id: str, tenant: str | None) -> list[RefusalMatch]:
    """Find the minutes in which this request was refused. Only the latest requests of a row are recorded."""
    made_ms = uuid7_ms(id)
    if made_ms is None:
        return []
    sought = RefusalSearch(since_ms=made_ms - MADE_BEFORE_MS, until_ms=made_ms + SENT_AFTER_MS, tenant=tenant)
    async with db.session() as session:
        looked: Sequence[RefusalMinute] = (
            await untyped(session).exec(_scanned(sought).limit(LOOKED_MAX))
        ).all()
    return await _shown(db, [row for row in looked if id in row.last_ids])


def _scanned(sought: RefusalSearch) -> Any:
    names = ("minute_ms", "tenant_id", "key_id", "user_id", "code")
    order = [col(getattr(RefusalMinute, name)) for name in names]
    minute, tenant = order[0], order[1]
    statement: Any = select(RefusalMinute).where(minute >= sought.since_ms, minute < sought.until_ms)
    if sought.tenant is not None:
        statement = statement.where(tenant == sought.tenant)
    if (at := sought.after) is not None:
        before = tuple_(*order) < tuple_(*msgspec.structs.astuple(at))
        statement = statement.where(minute <= at.minute_ms, before)
    return statement.order_by(*(each.desc() for each in order))


def _fits(sought: RefusalSearch, row: RefusalMinute) -> bool:
    """Test a row against the search. The row of all others matches no user and no key."""
    wanted = ((sought.user, row.user_id), (sought.key, row.key_id), (sought.code, row.code))
    return all(value is None or value == is_ for value, is_ in wanted)


def _cursor(row: RefusalMinute) -> RefusalCursor:
    return RefusalCursor(row.minute_ms, row.tenant_id, row.key_id, row.user_id, row.code)


async def _shown(db: Database, rows: Sequence[RefusalMinute]) -> list[RefusalMatch]:
    ids = sorted({row.tenant_id for row in rows})
    async with db.session() as session:
        named = select(Tenant.tenant_id, Tenant.name).where(col(Tenant.tenant_id).in_(ids))
        tenants = {id: name for id, name in (await session.exec(named)).all()}
    users = {
        id: await known_users(db, id, {row.user_id for row in rows if row.tenant_id == id} - {OTHERS})
        for id in ids
    }
    return [_found(row, tenants, users[row.tenant_id]) for row in rows]


def _found(row: RefusalMinute, tenants: dict[str, str], users: dict[str, str]) -> RefusalMatch:
    others = row.key_id == OTHERS
    return RefusalMatch(
        minute_ms=row.minute_ms,
        tenant=row.tenant_id,
        tenant_name="" if row.tenant_id == EVERYBODY else tenants.get(row.tenant_id, row.tenant_id),
        user="" if others else users.get(row.user_id, row.user_id),
        user_id="" if others else row.user_id,
        key="" if others else row.key_id,
        code=row.code,
        number=row.number,
        why=row.why,
        last_ids=list(row.last_ids),
        others=others,
    )

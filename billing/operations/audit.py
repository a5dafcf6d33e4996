"""The operation that lists who changed what: rows of the audit log, as people may read them."""

import re
from collections.abc import Sequence
from typing import Annotated, Any
from zoneinfo import ZoneInfo

import msgspec
from msgspec import Meta
from sqlmodel import col, select

from billing.audit import view
from billing.audit.log import LISTED_MAX
from billing.audit.pages import AuditPosition, AuditSearch, audit_page
from billing.audit.verify import PLATFORM_NAME
from billing.operations.audit_names import NAMED_TABLES, names_in
from billing.periods import instant_or_ago
from billing.requests.find import CURSOR_CHARACTERS_MAX, packed, unpacked
from billing.tables.audit import AuditLog
from billing.tables.tenants import PLATFORM, Tenant
from billing.tenants.erasure import erased_tenants
from billing.tenants.users import known_users, user_named
from billing.unit_of_work.units import Look
from core.clock import iso_time
from core.errors import bad_request
from core.operations import ADMINS, MONEY, OPERATORS, OWNERS, ListedPage, Uses, operation

DELETED = "(deleted)"
MANAGERS = OWNERS | ADMINS  # those who see the names of who signs in
KIND = re.compile(r"[a-z_]{1,60}(\.[a-z_]{1,60})?", re.ASCII)


class ListAudit(msgspec.Struct, frozen=True, kw_only=True):
    """Which changes."""

    tenant: Annotated[
        str | None,
        Meta(description=f"Only this tenant (name or id); `{PLATFORM_NAME}`: what belongs to no tenant."),
    ] = None
    author: Annotated[str | None, Meta(description="Only who made it, as the list names them.")] = None
    kind: Annotated[
        str | None, Meta(description="Only this kind: an action, like limit.set, or its noun, limit.")
    ] = None
    target: Annotated[str | None, Meta(description="Only changes of the thing with this id.")] = None
    since: Annotated[str, Meta(description="From this time on, as 2h, 7d or 2026-10-01T12:00.")] = ""
    until: Annotated[str, Meta(description="Before this time, written likewise.")] = ""
    limit: Annotated[int, Meta(ge=1, le=LISTED_MAX, description="How many at most.")] = 100
    after: Annotated[
        str, Meta(max_length=CURSOR_CHARACTERS_MAX, description="`next` of the page before.")
    ] = ""


class AuditFacts(msgspec.Struct, frozen=True):
    """A change, or something that was read or let out. Of a change only what differs is in `before` and
    `after`, without secrets. `tenant` empty: it belongs to no tenant. `names`: what the ids in it are called,
    where the changes of one tenant are listed: a thing that is gone has the last name that is known."""

    at: str | None
    tenant: str
    tenant_name: str
    seq: int
    author: str
    source: str
    action: str
    target: str
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    names: dict[str, str]

    @classmethod
    def of(cls, row: AuditLog, tenant_name: str, names: dict[str, str] | None = None) -> "AuditFacts":
        """The facts of a row as it is shown."""
        return cls(
            at=iso_time(row.at_ms),
            tenant=row.tenant_id,
            tenant_name=tenant_name,
            seq=row.seq,
            author=row.author,
            source=row.source,
            action=row.action,
            target=row.target,
            before=msgspec.json.decode(row.before),
            after=msgspec.json.decode(row.after),
            names=names or {},
        )


@operation(
    "audit.list",
    "GET /audit",
    may=OPERATORS | MONEY | ADMINS,
    uses=Uses(reads=f"tenant tenant_user audit_log {NAMED_TABLES}"),
)
async def list_audit(look: Look, ask: ListAudit) -> ListedPage[AuditFacts]:
    """List changes, newest first: of tenants, keys, plans, limits, money, prices and people, and what staff
    read of tenants. Members see their own tenant's."""
    named = ask.tenant if ask.tenant is not None else look.who.tenant
    of_platform = named == PLATFORM_NAME and look.who.tenant is None
    owner = None if named is None or of_platform else await look.tenant(named)
    if ask.kind is not None and KIND.fullmatch(ask.kind) is None:
        raise bad_request("a kind is an action, like limit.set, or its noun, limit", field="kind")
    zone, now = ZoneInfo(owner.time_zone if owner else "UTC"), look.now_ms()
    sought = AuditSearch(
        tenant=PLATFORM if of_platform else owner.tenant_id if owner else None,
        authors=await _authors(look, owner, ask.author),
        action=ask.kind,
        target=ask.target,
        since_ms=instant_or_ago(ask.since, zone, now, "since") if ask.since else 0,
        until_ms=instant_or_ago(ask.until, zone, now, "until") if ask.until else None,
        after=unpacked(ask.after, AuditPosition) if ask.after else None,
        limit=ask.limit,
    )
    rows, onward = await audit_page(look.db, sought)
    shown = await _shown(look, rows)
    nameless = [dict[str, str]() for _ in shown]
    names = nameless if owner is None else await _names(look, owner, shown)
    tenants = await _tenant_names(look, [*{row.tenant_id for row in shown}])
    facts = [
        AuditFacts.of(row, tenants.get(row.tenant_id, DELETED), called)
        for row, called in zip(shown, names, strict=True)
    ]
    return ListedPage(facts, None if onward is None else packed(onward))


async def _authors(look: Look, owner: Tenant | None, named: str | None) -> tuple[str, ...]:
    """An author as rows hold them: a tenant's user by id."""
    if named is None:
        return ()
    user = await user_named(look.db, owner.tenant_id, named) if owner is not None else None
    return (named, user.id) if user is not None else (named,)


async def _names(look: Look, owner: Tenant, rows: Sequence[AuditLog]) -> list[dict[str, str]]:
    return await names_in(
        look.db, owner.tenant_id, rows, people=look.who.role in MANAGERS, staff=look.who.tenant is None
    )


async def _shown(look: Look, rows: Sequence[AuditLog]) -> list[AuditLog]:
    """Rows with the names of users, where known."""
    ids: dict[str, set[str]] = {}
    for row in rows:
        ids.setdefault(row.tenant_id, set()).update(view.users_in(row))
    users = {tenant: await known_users(look.db, tenant, named) for tenant, named in ids.items()}
    erased = await erased_tenants(look.db, ids)
    return [view.row_shown(row, users[row.tenant_id], row.tenant_id in erased) for row in rows]


async def _tenant_names(look: Look, ids: Sequence[str]) -> dict[str, str]:
    statement = select(Tenant.tenant_id, Tenant.name).where(col(Tenant.tenant_id).in_(ids))
    async with look.db.session() as session:
        return {PLATFORM: PLATFORM_NAME, **dict((await session.exec(statement)).all())}


OPERATIONS = (list_audit,)

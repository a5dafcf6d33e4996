"""Erases people from the books: names, labels, ids that were names. Amounts and chains stay as they are.

The ledger's chained rows (lines, transactions) name nobody, and prove erased facts by a hash whose key is
erased with them (billing/ledger/proofs.py). The audit log is chained too: its rows from when ids were names
are kept, and shown without them (billing/audit/view.py).
"""

import json
from collections.abc import AsyncGenerator, Iterable, Sequence
from typing import Any

import msgspec
from sqlalchemy import ColumnElement, delete, exists, func, text, update
from sqlmodel import SQLModel, col, select
from sqlmodel.ext.asyncio.session import AsyncSession

from billing.audit.log import record
from billing.audit.states import is_watched, record_again
from billing.ledger.proofs import KEPT_OF_WORDS, OPAQUE_USER
from billing.tables.approvals import Proposal
from billing.tables.ledger import CostCenter, RollupHour, RollupTag, TagKey
from billing.tables.limits import Budget, QuotaPolicy
from billing.tables.prices import Charge
from billing.tables.refusals import RefusalHour, RefusalMinute
from billing.tables.report_schedules import ReportSchedule
from billing.tables.safety import SafetyPolicy
from billing.tables.sessions import BrowserSession
from billing.tables.tenants import ApiKey, Project, Tenant, TenantUser, UsageQuarantine, UsageRow
from billing.tables.wallets import AlertTarget, BudgetAlert, BudgetSpent, Outbox, WalletGrant
from billing.tenants.edits import lock_settings
from billing.tenants.erased_people import erase_people
from billing.tenants.tenancy import RESERVED_SUFFIX
from billing.tenants.users import opaque_id
from billing.usage import NOTHING_SAID, UsageEvent, encode, read_event
from core.clock import now_ms
from core.errors import bad_request, see_help
from core.redis.unreadable import Unreadable
from core.sql.database import Database
from core.sql.selects import select_columns, untyped

REQUESTS_AT_ONCE = 500
POLICIES_AT_ONCE = 50  # each of up to 256 KiB
ERASING = 0x657261736500  # seed of our Postgres advisory locks

# Tables that hold a user's id beside `tenant_user`; those with a scope hold it where that is `user`.
_BY_USER: tuple[type[SQLModel], ...] = (UsageRow, RollupHour, Charge, ApiKey, RefusalMinute, RefusalHour)
_BY_SCOPE: tuple[type[SQLModel], ...] = (QuotaPolicy, Budget, BudgetSpent, BudgetAlert)


async def requests_of(
    db: Database, tenant_id: str, user_id: str | None = None
) -> AsyncGenerator[Sequence[UsageRow]]:
    """Yield pages of the requests billed to a tenant, or to one user of it; oldest first."""
    after = ""
    while True:
        statement = select(UsageRow).where(
            col(UsageRow.tenant_id) == tenant_id, col(UsageRow.request_id) > after
        )
        if user_id is not None:
            statement = statement.where(col(UsageRow.user_id) == user_id)
        async with db.session() as session:
            statement = statement.order_by(col(UsageRow.request_id)).limit(REQUESTS_AT_ONCE)
            page = (await session.exec(statement)).all()
        if not page:
            return
        yield page
        after = page[-1].request_id


async def held_events_of(
    db: Database, tenant_id: str, user_id: str | None = None
) -> AsyncGenerator[UsageEvent]:
    """Yield the quarantined events of a tenant, or of one user of it: they were never billed, so no usage row
    has them. Skips events that cannot be read, as their user is unknown."""
    async with db.session() as session:
        async for page in _held(session, tenant_id):
            for each in page:
                event = _readable(each)
                if event is not None and user_id in (None, event.owner.user):
                    yield event


async def erase_user(db: Database, tenant_id: str, user_id: str) -> str:
    """Erase the name of a closed user and their words in the books; return the id that stays.

    Raises Refused where they are not closed."""
    async with db.erasing() as session:
        await _alone(session, tenant_id)
        await lock_settings(session, tenant_id)
        user = await session.get(TenantUser, (tenant_id, user_id), with_for_update=True)
        assert user is not None, "the caller found the user"
        if user.closed_ms is None:
            raise bad_request("only a closed user can be erased", see=see_help("users.close"))
        id = await _erase(session, user)
        await record(session, tenant_id, "user.erase", id, None, {"erased_ms": now_ms()})
    return id


async def erase_tenant(db: Database, tenant_id: str) -> int:
    """Erase all names of a closed tenant: its users', projects', keys', people's and its own; return the
    number of users.

    Raises Refused where it is not closed."""
    async with db.erasing() as session:
        await _alone(session, tenant_id)
        tenant = await session.get(Tenant, tenant_id, with_for_update=True)
        assert tenant is not None, "the caller found the tenant"
        if tenant.closed_ms is None:
            raise bad_request("only a closed tenant can be erased", see=see_help("tenants.close"))
        named = select(TenantUser).where(
            col(TenantUser.tenant_id) == tenant_id, col(TenantUser.name).is_not(None)
        )
        users = (await session.exec(named)).all()
        for user in users:
            if not OPAQUE_USER.fullmatch(user.id):
                await _erase(session, user)
        await _erase_users(session, tenant_id)
        await _erase_names(session, tenant)
        people = await erase_people(session, tenant_id, now_ms())
        facts = {"users": len(users), "people": people}
        await record(session, tenant_id, "tenant.erase", tenant_id, None, facts)
    return len(users)


async def lock_out_erasure(session: AsyncSession, tenants: Iterable[str]) -> None:
    """Hold off erasure in these tenants until this transaction ends, so that its rows are erased too.

    (SQLite has a single writer. A row lock would need the right to write the row, which billers lack.)"""
    if _has_locks(session):
        locks = text(
            "SELECT pg_advisory_xact_lock_shared(hashtextextended(tenant, :erasing)) "
            "FROM unnest(CAST(:tenants AS text[])) AS tenant"
        )
        connection = await session.connection()
        await connection.execute(locks, {"erasing": ERASING, "tenants": sorted(tenants)})


async def is_open(session: AsyncSession, tenant_id: str, user_id: str = "") -> bool:
    """True where neither the tenant nor this user of it is closed. What the caller's transaction then writes
    is there for an erasure that begins later: that waits for it (`wait_for_writers`)."""
    await lock_out_erasure(session, [tenant_id])
    tenant = exists().where(col(Tenant.tenant_id) == tenant_id, col(Tenant.closed_ms).is_not(None))
    user = exists().where(
        col(TenantUser.tenant_id) == tenant_id,
        col(TenantUser.id) == user_id,
        col(TenantUser.closed_ms).is_not(None),
    )
    return not any((await session.exec(select(tenant, user))).one())


async def wait_for_writers(db: Database, tenant_id: str) -> None:
    """Wait until all transactions that found somebody of the tenant open (`is_open`) have ended. Later ones
    find closed whoever is closed now."""
    async with db.transaction() as session:
        await _alone(session, tenant_id)


async def _alone(session: AsyncSession, tenant: str) -> None:
    """Hold off the posting of a tenant's words until this transaction ends."""
    if _has_locks(session):
        lock = text("SELECT pg_advisory_xact_lock(hashtextextended(:tenant, :erasing))")
        connection = await session.connection()
        await connection.execute(lock, {"erasing": ERASING, "tenant": tenant})


def _has_locks(session: AsyncSession) -> bool:
    return session.get_bind().dialect.name == "postgresql"


async def is_erased(db: Database, tenant_id: str, user_id: str = "") -> bool:
    """True where the tenant, or this user (an id; empty: none) of it, is erased."""
    tenant = exists().where(col(Tenant.tenant_id) == tenant_id, _is_erased_tenant())
    user = exists().where(
        col(TenantUser.tenant_id) == tenant_id,
        col(TenantUser.id) == user_id,
        col(TenantUser.erased_ms).is_not(None),
    )
    async with db.session() as session:
        return any((await session.exec(select(tenant, user))).one())


async def erased_tenants(db: Database, ids: Iterable[str]) -> set[str]:
    """The erased ones among these tenants."""
    found = select(Tenant.tenant_id).where(col(Tenant.tenant_id).in_(list(ids)), _is_erased_tenant())
    async with db.session() as session:
        return set((await session.exec(found)).all())


def _is_erased_tenant() -> ColumnElement[bool]:
    return col(Tenant.name).endswith(RESERVED_SUFFIX, autoescape=True)


async def _erase_users(session: AsyncSession, tenant: str) -> None:
    """Erase all users in one statement. The rest of their words goes with the whole tenant's."""
    now = now_ms()
    closed_ms = func.coalesce(col(TenantUser.closed_ms), now)
    named = col(TenantUser.name).is_not(None)
    await _set(session, TenantUser, tenant, named, name=None, closed_ms=closed_ms, erased_ms=now)


async def _erase(session: AsyncSession, user: TenantUser) -> str:
    """Erase a user in the caller's transaction; return their id from now on."""
    now, tenant = now_ms(), user.tenant_id
    id = user.id if OPAQUE_USER.fullmatch(user.id) else opaque_id(now)
    await _erase_labels(session, tenant, col(UsageRow.user_id) == user.id)
    await _erase_tags(session, tenant, user.id)
    await _set(session, ApiKey, tenant, _open_keys(user.id), revoked_ms=now)
    await _set(session, ApiKey, tenant, col(ApiKey.user_id) == user.id, name="", origins=None)
    sessions = (col(BrowserSession.tenant_id) == tenant, col(BrowserSession.user_id) == user.id)
    await session.exec(delete(BrowserSession).where(*sessions))
    if id != user.id:
        await _rename(session, tenant, user.id, id)
    await _erase_events(session, tenant, user.id, id)
    await session.delete(user)
    await session.flush()
    closed_ms = user.closed_ms or now
    session.add(
        TenantUser(
            tenant_id=tenant, id=id, name=None, created_ms=user.created_ms, closed_ms=closed_ms, erased_ms=now
        )
    )
    await session.flush()
    return id


def _open_keys(user_id: str) -> ColumnElement[bool]:
    return (col(ApiKey.user_id) == user_id) & col(ApiKey.revoked_ms).is_(None)


async def _rename(session: AsyncSession, tenant: str, old: str, new: str) -> None:
    """Replace a user's id that is a name, in every table that is not chained."""
    for table in _BY_USER:
        await _set(session, table, tenant, _column(table, "user_id") == old, user_id=new)
    for table in _BY_SCOPE:
        of_user = (_column(table, "scope") == "user") & (_column(table, "scope_id") == old)
        await _set(session, table, tenant, of_user, scope_id=new)
    told = select(Outbox).where(col(Outbox.tenant_id) == tenant)
    for message in (await session.exec(told)).all():
        if (message.payload.get("scope"), message.payload.get("scope_id")) == ("user", old):
            message.payload = message.payload | {"scope_id": new}


async def _erase_labels(session: AsyncSession, tenant: str, where: ColumnElement[bool] | None) -> None:
    """Erase labels and the key of their proof, so that nobody can guess them from the hash that stays."""
    kept = func.substr(col(UsageRow.words_proof), 1, KEPT_OF_WORDS)
    await _set(session, UsageRow, tenant, where, request_metadata={}, words_proof=kept)


async def _erase_tags(session: AsyncSession, tenant: str, user: str | None) -> None:
    """Erase the sums by labels, of one user or of all: what they say is in the other sums. Of one user, also
    reports by mail of a label that nobody else has."""
    statement = delete(RollupTag).where(col(RollupTag.tenant_id) == tenant)
    if user is None:
        await session.exec(statement)
        return
    of = select(ReportSchedule).where(col(ReportSchedule.tenant_id) == tenant, col(ReportSchedule.only) != "")
    of_label = (await session.exec(of)).all()
    theirs = [each for each in of_label if await _has_label(session, tenant, each.only, user)]
    await session.exec(statement.where(col(RollupTag.user_id) == user))
    for each in theirs:
        if not await _has_label(session, tenant, each.only):
            await session.delete(each)


async def _has_label(session: AsyncSession, tenant: str, only: str, user: str | None = None) -> bool:
    """Whether a tenant, or one user of it, has sums of this label (`key=value`)."""
    key, _, value = only.partition("=")
    pair = json.dumps({key: value})[1:-1]  # as it stands among the tags
    found = select(RollupTag.tenant_id).where(
        col(RollupTag.tenant_id) == tenant, col(RollupTag.tags).contains(pair, autoescape=True)
    )
    if user is not None:
        found = found.where(col(RollupTag.user_id) == user)
    return (await session.exec(found.limit(1))).first() is not None


async def _erase_events(session: AsyncSession, tenant: str, old: str | None, new: str) -> None:
    """Erase words from quarantined events, whose amounts stay. `old` None: those of all users."""
    async for page in _held(session, tenant):
        for each in page:
            event = _readable(each)
            if event is None:
                each.event = b""  # unreadable, so erased whole
            elif old in (None, event.owner.user):
                user = new if old is not None else event.owner.user
                owner = msgspec.structs.replace(event.owner, user=user, metadata=NOTHING_SAID)
                each.event = encode(msgspec.structs.replace(event, owner=owner))
        await session.flush()


async def _held(session: AsyncSession, tenant: str) -> AsyncGenerator[Sequence[UsageQuarantine]]:
    """Yield a tenant's quarantined events in pages: a compromised worker may have made any number of them."""
    after = ""
    while True:
        statement = select(UsageQuarantine).where(
            col(UsageQuarantine.tenant_id) == tenant, col(UsageQuarantine.event_sha256) > after
        )
        statement = statement.order_by(col(UsageQuarantine.event_sha256)).limit(REQUESTS_AT_ONCE)
        page = (await session.exec(statement)).all()
        if not page:
            return
        yield page
        after = page[-1].event_sha256


def _readable(held: UsageQuarantine) -> UsageEvent | None:
    event = read_event(held.event)
    return None if isinstance(event, Unreadable) else event


async def _erase_names(session: AsyncSession, tenant: Tenant) -> None:
    id = tenant.tenant_id
    await _erase_labels(session, id, None)
    await _erase_tags(session, id, None)
    await session.exec(delete(TagKey).where(col(TagKey.tenant_id) == id))
    await session.exec(delete(ReportSchedule).where(col(ReportSchedule.tenant_id) == id))
    await _set(session, ApiKey, id, None, name="", origins=None)
    await _set(session, ApiKey, id, col(ApiKey.revoked_ms).is_(None), revoked_ms=now_ms())
    await _set(session, AlertTarget, id, None, address="", secret="")
    await _set(session, AlertTarget, id, col(AlertTarget.ended_ms).is_(None), ended_ms=now_ms())
    await _set(session, WalletGrant, id, None, note="")
    await _set(session, Project, id, None, name=col(Project.id) + RESERVED_SUFFIX)
    await _set(session, CostCenter, id, None, name="", code=col(CostCenter.id) + RESERVED_SUFFIX)
    await session.exec(delete(Outbox).where(col(Outbox.tenant_id) == id))
    await session.exec(delete(Proposal).where(col(Proposal.tenant_id) == id))
    await session.exec(delete(BrowserSession).where(col(BrowserSession.tenant_id) == id))
    await _erase_events(session, id, None, "")
    await _erase_policies(session, id)
    tenant.name = f"erased {id[-12:]}{RESERVED_SUFFIX}"


async def _erase_policies(session: AsyncSession, tenant: str) -> None:
    """Erase the words of a tenant's rules, and why they were made. The hashes stay, as in the audit log."""
    said = (col(SafetyPolicy.document) != "") | (col(SafetyPolicy.reason) != "")
    statement = select(SafetyPolicy).where(col(SafetyPolicy.tenant_id) == tenant, said)
    while rows := (await session.exec(statement.limit(POLICIES_AT_ONCE))).all():
        for row in rows:
            row.document = row.reason = ""
        await session.flush()


async def _set(
    session: AsyncSession,
    table: type[SQLModel],
    tenant: str,
    where: ColumnElement[bool] | None,
    **values: Any,
) -> None:
    """Set columns, and have the next audit record include the new state of these rows."""
    of = [_column(table, "tenant_id") == tenant, *([] if where is None else [where])]
    ids: Sequence[Any] = ()
    if is_watched(table):
        wanted = select_columns(_column(table, "id")).where(*of)
        ids = (await untyped(session).exec(wanted)).all()
    await session.exec(update(table).where(*of).values(**values))
    for at in range(0, len(ids), REQUESTS_AT_ONCE):
        page = _column(table, "id").in_(ids[at : at + REQUESTS_AT_ONCE])
        rows = select(table).where(_column(table, "tenant_id") == tenant, page)
        for row in (await session.exec(rows.execution_options(populate_existing=True))).all():
            record_again(session, row)


def _column(table: type[SQLModel], name: str) -> Any:
    return getattr(table, name)

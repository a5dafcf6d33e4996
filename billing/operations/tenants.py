"""Operations on tenants: creating, reading, changing and closing them, and their terms in the pools."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType
from sqlmodel import col, func, select

from billing.enforcement.limit_settings import tell_limits
from billing.enforcement.plans import plan_names
from billing.operations.shared_fields import AUDIT, CONTROL, NameTenant, Priority
from billing.tables.tenants import PoolTerms, Tenant
from billing.tenants import tenancy
from billing.tenants.pool_terms import find_terms, tell_terms, write_terms
from billing.unit_of_work.listing import ListQuestion, listed_page
from billing.unit_of_work.units import Change, Look
from billing.wallets.owed import owed_by
from billing.wallets.wallets import wallet_state
from core.clock import iso_time
from core.operations import MEMBERS, OPERATORS, STAFF, ListedPage, MoneyAmount, Uses, operation
from core.sql.database import Database


class OnOff(StrEnum):
    """A switch."""

    ON = "on"
    OFF = "off"


class CacheScope(StrEnum):
    """Who shares cached prefixes: all of a tenant, or each user and key alone, which costs more."""

    TENANT = "tenant"
    OWNER = "owner"


class OpenOrClosed(StrEnum):
    """Whether a tenant's keys are let in."""

    OPEN = "open"
    CLOSED = "closed"


class ListTenants(ListQuestion, frozen=True, kw_only=True):
    """Which tenants; without either all of them."""

    name: Annotated[str, Meta(max_length=200, description="Only those with this in their name.")] = ""
    state: Annotated[OpenOrClosed | None, Meta(description="Only those that are so.")] = None


class CreateTenant(msgspec.Struct, frozen=True, kw_only=True):
    """A new tenant."""

    name: Annotated[str, Meta(description="Its name, which nobody else has.")]
    priority_max: Priority = Priority.INTERACTIVE
    price_book: str = tenancy.DEFAULT_PRICE_BOOK


class SetTenant(NameTenant, frozen=True, kw_only=True):
    """What to change; what is not named stays as it is."""

    price_book: Annotated[
        str | UnsetType, Meta(description="The book that it pays by, from the next request on.")
    ] = UNSET
    time_zone: Annotated[
        str | UnsetType,
        Meta(description="Where its days and months begin: an IANA name like Europe/Berlin."),
    ] = UNSET
    priority_max: Priority | UnsetType = UNSET
    regex: Annotated[OnOff | UnsetType, Meta(description="Whether its answers may follow patterns.")] = UNSET
    shows_costs: Annotated[
        bool | UnsetType,
        Meta(
            description="Whether its users are told what requests cost, and how much of a prompt was cached."
        ),
    ] = UNSET
    cache_by: Annotated[
        CacheScope | UnsetType,
        Meta(
            description="Who shares cached prefixes: all of it, or each user and key alone, which costs more."
        ),
    ] = UNSET


class SetTerms(NameTenant, frozen=True, kw_only=True):
    """What a tenant may take of the pools. `null` takes a maximum away."""

    weight: Annotated[
        float | UnsetType,
        Meta(description="Share against other tenants with waiting work; 1 by default."),
    ] = UNSET
    slots_max: Annotated[int | UnsetType | None, Meta(description="Running requests at once.")] = UNSET
    tokens_max: Annotated[
        int | UnsetType | None,
        Meta(description="Tokens of its requests in the workers' memory at once."),
    ] = UNSET
    reserve_tokens: Annotated[
        int | UnsetType, Meta(description="Tokens of each pool that others leave free for it.")
    ] = UNSET


class TenantFacts(msgspec.Struct, frozen=True):
    """A tenant. Times are RFC 3339 in UTC. `plan`: the name of its plan, whose id is `plan_id`."""

    tenant: str
    name: str
    price_book: str
    priority_max: str
    time_zone: str
    regex: OnOff
    shows_costs: bool
    cache_by: CacheScope
    created: str | None
    closed: str | None
    plan: str | None
    plan_id: str | None

    @classmethod
    def of(cls, row: Tenant, plans: Mapping[str, str]) -> "TenantFacts":
        """The facts of a row. `plans`: their names by id."""
        return cls(
            tenant=row.tenant_id,
            name=row.name,
            price_book=row.price_book_id,
            priority_max=row.priority_max,
            time_zone=row.time_zone,
            regex=OnOff.ON if row.regex else OnOff.OFF,
            shows_costs=row.shows_costs,
            cache_by=CacheScope.OWNER if row.cache_by_owner else CacheScope.TENANT,
            created=iso_time(row.created_ms),
            closed=iso_time(row.closed_ms),
            plan=plans.get(row.plan_id, row.plan_id) if row.plan_id else None,
            plan_id=row.plan_id,
        )


class TenantMoney(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a tenant pays; of a prepaid one what is left, was used, and is owed."""

    pays: str
    left: MoneyAmount | UnsetType = UNSET
    used: MoneyAmount | UnsetType = UNSET
    owed: MoneyAmount | UnsetType = UNSET


class ShownTenant(TenantFacts, frozen=True):
    """A tenant, with the facts that an edit answers with, and its money."""

    money: TenantMoney


class TermsFacts(msgspec.Struct, frozen=True):
    """What a tenant may take of the pools; None: as much as there is."""

    tenant: str
    weight: float
    slots_max: int | None
    tokens_max: int | None
    reserve_tokens: int

    @classmethod
    def of(cls, row: PoolTerms) -> "TermsFacts":
        """The facts of a row."""
        return cls(row.tenant_id, row.weight, row.slots_max, row.tokens_max, row.reserve_tokens)


@operation(
    "tenants.create",
    "POST /tenants",
    may=OPERATORS,
    audit="tenant.create",
    reason=True,
    uses=Uses(reads="price_book", writes=f"tenant project {AUDIT}"),
)
async def create_tenant(change: Change, ask: CreateTenant) -> TenantFacts:
    """Create a tenant with one project, `default`."""
    row = await tenancy.create_tenant(
        change.db, ask.name, price_book=ask.price_book, priority_max=ask.priority_max
    )
    return TenantFacts.of(row, {})  # a new one has no plan


@operation("tenants.list", "GET /tenants", may=STAFF | MEMBERS, uses=Uses(reads="tenant plan"))
async def list_tenants(look: Look, ask: ListTenants) -> ListedPage[TenantFacts]:
    """List all tenants, oldest first. Members see their own."""
    page: ListedPage[Tenant] = await listed_page(look, ask, *rows_listed(look, ask), lambda row: row)
    plans = await plan_names(look.db, (row.plan_id for row in page.items))
    return ListedPage([TenantFacts.of(row, plans) for row in page.items], page.next)


def rows_listed(look: Look, ask: ListTenants) -> tuple[Any, Any]:
    """The statement that selects them, and the column of their order."""
    statement = select(Tenant)
    if look.who.tenant is not None:
        statement = statement.where(col(Tenant.tenant_id) == look.who.tenant)
    if ask.name:
        statement = statement.where(func.lower(Tenant.name).contains(ask.name.lower(), autoescape=True))
    if ask.state is not None:
        closed = col(Tenant.closed_ms)
        statement = statement.where(
            closed.is_(None) if ask.state is OpenOrClosed.OPEN else closed.is_not(None)
        )
    return statement, col(Tenant.tenant_id)


@operation(
    "tenants.show",
    "GET /tenants/{tenant}",
    may=STAFF | MEMBERS,
    uses=Uses(reads="tenant plan wallet wallet_grant wallet_owed ledger_head audit_state"),
)
async def show_tenant(look: Look, ask: NameTenant) -> ShownTenant:
    """Show a tenant: its terms, and of a prepaid one its money."""
    owner = await look.tenant(ask.tenant)
    await look.seen(Tenant, owner.tenant_id, owner.tenant_id)
    state = await wallet_state(look.db, owner.tenant_id, look.now_ms())
    if state is None:
        return await _shown(look, owner, TenantMoney("postpaid"))
    owed = await owed_by(look.db, owner.tenant_id)
    money = TenantMoney(
        "prepaid",
        MoneyAmount.of(state.limit_nano - state.posted_nano),
        MoneyAmount.of(state.posted_nano),
        MoneyAmount.of(owed),
    )
    return await _shown(look, owner, money)


async def _shown(look: Look, owner: Tenant, money: TenantMoney) -> ShownTenant:
    return ShownTenant(**msgspec.structs.asdict(await _facts(look.db, owner)), money=money)


async def _facts(db: Database, row: Tenant) -> TenantFacts:
    return TenantFacts.of(row, await plan_names(db, [row.plan_id]))


@operation(
    "tenants.set",
    "PATCH /tenants/{tenant}",
    may=OPERATORS,
    audit="tenant.set",
    reason=True,
    edits=True,
    uses=Uses(reads="price_book plan", writes=f"tenant {AUDIT}", keys=CONTROL),
)
async def set_tenant(change: Change, ask: SetTenant) -> TenantFacts:
    """Change a tenant. What is not named stays as it is."""
    owner = (await change.tenant(ask.tenant)).tenant_id
    await change.editing(Tenant, owner, owner)
    given = {
        "price_book_id": ask.price_book,
        "time_zone": ask.time_zone,
        "priority_max": ask.priority_max,
        "regex": UNSET if ask.regex is UNSET else ask.regex is OnOff.ON,
        "shows_costs": ask.shows_costs,
        "cache_by_owner": UNSET if ask.cache_by is UNSET else ask.cache_by is CacheScope.OWNER,
    }
    facts = {name: value for name, value in given.items() if value is not UNSET}
    row = await tenancy.set_tenant(change.db, owner, **facts)
    change.after(tenancy.tell_access, owner)
    change.after(tell_limits, owner)  # windows of budgets depend on its time zone
    return await _facts(change.db, row)


@operation(
    "tenants.close",
    "POST /tenants/{tenant}/close",
    may=OPERATORS,
    audit="tenant.close",
    reason=True,
    uses=Uses(reads="plan", writes=f"tenant {AUDIT}", keys=CONTROL),
)
async def close_tenant(change: Change, ask: NameTenant) -> TenantFacts:
    """Refuse all keys of a tenant from now on, and close its connections.

    What it used stays in the books, and what it still runs is finished and billed."""
    return await _set_closed(change, ask.tenant, True)


@operation(
    "tenants.reopen",
    "POST /tenants/{tenant}/reopen",
    may=OPERATORS,
    audit="tenant.reopen",
    reason=True,
    uses=Uses(reads="plan", writes=f"tenant {AUDIT}", keys=CONTROL),
)
async def reopen_tenant(change: Change, ask: NameTenant) -> TenantFacts:
    """Let the keys of a tenant in again."""
    return await _set_closed(change, ask.tenant, False)


@operation(
    "tenants.terms",
    "GET /tenants/{tenant}/terms",
    may=STAFF | MEMBERS,
    uses=Uses(reads="tenant plan pool_terms audit_state"),
)
async def show_terms(look: Look, ask: NameTenant) -> TermsFacts:
    """Show what a tenant may take of the pools."""
    owner = (await look.tenant(ask.tenant)).tenant_id
    await look.seen(PoolTerms, owner, owner)
    return TermsFacts.of(await find_terms(look.db, owner))


@operation(
    "tenants.set_terms",
    "PATCH /tenants/{tenant}/terms",
    may=OPERATORS,
    audit="terms.set",
    reason=True,
    edits=True,
    uses=Uses(reads="plan", writes=f"tenant pool_terms {AUDIT}", keys=CONTROL),
)
async def set_terms(change: Change, ask: SetTerms) -> TermsFacts:
    """Change what a tenant may take of the pools: within a second, for requests that wait too."""
    owner = (await change.tenant(ask.tenant)).tenant_id
    await change.editing(PoolTerms, owner, owner)
    names = ("weight", "slots_max", "tokens_max", "reserve_tokens")
    given = {name: value for name in names if (value := getattr(ask, name)) is not UNSET}
    terms = await write_terms(change.db, owner, given)
    change.after(tell_terms, owner)
    return TermsFacts.of(terms)


async def _set_closed(change: Change, named: str, closed: bool) -> TenantFacts:
    owner = (await change.tenant(named)).tenant_id
    row = await tenancy.write_closed(change.db, owner, closed)
    change.after(tenancy.tell_access, owner)
    return await _facts(change.db, row)


OPERATIONS = (
    create_tenant,
    list_tenants,
    show_tenant,
    set_tenant,
    close_tenant,
    reopen_tenant,
    show_terms,
    set_terms,
)

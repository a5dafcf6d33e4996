"""Operations that show prepaid money, and change what is said and done about it: its alerts, what is owed."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated
from zoneinfo import ZoneInfo

import msgspec
from msgspec import UNSET, Meta, UnsetType
from sqlmodel import col, select

from billing.operations.shared_fields import AUDIT, NameTenant, TenantName
from billing.periods import local_instant
from billing.tables.tenants import Tenant
from billing.tables.wallets import Wallet
from billing.unit_of_work.listing import ListQuestion, listed_page
from billing.unit_of_work.units import Change, Look
from billing.wallets import statements, wallets
from billing.wallets.owed import (
    OLDEST_FIRST,
    Owed,
    OwedTerm,
    owed_by,
    owed_by_each,
    owing_statement,
    set_owed_term,
)
from billing.wallets.statements import GrantLeft, WalletMovement
from core.clock import iso_time
from core.errors import Refused, bad_request, see_help
from core.operations import MONEY, PAYERS, STAFF, ListedPage, MoneyAmount, Uses, operation

LEDGER = "ledger_entry ledger_txn"


class GrantState(StrEnum):
    """What became of a grant."""

    OPEN = "open"
    SPENT = "spent"
    EXPIRED = "expired"
    VOIDED = "voided"


class AsOf(NameTenant, frozen=True, kw_only=True):
    """Which wallet, and when."""

    as_of: Annotated[
        str, Meta(description="As the books said at this time, like 2026-10-01T12:00:00+02:00.")
    ] = ""


class WalletHistory(AsOf, frozen=True, kw_only=True):
    """Which wallet's movements, and how many of the last."""

    last: Annotated[int, Meta(ge=1, le=10_000, description="How many, the last ones.")] = 100


class ListOwed(ListQuestion, frozen=True, kw_only=True):
    """Whose requests that owe."""

    tenant: TenantName


class SetOwed(NameTenant, frozen=True, kw_only=True):
    """What becomes of what is owed."""

    paid_by: Annotated[
        OwedTerm | UnsetType,
        Meta(description="What becomes of it: the next grant pays it first, or it stays to be invoiced."),
    ] = UNSET


Percent = Annotated[int, Meta(ge=1, le=100)]


class SetWalletAlert(NameTenant, frozen=True, kw_only=True):
    """When a wallet alerts."""

    thresholds: Annotated[
        list[Percent], Meta(description="Per cents of the last top-up that are left; none: never.")
    ] = []


class GrantFacts(msgspec.Struct, frozen=True):
    """A grant. Times are RFC 3339 in UTC; without `expires` it never ends."""

    grant: str
    kind: str
    priority: int
    amount: MoneyAmount
    left: MoneyAmount
    expires: str | None
    taken_back: MoneyAmount
    state: GrantState
    key: str
    author: str
    note: str
    granted: str | None

    @classmethod
    def of(cls, found: GrantLeft) -> "GrantFacts":
        """The facts of a row, with what was left at a time."""
        row = found.grant
        return cls(
            grant=row.id,
            kind=row.kind,
            priority=row.priority,
            amount=MoneyAmount.of(row.amount_nano),
            left=MoneyAmount.of(found.left_nano),
            expires=iso_time(row.expires_ms),
            taken_back=MoneyAmount.of(row.taken_nano),
            state=_state(found),
            key=row.idempotency_key,
            author=row.author,
            note=row.note,
            granted=iso_time(row.created_ms),
        )


class WalletFacts(msgspec.Struct, frozen=True):
    """A prepaid tenant, and its money now."""

    tenant: str
    name: str
    left: MoneyAmount
    used: MoneyAmount
    owed: MoneyAmount
    next_expiry: str | None
    closed: str | None


class WalletShown(msgspec.Struct, frozen=True):
    """A wallet's grants, oldest first, and what the tenant owes beyond it now."""

    grants: list[GrantFacts]
    owed: MoneyAmount


class MovementFacts(msgspec.Struct, frozen=True):
    """What came in or went out, and the balance after it."""

    time: str | None
    kind: str
    cause: str
    amount: MoneyAmount
    balance: MoneyAmount

    @classmethod
    def of(cls, found: WalletMovement) -> "MovementFacts":
        """The facts of a movement."""
        amount, balance = MoneyAmount.of(found.amount_nano), MoneyAmount.of(found.balance_nano)
        return cls(iso_time(found.posted_ms), found.kind, found.cause, amount, balance)


class MovementsShown(msgspec.Struct, frozen=True):
    """A wallet's last movements, oldest first, and what the tenant owes beyond it now."""

    movements: list[MovementFacts]
    owed: MoneyAmount


class OwedRequest(msgspec.Struct, frozen=True):
    """A request that no grant paid whole."""

    request: str
    owed: MoneyAmount
    accepted: str | None

    @classmethod
    def of(cls, found: Owed) -> "OwedRequest":
        """The facts of a request."""
        return cls(found.request_id, MoneyAmount.of(found.owed_nano), iso_time(found.accepted_ms))


class OwedTermFacts(msgspec.Struct, frozen=True):
    """What becomes of what a tenant owes, and how much that is now."""

    tenant: str
    paid_by: OwedTerm
    owed: MoneyAmount


class WalletAlertFacts(msgspec.Struct, frozen=True):
    """When a wallet alerts, in per cents, the lowest first."""

    tenant: str
    thresholds: list[int]


@operation(
    "wallets.list",
    "GET /wallets",
    may=STAFF,
    uses=Uses(reads="tenant wallet wallet_grant wallet_owed ledger_head"),
)
async def list_wallets(look: Look, ask: ListQuestion) -> ListedPage[WalletFacts]:
    """List the tenants that have a wallet by name, with what is left now."""
    statement = select(Tenant).join(Wallet, col(Wallet.tenant_id) == col(Tenant.tenant_id))
    page: ListedPage[Tenant] = await listed_page(look, ask, statement, col(Tenant.name), lambda row: row)
    ids = [row.tenant_id for row in page.items]
    owed, states = await owed_by_each(look.db, ids), await wallets.wallet_states(look.db, ids, look.now_ms())
    return ListedPage([_wallet(row, states[row.tenant_id], owed) for row in page.items], page.next)


@operation(
    "wallets.show",
    "GET /tenants/{tenant}/wallet",
    may=STAFF | PAYERS,
    uses=Uses(reads=f"tenant wallet_grant wallet_owed audit_state {LEDGER}"),
)
async def show_wallet(look: Look, ask: AsOf) -> WalletShown:
    """Show what is left of each grant and when it ends."""
    owner = await look.tenant(ask.tenant)
    await look.seen(Wallet, owner.tenant_id, owner.tenant_id)
    grants = await statements.grants_as_of(look.db, owner.tenant_id, _as_of(look, owner, ask.as_of))
    owed_nano = await owed_by(look.db, owner.tenant_id)
    return WalletShown([GrantFacts.of(each) for each in grants], MoneyAmount.of(owed_nano))


@operation(
    "wallets.history",
    "GET /tenants/{tenant}/wallet/history",
    may=STAFF | PAYERS,
    uses=Uses(reads=f"tenant wallet_owed {LEDGER}"),
)
async def show_history(look: Look, ask: WalletHistory) -> MovementsShown:
    """Show what came into a wallet and went out, with the balance after each."""
    owner = await look.tenant(ask.tenant)
    at_ms = _as_of(look, owner, ask.as_of)
    moved = await statements.statement(look.db, owner.tenant_id, at_ms, ask.last)
    owed_nano = await owed_by(look.db, owner.tenant_id)
    return MovementsShown([MovementFacts.of(each) for each in moved], MoneyAmount.of(owed_nano))


@operation(
    "wallets.owed",
    "GET /tenants/{tenant}/wallet/owed",
    may=STAFF | PAYERS,
    uses=Uses(reads="tenant wallet_owed usage_event usage_line"),
)
async def list_owed(look: Look, ask: ListOwed) -> ListedPage[OwedRequest]:
    """List what a tenant owes for requests that no grant paid, the oldest first."""
    owner = await look.tenant(ask.tenant)
    return await listed_page(look, ask, owing_statement(owner.tenant_id), OLDEST_FIRST, OwedRequest.of)


@operation(
    "wallets.set_owed",
    "PATCH /tenants/{tenant}/wallet/owed",
    may=MONEY,
    audit="wallet.owed",
    reason=True,
    edits=True,
    uses=Uses(reads="wallet_owed", writes=f"tenant wallet {AUDIT}"),
)
async def set_owed(change: Change, ask: SetOwed) -> OwedTermFacts:
    """Change what becomes of what a tenant owes."""
    owner = (await change.tenant(ask.tenant)).tenant_id
    await change.editing(Wallet, owner, owner)
    if ask.paid_by is not UNSET and not await set_owed_term(change.db, owner, ask.paid_by):
        raise _no_wallet()
    async with change.db.session() as session:
        row = await session.get_one(Wallet, owner)
    return OwedTermFacts(owner, OwedTerm(row.owed_term), MoneyAmount.of(await owed_by(change.db, owner)))


@operation(
    "wallets.alert",
    "PATCH /tenants/{tenant}/wallet/alert",
    may=MONEY,
    audit="wallet.alert",
    reason=True,
    edits=True,
    uses=Uses(writes=f"tenant wallet {AUDIT}"),
)
async def set_alert(change: Change, ask: SetWalletAlert) -> WalletAlertFacts:
    """Alert when no more than these per cents of the last top-up are left; none: never. At first 20 and 5."""
    owner = (await change.tenant(ask.tenant)).tenant_id
    await change.editing(Wallet, owner, owner)
    if not await wallets.set_low_percents(change.db, owner, ask.thresholds):
        raise _no_wallet()
    return WalletAlertFacts(owner, sorted(ask.thresholds))


def _wallet(row: Tenant, state: wallets.WalletState, owed: Mapping[str, int]) -> WalletFacts:
    return WalletFacts(
        tenant=row.tenant_id,
        name=row.name,
        left=MoneyAmount.of(state.limit_nano - state.posted_nano),
        used=MoneyAmount.of(state.posted_nano),
        owed=MoneyAmount.of(owed.get(row.tenant_id, 0)),
        next_expiry=iso_time(state.next_expiry_ms),
        closed=iso_time(row.closed_ms),
    )


def _as_of(look: Look, owner: Tenant, as_of: str) -> int:
    return local_instant(as_of, ZoneInfo(owner.time_zone), "as_of") if as_of else look.now_ms()


def _state(found: GrantLeft) -> GrantState:
    if found.grant.taken_nano == found.grant.amount_nano:
        return GrantState.VOIDED
    if found.expired:
        return GrantState.EXPIRED
    return GrantState.OPEN if found.left_nano else GrantState.SPENT


def _no_wallet() -> Refused:
    return bad_request("the tenant has no wallet", field="tenant", see=see_help("wallets.grant"))


OPERATIONS = (list_wallets, show_wallet, show_history, list_owed, set_owed, set_alert)

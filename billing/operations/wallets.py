"""Operations on prepaid money: putting it in, and taking it out again. Each says how much it moves."""

from typing import Annotated
from zoneinfo import ZoneInfo

import msgspec
from msgspec import Meta

from billing.audit.log import record
from billing.enforcement.take_credit import end_take, held_credit
from billing.enforcement.wallet_watch import publish_wallet_changed
from billing.ledger.grant_spending import GrantKind
from billing.operations.shared_fields import AUDIT, CONTROL, NameTenant
from billing.operations.wallet_views import GrantFacts
from billing.periods import local_instant
from billing.tables.tenants import Tenant
from billing.unit_of_work.units import Change
from billing.wallets import wallets
from billing.wallets.statements import GrantLeft
from billing.wallets.undo import Undo, UndoKind, UndoResult, book_undo
from core.actor import current_author
from core.operations import MONEY, MoneyAmount, Uses, operation

BOOKS = "ledger_head ledger_txn ledger_entry wallet wallet_grant budget_watermark budget_alert outbox"
READ = "tenant api_key quota_policy alert_target budget usage_event usage_line wallet_use wallet_owed"
COUNTED = (*CONTROL, "T:money:", "T:money~:", "T:moneys", "T:posted", "T:windows")

Amount = Annotated[MoneyAmount, Meta(description="Like '250.00 USD'; at most nine decimals.")]
Key = Annotated[str, Meta(description="Your name for this: said again, it is done once.")]
GrantName = Annotated[str, Meta(description="The grant's id, or the key that it was made under.")]


class GrantMoney(NameTenant, frozen=True, kw_only=True):
    """Money to put into a wallet. `priority`: the lowest is spent first."""

    amount: Amount
    key: Annotated[str, Meta(description="Your name for this grant: said again, it is not made again.")]
    kind: GrantKind = GrantKind.PAID
    expires: Annotated[
        str,
        Meta(description="When what is left of it ends, in the tenant's time zone; by default never."),
    ] = ""
    priority: Annotated[
        int | None,
        Meta(description="The lowest is spent first; by default 10 for promo, 50 for paid."),
    ] = None
    note: Annotated[str, Meta(description="Kept with the grant.")] = ""


class VoidGrant(NameTenant, frozen=True, kw_only=True):
    """A grant that was a mistake."""

    grant: GrantName


class ClawBack(VoidGrant, frozen=True, kw_only=True):
    """What to take of a grant."""

    amount: Amount
    key: Key


class PayOut(NameTenant, frozen=True, kw_only=True):
    """What is paid back to a customer."""

    amount: Amount
    key: Key


class ExpireGrants(msgspec.Struct, frozen=True, kw_only=True):
    """Whose grants."""

    tenant: Annotated[str | None, Meta(description="Only this one's; by default all tenants'.")] = None


class ExpiredGrants(msgspec.Struct, frozen=True):
    """How many grants were over, with something left."""

    expired: int


class GrantMade(msgspec.Struct, frozen=True):
    """A grant. `paid_owed`: what it paid at once of what was owed; `new` False: it was made before, and
    nothing is changed."""

    grant: GrantFacts
    paid_owed: MoneyAmount
    new: bool


class TakenPart(msgspec.Struct, frozen=True):
    """What is taken of one grant."""

    grant: str
    key: str
    kind: str
    taken: MoneyAmount


class TakenMoney(msgspec.Struct, frozen=True):
    """What is taken, by grant. `new` False: it was taken before, and nothing is changed."""

    parts: list[TakenPart]
    new: bool

    @classmethod
    def of(cls, taken: UndoResult) -> "TakenMoney":
        """The parts of a result."""
        parts = [
            TakenPart(grant.id, grant.idempotency_key, grant.kind, MoneyAmount.of(nano))
            for grant, nano in taken.parts
        ]
        return cls(parts, not taken.done)


@operation(
    "wallets.grant",
    "POST /tenants/{tenant}/wallet/grants",
    may=MONEY,
    audit="wallet.grant",
    reason=True,
    uses=Uses(reads=READ, writes=f"{BOOKS} wallet_use wallet_owed {AUDIT}", keys=COUNTED),
)
async def grant(change: Change, ask: GrantMoney) -> GrantMade:
    """Put money into a tenant's wallet, which the first grant opens; under the same key once.

    A tenant is prepaid from then on: nothing is served to it beyond what is left."""
    owner = await change.tenant(ask.tenant)
    row, new = await wallets.grant(change.db, owner.tenant_id, _new_grant(owner, ask))
    if new:
        await change.moves(owner.tenant_id, row.amount_nano)
    change.after(publish_wallet_changed, owner.tenant_id)
    paid_nano = row.amount_nano - row.left_nano if new else 0
    return GrantMade(GrantFacts.of(GrantLeft(row, row.left_nano, False)), MoneyAmount.of(paid_nano), new)


@operation(
    "wallets.void",
    "POST /tenants/{tenant}/wallet/grants/{grant}/void",
    may=MONEY,
    audit="wallet.void",
    reason=True,
    uses=Uses(reads=READ, writes=f"{BOOKS} {AUDIT}", keys=COUNTED),
)
async def void_grant(change: Change, ask: VoidGrant) -> TakenMoney:
    """Take a grant back as a mistake: all of it, of which nothing was paid and answers hold nothing."""
    return await _take(change, ask.tenant, UndoKind.VOID, grant=ask.grant)


@operation(
    "wallets.claw_back",
    "POST /tenants/{tenant}/wallet/grants/{grant}/claw-back",
    may=MONEY,
    audit="wallet.claw_back",
    reason=True,
    uses=Uses(reads=READ, writes=f"{BOOKS} {AUDIT}", keys=COUNTED),
)
async def claw_back(change: Change, ask: ClawBack) -> TakenMoney:
    """Take an amount out of a grant, at most what is left of it, back to where the grant came from."""
    return await _take(
        change, ask.tenant, UndoKind.CLAW_BACK, grant=ask.grant, nano=ask.amount.value, key=ask.key
    )


@operation(
    "wallets.pay_out",
    "POST /tenants/{tenant}/wallet/pay-outs",
    may=MONEY,
    audit="wallet.pay_out",
    reason=True,
    uses=Uses(reads=READ, writes=f"{BOOKS} {AUDIT}", keys=COUNTED),
)
async def pay_out(change: Change, ask: PayOut) -> TakenMoney:
    """Book what is paid back to a customer: of paid grants, the newest first; promo money is not paid out."""
    return await _take(change, ask.tenant, UndoKind.PAY_OUT, nano=ask.amount.value, key=ask.key)


@operation(
    "wallets.expire",
    "POST /wallets/expire",
    may=MONEY,
    audit="wallet.expire",
    reason=True,
    uses=Uses(reads=READ, writes=f"{BOOKS} {AUDIT}", keys=COUNTED),
)
async def expire_grants(change: Change, ask: ExpireGrants) -> ExpiredGrants:
    """Book the rest of grants whose time is over. The biller does so by itself; again it changes nothing."""
    at_ms = change.now_ms()
    if ask.tenant is not None:
        owners = [(await change.tenant(ask.tenant)).tenant_id]
    else:
        owners = await wallets.tenants_with_expired(change.db, at_ms)
    ended = {owner: await wallets.expire(change.db, owner, at_ms) for owner in owners}
    async with change.db.transaction() as session:  # behind all heads of books, as locks go
        for owner, grants in ended.items():
            if grants:
                facts = {row.id: unused_nano for row, unused_nano in grants}
                await record(session, owner, "wallet.expire", owner, None, {"unused_nano": facts})
    for owner in owners:
        change.after(publish_wallet_changed, owner)
    return ExpiredGrants(sum(map(len, ended.values())))


def _new_grant(owner: Tenant, ask: GrantMoney) -> wallets.NewGrant:
    ends_ms = local_instant(ask.expires, ZoneInfo(owner.time_zone), "expires") if ask.expires else None
    author = current_author().name
    return wallets.NewGrant(ask.kind, ask.amount.value, ask.key, ask.priority, ends_ms, author, ask.note)


async def _take(
    change: Change, tenant: str, kind: UndoKind, grant: str = "", nano: int = 0, key: str = ""
) -> TakenMoney:
    """Book it, and keep it from answers from before the commit on: what they hold is not taken."""
    owner = (await change.tenant(tenant)).tenant_id
    undo = Undo(kind, grant, nano, key, change.terms.reason, current_author().name)
    taken = await book_undo(change.db, owner, undo)
    if not taken.done:
        await change.moves(owner, taken.amount_nano)
        of = change.stores
        take = await change.until_committed(held_credit(of.db, of.redis, owner, taken.amount_nano))
        change.after(end_take, owner, take)
    change.after(publish_wallet_changed, owner)
    return TakenMoney.of(taken)


OPERATIONS = (grant, void_grant, claw_back, pay_out, expire_grants)

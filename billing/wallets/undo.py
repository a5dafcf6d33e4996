"""Takes money out of a wallet: voids a grant made by mistake, claws back the rest of one, or pays a paid
balance out to the customer. Each is one transaction of the tenant's books.

Only money that is left can be taken. Money that paid a request must first be refunded.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from sqlmodel import col, func, or_, select
from sqlmodel.ext.asyncio.session import AsyncSession

from billing.audit.log import record
from billing.booking.write import lock_heads, write
from billing.budgets.thresholds import store_alerts, wallet_reached
from billing.ledger.grant_rows import load_wallets
from billing.ledger.grant_spending import WALLET, WALLET_END, GrantKind, account_of
from billing.ledger.transactions import TxnKind, post
from billing.limits import LIMIT_NANO_MAX
from billing.money import to_display
from billing.tables.ledger import LedgerEntry, LedgerTxn
from billing.tables.wallets import WalletGrant
from billing.wallets.wallets import KEY, SOURCES
from core.clock import now_ms
from core.errors import bad_request, see, see_help, unknown
from core.names import checked_name
from core.sql.database import Database

PAID_OUT = "paid_out"
GRANTS_MAX = 1_000


class UndoKind(StrEnum):
    """Kinds of undoing, as transactions and the audit log name them."""

    VOID = "void"
    CLAW_BACK = "claw_back"
    PAY_OUT = "pay_out"


@dataclass(frozen=True)
class Undo:
    """An order to take money: from the grant of this id or key, or from all paid grants (`grant` empty) for a
    payment out. `amount_nano` 0: the whole of a voided grant. `key`: the caller's own name for the order; a
    repetition under it takes nothing more."""

    kind: UndoKind
    grant: str
    amount_nano: int
    key: str
    reason: str
    author: str = ""

    @property
    def txn_key(self) -> str:
        """Idempotency key of its transaction."""
        return f"{self.kind}:{self.key or self.grant}"


@dataclass(frozen=True)
class UndoResult:
    """Amounts taken, by grant. `done`: they were taken before, and nothing more is."""

    parts: Sequence[tuple[WalletGrant, int]]
    done: bool = False

    @property
    def amount_nano(self) -> int:
        """Sum of all parts."""
        return sum(amount for _, amount in self.parts)


async def book_undo(db: Database, tenant_id: str, undo: Undo) -> UndoResult:
    """Book an undo. Before it is committed the caller makes sure that nothing in Redis holds the money
    (billing/enforcement/take_credit.py). Raises Refused where it is not possible."""
    _check(undo)
    async with db.transaction() as session:
        head = (await lock_heads(session, [tenant_id]))[tenant_id]
        now = now_ms()
        taken = await _plan(session, tenant_id, undo, now)
        if taken.done:
            return taken
        to = {grant.id: _goes_to(undo, grant) for grant, _ in taken.parts}
        entries = [
            entry
            for grant, amount in taken.parts
            for entry in ((account_of(grant.kind, grant.id), amount, "", ""), (to[grant.id], -amount, "", ""))
        ]
        await write(session, [post(head, TxnKind(undo.kind), undo.txn_key, [], entries, now)], [])
        for grant, amount in taken.parts:
            grant.left_nano -= amount
            grant.taken_nano += amount
        await session.flush()
        wallets = await load_wallets(session, [tenant_id], now)
        await store_alerts(session, wallet_reached(wallets[tenant_id]), now)
        grants = {grant.id: amount for grant, amount in taken.parts}
        facts = {"reason": undo.reason, "key": undo.key, "amount_nano": taken.amount_nano, "grants": grants}
        target = taken.parts[0][0].id if undo.grant else tenant_id
        await record(session, tenant_id, f"wallet.{undo.kind}", target, None, facts)
        return taken


def _goes_to(undo: Undo, grant: WalletGrant) -> str:
    return PAID_OUT if undo.kind is UndoKind.PAY_OUT else SOURCES[GrantKind(grant.kind)]


async def _plan(session: AsyncSession, tenant_id: str, undo: Undo, now: int) -> UndoResult:
    if undo.kind is UndoKind.PAY_OUT:
        return await _before(session, tenant_id, undo) or await _plan_pay_out(session, tenant_id, undo, now)
    grant = await _grant_named(session, tenant_id, undo.grant)
    if grant is None:
        looks = see("wallets.show", tenant=tenant_id)
        raise unknown(f"there is no grant {undo.grant!r}", field="grant", see=looks)
    if undo.kind is UndoKind.CLAW_BACK:
        return await _before(session, tenant_id, undo) or UndoResult([(grant, _left_for(undo, grant, now))])
    if grant.taken_nano == grant.amount_nano:
        return UndoResult([(grant, grant.amount_nano)], done=True)
    ended = grant.expires_ms is not None and grant.expires_ms <= now
    if ended or grant.left_nano != grant.amount_nano:
        raise bad_request(
            f"{to_display(grant.left_nano)} is left of the grant's {to_display(grant.amount_nano)}: only one "
            "that nothing was paid from can be voided; claw back what is left",
            see=see_help("wallets.claw_back"),
        )
    return UndoResult([(grant, grant.amount_nano)])


def _left_for(undo: Undo, grant: WalletGrant, now: int) -> int:
    """Return the amount to claw back. Raises Refused where less is left. Pure."""
    ended = grant.expires_ms is not None and grant.expires_ms <= now
    left_nano = 0 if ended else grant.left_nano
    if undo.amount_nano > left_nano:
        raise bad_request(
            f"{to_display(left_nano)} is left of the grant: no more than that can be clawed back"
        )
    return undo.amount_nano


async def _plan_pay_out(session: AsyncSession, tenant_id: str, undo: Undo, now: int) -> UndoResult:
    """Divide a payment out among paid grants, newest first. Promo money is never paid out."""
    statement = (
        select(WalletGrant)
        .where(
            col(WalletGrant.tenant_id) == tenant_id,
            col(WalletGrant.kind) == GrantKind.PAID.value,
            col(WalletGrant.left_nano) > 0,
            or_(col(WalletGrant.expires_ms).is_(None), col(WalletGrant.expires_ms) > now),
        )
        .order_by(col(WalletGrant.created_ms).desc(), col(WalletGrant.id).desc())
        .limit(GRANTS_MAX)
    )
    parts: list[tuple[WalletGrant, int]] = []
    missing = undo.amount_nano
    grants = (await session.exec(statement)).all()
    for grant in grants:
        if amount := min(missing, grant.left_nano):
            parts.append((grant, amount))
            missing -= amount
    if missing:
        left = to_display(sum(grant.left_nano for grant in grants))
        raise bad_request(f"{left} of paid money is left: no more than that can be paid out", field="amount")
    return UndoResult(parts)


async def _before(session: AsyncSession, tenant_id: str, undo: Undo) -> UndoResult | None:
    """Amounts taken under this key before; None: nothing. Raises Refused where the key was used for another
    undo."""
    statement = (
        select(col(LedgerEntry.account), func.sum(LedgerEntry.amount_nano))
        .join(
            LedgerTxn,
            (col(LedgerTxn.tenant_id) == col(LedgerEntry.tenant_id))
            & (col(LedgerTxn.seq) == col(LedgerEntry.txn_seq)),
        )
        .where(
            col(LedgerTxn.tenant_id) == tenant_id,
            col(LedgerTxn.idempotency_key) == undo.txn_key,
            col(LedgerEntry.account) >= WALLET,
            col(LedgerEntry.account) < WALLET_END,
        )
        .group_by(col(LedgerEntry.account))
    )
    found = [(account, int(amount)) for account, amount in (await session.exec(statement)).all()]
    if not found:
        return None
    parts: list[tuple[WalletGrant, int]] = []
    for account, amount in found:
        grant = await _grant_named(session, tenant_id, account.rpartition(":")[2])
        assert grant is not None, "INV-32: an account of a wallet is a grant's"
        parts.append((grant, amount))
    taken = UndoResult(parts, done=True)
    other = undo.grant and undo.grant not in (parts[0][0].id, parts[0][0].idempotency_key)
    if other or taken.amount_nano != undo.amount_nano:
        raise bad_request(f"the key {undo.key!r} was that of another one")
    return taken


async def _grant_named(session: AsyncSession, tenant_id: str, named: str) -> WalletGrant | None:
    """A tenant's grant by its id, or by the key that it was made under."""
    statement = select(WalletGrant).where(
        col(WalletGrant.tenant_id) == tenant_id,
        or_(col(WalletGrant.id) == named, col(WalletGrant.idempotency_key) == named),
    )
    found = (await session.exec(statement)).all()
    return next((row for row in found if row.id == named), found[0] if found else None)


def _check(undo: Undo) -> None:
    checked_name("reason", undo.reason)
    if undo.kind is UndoKind.VOID:
        return
    if not 0 < undo.amount_nano <= LIMIT_NANO_MAX:
        raise bad_request("an amount to take is above 0 and at most 4,000,000 USD", field="amount")
    if not KEY.fullmatch(undo.key):
        raise bad_request("an idempotency key has 1 to 200 visible ASCII characters", field="key")

"""Tables of prepaid money, spending in budgets' windows, alerts, and messages to send."""

from typing import Any

from sqlalchemy import JSON, BigInteger, CheckConstraint, ForeignKeyConstraint, Index, UniqueConstraint, text
from sqlmodel import Field

from core.sql.database import TableBase


class Wallet(TableBase, table=True):
    """A prepaid tenant. Its requests that are posted after `opened_line_seq` are paid from its grants.

    `posted_nano`: cost of these requests so far, corrections included, whether a grant paid it or not.
    `top_up_*`: the last grant that counts as a top-up; `low_percents`: per cents of it below which the rest
    alerts; `owed_term`: treatment of owed amounts (billing/wallets/owed.py)."""

    __table_args__ = (
        CheckConstraint("posted_nano >= 0", name="ck_wallet_posted"),
        ForeignKeyConstraint(["tenant_id"], ["tenant.tenant_id"], name="fk_wallet_tenant"),
    )

    tenant_id: str = Field(primary_key=True)
    opened_line_seq: int = Field(sa_type=BigInteger)
    posted_nano: int = Field(default=0, sa_type=BigInteger)
    top_up_grant_id: str = ""
    top_up_nano: int = Field(default=0, sa_type=BigInteger)
    low_percents: list[int] = Field(sa_type=JSON)
    created_ms: int = Field(sa_type=BigInteger)
    owed_term: str = "next_grant"


class WalletGrant(TableBase, table=True):
    """Money put into a wallet. `kind`: paid or promo. Of several, the lowest `priority` is spent first, then
    the first to expire, then the oldest.

    `left_nano` follows from the ledger account `wallet:<kind>:<id>`, and so do `lapsed_nano` (booked as
    breakage at its end, less what came back for earlier requests) and `taken_nano` (voided, clawed back, paid
    out); they are kept so that posting need not sum them. `idempotency_key`: the caller's own name for this
    grant, so that none is made twice."""

    __table_args__ = (
        UniqueConstraint("tenant_id", "idempotency_key", name="uq_wallet_grant_key"),
        CheckConstraint("kind IN ('paid', 'promo')", name="ck_wallet_grant_kind"),
        CheckConstraint("amount_nano > 0", name="ck_wallet_grant_amount"),
        CheckConstraint("left_nano >= 0 AND left_nano <= amount_nano", name="ck_wallet_grant_left"),
        ForeignKeyConstraint(["tenant_id"], ["wallet.tenant_id"], name="fk_wallet_grant_wallet"),
        Index(
            "ix_wallet_grant_open",
            "tenant_id",
            "expires_ms",
            sqlite_where=text("left_nano > 0"),
            postgresql_where=text("left_nano > 0"),
        ),
        Index(
            "ix_wallet_grant_lapsed",
            "tenant_id",
            "expires_ms",
            sqlite_where=text("lapsed_nano > 0"),
            postgresql_where=text("lapsed_nano > 0"),
        ),
    )

    tenant_id: str = Field(primary_key=True)
    id: str = Field(primary_key=True)
    kind: str
    priority: int
    amount_nano: int = Field(sa_type=BigInteger)
    left_nano: int = Field(sa_type=BigInteger)
    lapsed_nano: int = Field(default=0, sa_type=BigInteger)
    taken_nano: int = Field(default=0, sa_type=BigInteger)
    expires_ms: int | None = Field(default=None, sa_type=BigInteger)
    idempotency_key: str
    author: str = ""
    note: str = ""
    created_ms: int = Field(sa_type=BigInteger)


class WalletUse(TableBase, table=True):
    """Amount that a transaction took from a grant for a request; negative where a correction gave back. Rows
    are added, never changed. Cost of a request beyond its rows is owed (WalletOwed)."""

    tenant_id: str = Field(primary_key=True)
    request_id: str = Field(primary_key=True)
    txn_seq: int = Field(primary_key=True, sa_type=BigInteger)
    grant_id: str = Field(primary_key=True)
    amount_nano: int = Field(sa_type=BigInteger)


class WalletOwed(TableBase, table=True):
    """Cost of a request, posted after the wallet was opened, beyond what grants paid. Follows from lines and
    uses; kept so that the next grant need not search for it."""

    tenant_id: str = Field(primary_key=True)
    request_id: str = Field(primary_key=True)
    owed_nano: int = Field(sa_type=BigInteger)


class BudgetSpent(TableBase, table=True):
    """Money spent by one project, key, user or model, or the whole tenant (`scope_id` empty), in one window
    by time of acceptance. `scope` key_chain: a key with all that it was rotated into, under the first one.
    Follows from the lines; kept so that posting need not sum them."""

    __table_args__ = (Index("ix_budget_spent_window", "tenant_id", "scope", "period", "window_start_ms"),)

    tenant_id: str = Field(primary_key=True)
    scope: str = Field(primary_key=True)
    scope_id: str = Field(primary_key=True)
    period: str = Field(primary_key=True)
    window_start_ms: int = Field(primary_key=True, sa_type=BigInteger)
    window_end_ms: int = Field(primary_key=True, sa_type=BigInteger)
    spent_nano: int = Field(sa_type=BigInteger)


class BudgetWatermark(TableBase, table=True):
    """The last line of a tenant that its rows of BudgetSpent contain. `since_ms`: when they were made anew;
    of a window that began later, every owner who spent has a row."""

    tenant_id: str = Field(primary_key=True)
    line_seq: int = Field(sa_type=BigInteger)
    since_ms: int = Field(default=0, sa_type=BigInteger)


class BudgetAlert(TableBase, table=True):
    """A threshold (per cent) of a limit that was reached. Each alerts once for its scope, window and limit,
    so that an edit or the end of an override never alerts twice. `scope` wallet: the rest fell to a per cent
    of the last top-up, the grant `scope_id`."""

    tenant_id: str = Field(primary_key=True)
    scope: str = Field(primary_key=True)
    scope_id: str = Field(primary_key=True)
    period: str = Field(primary_key=True)
    window_start_ms: int = Field(primary_key=True, sa_type=BigInteger)
    limit_nano: int = Field(primary_key=True, sa_type=BigInteger)
    threshold: int = Field(primary_key=True)
    budget_id: str
    spent_nano: int = Field(sa_type=BigInteger)
    created_ms: int = Field(sa_type=BigInteger)


class AlertTarget(TableBase, table=True):
    """Address of a tenant's alerts. `tenant_id` PLATFORM: alerts for the operators. `kind`: webhook
    (`address` is a URL, messages are signed with `secret`) or email."""

    __table_args__ = (CheckConstraint("kind IN ('webhook', 'email')", name="ck_alert_target_kind"),)

    tenant_id: str = Field(primary_key=True)
    id: str = Field(primary_key=True)
    kind: str
    address: str
    secret: str = ""
    author: str = ""
    created_ms: int = Field(sa_type=BigInteger)
    ended_ms: int | None = Field(default=None, sa_type=BigInteger)


class Outbox(TableBase, table=True):
    """A message that must be sent at least once, written in the transaction that causes it.

    `state`: waiting, sent or failed. A sender owns the row until `claimed_until_ms`. `idempotency_key` goes
    with the message, so that its receiver can recognise a repetition."""

    __table_args__ = (
        UniqueConstraint("tenant_id", "idempotency_key", name="uq_outbox_key"),
        CheckConstraint("state IN ('waiting', 'sent', 'failed')", name="ck_outbox_state"),
        Index("ix_outbox_due", "state", "next_attempt_ms"),
    )

    tenant_id: str = Field(primary_key=True)
    id: str = Field(primary_key=True)
    topic: str
    target_id: str
    idempotency_key: str
    payload: dict[str, Any] = Field(sa_type=JSON)
    state: str = "waiting"
    attempts: int = 0
    next_attempt_ms: int = Field(sa_type=BigInteger)
    claimed_by: str = ""
    claimed_until_ms: int = Field(default=0, sa_type=BigInteger)
    first_sent_ms: int | None = Field(default=None, sa_type=BigInteger)
    ended_ms: int | None = Field(default=None, sa_type=BigInteger)
    last_error: str = ""
    created_ms: int = Field(sa_type=BigInteger)

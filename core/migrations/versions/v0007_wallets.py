"""Prepaid money, alerts, and what is to be sent."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Make the tables of wallets, of budgets' sums, of alerts, and the outbox."""
    _make_wallets()
    _make_budget_sums()
    _make_alerts()


def _make_wallets() -> None:
    op.create_table(
        "wallet",
        *_keys("tenant_id"),
        *_numbers("opened_line_seq", "posted_nano"),
        *_texts("top_up_grant_id"),
        *_numbers("top_up_nano"),
        sa.Column("low_percents", sa.JSON(), nullable=False),
        *_numbers("created_ms"),
        sa.CheckConstraint("posted_nano >= 0", name="ck_wallet_posted"),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenant.tenant_id"], name="fk_wallet_tenant"),
    )
    op.create_table(
        "wallet_grant",
        *_keys("tenant_id", "id"),
        *_texts("kind"),
        sa.Column("priority", sa.Integer(), nullable=False),
        *_numbers("amount_nano", "left_nano"),
        sa.Column("expires_ms", sa.BigInteger()),
        *_texts("idempotency_key", "author", "note"),
        *_numbers("created_ms"),
        sa.UniqueConstraint("tenant_id", "idempotency_key", name="uq_wallet_grant_key"),
        sa.CheckConstraint("kind IN ('paid', 'promo')", name="ck_wallet_grant_kind"),
        sa.CheckConstraint("amount_nano > 0", name="ck_wallet_grant_amount"),
        sa.CheckConstraint("left_nano >= 0 AND left_nano <= amount_nano", name="ck_wallet_grant_left"),
        sa.ForeignKeyConstraint(["tenant_id"], ["wallet.tenant_id"], name="fk_wallet_grant_wallet"),
    )
    op.create_index(
        "ix_wallet_grant_open",
        "wallet_grant",
        ["tenant_id", "expires_ms"],
        sqlite_where=sa.text("left_nano > 0"),
        postgresql_where=sa.text("left_nano > 0"),
    )
    op.create_table(
        "wallet_use",
        *_keys("tenant_id", "request_id"),
        sa.Column("txn_seq", sa.BigInteger(), primary_key=True),
        *_keys("grant_id"),
        *_numbers("amount_nano"),
    )


def _make_budget_sums() -> None:
    op.create_table(
        "budget_spent",
        *_keys("tenant_id", "scope", "scope_id", "period"),
        sa.Column("window_start_ms", sa.BigInteger(), primary_key=True),
        sa.Column("window_end_ms", sa.BigInteger(), primary_key=True),
        *_numbers("spent_nano"),
    )
    op.create_table("budget_watermark", *_keys("tenant_id"), *_numbers("line_seq"))
    op.create_table(
        "budget_alert",
        *_keys("tenant_id", "scope", "scope_id", "period"),
        sa.Column("window_start_ms", sa.BigInteger(), primary_key=True),
        sa.Column("limit_nano", sa.BigInteger(), primary_key=True),
        sa.Column("threshold", sa.Integer(), primary_key=True),
        *_texts("budget_id"),
        *_numbers("spent_nano", "created_ms"),
    )


def _make_alerts() -> None:
    op.create_table(
        "alert_target",
        *_keys("tenant_id", "id"),
        *_texts("kind", "address", "secret", "author"),
        *_numbers("created_ms"),
        sa.Column("ended_ms", sa.BigInteger()),
        sa.CheckConstraint("kind IN ('webhook', 'email')", name="ck_alert_target_kind"),
    )
    op.create_table(
        "outbox",
        *_keys("tenant_id", "id"),
        *_texts("topic", "target_id", "idempotency_key"),
        sa.Column("payload", sa.JSON(), nullable=False),
        *_texts("state"),
        sa.Column("attempts", sa.Integer(), nullable=False),
        *_numbers("next_attempt_ms"),
        *_texts("claimed_by"),
        *_numbers("claimed_until_ms"),
        sa.Column("first_sent_ms", sa.BigInteger()),
        sa.Column("ended_ms", sa.BigInteger()),
        *_texts("last_error"),
        *_numbers("created_ms"),
        sa.UniqueConstraint("tenant_id", "idempotency_key", name="uq_outbox_key"),
        sa.CheckConstraint("state IN ('waiting', 'sent', 'failed')", name="ck_outbox_state"),
    )
    op.create_index("ix_outbox_due", "outbox", ["state", "next_attempt_ms"])


def _keys(*names: str) -> list[sa.Column[str]]:
    return [sa.Column(name, sa.String(), primary_key=True) for name in names]


def _texts(*names: str) -> list[sa.Column[str]]:
    return [sa.Column(name, sa.String(), nullable=False) for name in names]


def _numbers(*names: str) -> list[sa.Column[int]]:
    return [sa.Column(name, sa.BigInteger(), nullable=False) for name in names]

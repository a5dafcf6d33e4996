"""Usage, the ledger, months, prepaid money, and alerts on them."""

import sqlalchemy as sa
from alembic import op

from core.migrations.v0001.columns import maybe_numbers, number_keys, numbers, partial_index, text_keys, texts

PAYER = ("project_id", "cost_center_id", "user_id", "key_id", "model", "pool")
# In the key's index too, so that Postgres adds a month up from where its rows lie side by side.
HOUR_SUMS = (
    "requests",
    "errors",
    "input_uncached",
    "input_cached",
    "output_text",
    "output_reasoning",
    "amount_nano",
)


def make() -> None:
    """Make the tables of what was used, charged and paid."""
    _usage()
    _ledger()
    _months()
    _wallets()
    _spent()
    _alerts()


def _usage() -> None:
    op.create_table(
        "usage_event",
        *text_keys("tenant_id", "request_id"),
        *texts("pool", "model", "fingerprint", "project_id", "key_id", "user_id", "conversation_id"),
        *numbers("accepted_ms", "claimed_ms", "first_token_ms", "ended_ms"),
        *texts("reason", "code"),
        *numbers("input_uncached", "input_cached", "output_text", "output_reasoning"),
        *texts("price_book_id"),
        sa.Column("price_version", sa.Integer(), nullable=False),
        *texts("currency"),
        *numbers("cost_nano"),
        sa.Column("claims", sa.Integer(), nullable=False),
        *numbers("recomputed_tokens"),
        sa.Column("request_metadata", sa.JSON(), nullable=False),
        *texts("event_sha256"),
        *numbers("posted_ms"),
        *texts("words_proof", "policy_sha256", "priority_class", "trace_id"),
        sa.Column("safety_verdicts", sa.JSON(), nullable=False),
        sa.Column("phases", sa.JSON(), nullable=False),
        sa.CheckConstraint("cost_nano >= 0", name="ck_usage_event_cost"),
        sa.CheckConstraint("input_cached >= 0", name="ck_usage_event_input_cached"),
        sa.CheckConstraint("input_uncached >= 0", name="ck_usage_event_input_uncached"),
        sa.CheckConstraint("output_reasoning >= 0", name="ck_usage_event_output_reasoning"),
        sa.CheckConstraint("output_text >= 0", name="ck_usage_event_output_text"),
    )
    op.create_index("ix_usage_event_accepted", "usage_event", ["tenant_id", "accepted_ms"])
    op.create_index("ix_usage_event_ended", "usage_event", ["ended_ms", "code"])
    op.create_index("ix_usage_event_tenant_ended", "usage_event", ["tenant_id", "ended_ms", "code"])
    op.create_index("ix_usage_event_user", "usage_event", ["tenant_id", "user_id", "ended_ms"])
    dearest = ("tenant_id", "key_id", "model", sa.text("(ended_ms / 3600000)"), "cost_nano", "ended_ms")
    op.create_index("ix_usage_event_cost", "usage_event", list(dearest))
    found = "CAST(safety_verdicts AS TEXT) <> '{}'"
    partial_index("ix_usage_event_verdicts", "usage_event", ["tenant_id", "ended_ms"], found)
    in_error = "reason IN ('blocked', 'budget', 'deadline', 'error', 'slow_reader')"
    of_errors = ["tenant_id", "ended_ms", "reason", "code", "cost_nano"]
    partial_index("ix_usage_event_errors", "usage_event", of_errors, in_error)
    op.create_table(
        "usage_quarantine",
        *text_keys("event_sha256"),
        *texts("tenant_id", "request_id", "pool", "reason", "detail"),
        sa.Column("event", sa.LargeBinary(), nullable=False),
        *numbers("created_ms"),
        *maybe_numbers("resolved_ms"),
        *texts("resolution"),
    )
    op.create_index("ix_usage_quarantine_tenant", "usage_quarantine", ["tenant_id", "created_ms"])
    op.create_table(
        "usage_line",
        *text_keys("tenant_id"),
        *number_keys("seq"),
        *texts("request_id"),
        sa.Column("number", sa.Integer(), nullable=False),
        *texts("kind", "meter"),
        *numbers("quantity", "price_nano", "amount_nano"),
        *texts("price_book_id"),
        sa.Column("price_version", sa.Integer(), nullable=False),
        *texts("cost_center_id"),
        *maybe_numbers("adjusts_seq"),
        *numbers("ended_ms", "posted_ms"),
        *texts("proof"),
        sa.CheckConstraint("price_nano >= 0", name="ck_usage_line_price"),
        sa.CheckConstraint("quantity >= 0 OR kind <> 'usage'", name="ck_usage_line_quantity"),
        sa.UniqueConstraint("tenant_id", "request_id", "number", name="uq_usage_line_request"),
    )
    op.create_index("ix_usage_line_ended", "usage_line", ["tenant_id", "ended_ms"])
    op.create_table(
        "rollup_hour",
        *text_keys("tenant_id"),
        *number_keys("hour_ms"),
        *text_keys(*PAYER),
        *numbers(*HOUR_SUMS),
        sa.PrimaryKeyConstraint("tenant_id", "hour_ms", *PAYER, postgresql_include=HOUR_SUMS),
    )
    if op.get_context().dialect.name == "postgresql":  # what is not vacuumed is read from the table after all
        op.execute("ALTER TABLE rollup_hour SET (autovacuum_vacuum_scale_factor = 0.02)")
        op.execute("ALTER TABLE rollup_hour SET (autovacuum_vacuum_insert_scale_factor = 0.02)")
    op.create_index("ix_rollup_hour_pool", "rollup_hour", ["pool", "hour_ms"])
    op.create_table(
        "rollup_price",
        *text_keys("tenant_id"),
        *number_keys("hour_ms"),
        *text_keys("model", "meter", "kind", "price_book_id"),
        *number_keys("price_version"),
        *numbers("quantity", "amount_nano"),
    )
    op.create_table(
        "rollup_tag",
        *text_keys("tenant_id"),
        *number_keys("hour_ms"),
        *text_keys("project_id", "cost_center_id", "user_id", "key_id", "model", "pool", "tags"),
        *numbers("amount_nano"),
    )
    op.create_table(
        "tag_key",
        *text_keys("tenant_id", "key"),
        *number_keys("since_ms"),
        *maybe_numbers("until_ms"),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenant.tenant_id"], name="fk_tag_key_tenant"),
    )
    op.create_table(
        "report_schedule",
        *text_keys("tenant_id", "id"),
        *texts("rows", "columns", "only", "every"),
        sa.Column("people", sa.JSON(), nullable=False),
        *numbers("created_ms"),
        *maybe_numbers("ended_ms"),
        *texts("last_period"),
        *maybe_numbers("last_ms"),
        sa.CheckConstraint("every IN ('month', 'week')", name="ck_report_schedule_every"),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenant.tenant_id"], name="fk_report_schedule_tenant"),
    )


def _ledger() -> None:
    op.create_table(
        "ledger_head",
        *text_keys("tenant_id"),
        *numbers("txn_seq", "line_seq", "rolled_seq"),
        *texts("sha256"),
        *numbers("closed_ms"),
    )
    op.create_table(
        "ledger_txn",
        *text_keys("tenant_id"),
        *number_keys("seq"),
        *texts("kind", "idempotency_key"),
        *numbers("posted_ms", "first_line_seq", "last_line_seq"),
        *texts("previous_sha256", "sha256"),
        sa.Column("hash_version", sa.Integer(), nullable=False),
        sa.UniqueConstraint("tenant_id", "idempotency_key", name="uq_ledger_txn_key"),
    )
    op.create_table(
        "ledger_entry",
        *text_keys("tenant_id"),
        *number_keys("txn_seq"),
        sa.Column("number", sa.Integer(), primary_key=True),
        *texts("account"),
        *numbers("amount_nano"),
        *texts("project_id", "cost_center_id"),
        sa.ForeignKeyConstraint(
            ["tenant_id", "txn_seq"], ["ledger_txn.tenant_id", "ledger_txn.seq"], name="fk_ledger_entry_txn"
        ),
    )
    op.create_index("ix_ledger_entry_account", "ledger_entry", ["tenant_id", "account"])
    op.create_table(
        "charge",
        *text_keys("tenant_id", "id"),
        *texts("kind", "source", "project_id", "user_id", "key_id", "model", "pool", "currency"),
        *numbers("start_ms", "end_ms", "created_ms"),
        sa.CheckConstraint("start_ms < end_ms", name="ck_charge_time"),
    )
    op.create_index("ix_charge_source", "charge", ["tenant_id", "kind", "source", "end_ms"])


def _months() -> None:
    op.create_table(
        "period_commitment",
        *text_keys("tenant_id", "id"),
        *texts("model", "meter"),
        *numbers("units", "committed_nano"),
        *maybe_numbers("overage_nano"),
        *numbers("start_ms", "end_ms", "created_ms"),
        sa.Column("notice_months", sa.Integer(), nullable=False),
        *maybe_numbers("ends_ms"),
        sa.CheckConstraint("committed_nano >= 0", name="ck_period_commitment_amount"),
        sa.CheckConstraint("overage_nano IS NULL OR overage_nano >= 0", name="ck_period_commitment_overage"),
        sa.CheckConstraint("start_ms < end_ms", name="ck_period_commitment_time"),
        sa.CheckConstraint("units >= 0", name="ck_period_commitment_units"),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenant.tenant_id"], name="fk_period_commitment_tenant"),
    )
    op.create_table(
        "period_close",
        *text_keys("tenant_id"),
        *number_keys("start_ms"),
        *numbers("end_ms"),
        *texts("month"),
        *numbers("line_seq", "amount_nano", "closed_ms"),
        sa.Column("lacks", sa.JSON()),
        *texts("time_zone"),
        sa.CheckConstraint("start_ms < end_ms", name="ck_period_close_time"),
    )


def _wallets() -> None:
    op.create_table(
        "wallet",
        *text_keys("tenant_id"),
        *numbers("opened_line_seq", "posted_nano"),
        *texts("top_up_grant_id"),
        *numbers("top_up_nano"),
        sa.Column("low_percents", sa.JSON(), nullable=False),
        *numbers("created_ms"),
        *texts("owed_term"),
        sa.CheckConstraint("posted_nano >= 0", name="ck_wallet_posted"),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenant.tenant_id"], name="fk_wallet_tenant"),
    )
    op.create_table(
        "wallet_grant",
        *text_keys("tenant_id", "id"),
        *texts("kind"),
        sa.Column("priority", sa.Integer(), nullable=False),
        *numbers("amount_nano", "left_nano", "lapsed_nano", "taken_nano"),
        *maybe_numbers("expires_ms"),
        *texts("idempotency_key", "author", "note"),
        *numbers("created_ms"),
        sa.CheckConstraint("amount_nano > 0", name="ck_wallet_grant_amount"),
        sa.CheckConstraint("kind IN ('paid', 'promo')", name="ck_wallet_grant_kind"),
        sa.CheckConstraint("left_nano >= 0 AND left_nano <= amount_nano", name="ck_wallet_grant_left"),
        sa.UniqueConstraint("tenant_id", "idempotency_key", name="uq_wallet_grant_key"),
        sa.ForeignKeyConstraint(["tenant_id"], ["wallet.tenant_id"], name="fk_wallet_grant_wallet"),
    )
    partial_index("ix_wallet_grant_lapsed", "wallet_grant", ["tenant_id", "expires_ms"], "lapsed_nano > 0")
    partial_index("ix_wallet_grant_open", "wallet_grant", ["tenant_id", "expires_ms"], "left_nano > 0")
    op.create_table(
        "wallet_use",
        *text_keys("tenant_id", "request_id"),
        *number_keys("txn_seq"),
        *text_keys("grant_id"),
        *numbers("amount_nano"),
    )
    op.create_table(
        "wallet_owed",
        *text_keys("tenant_id", "request_id"),
        *numbers("owed_nano"),
    )


def _spent() -> None:
    op.create_table(
        "budget_spent",
        *text_keys("tenant_id", "scope", "scope_id", "period"),
        *number_keys("window_start_ms", "window_end_ms"),
        *numbers("spent_nano"),
    )
    window = ["tenant_id", "scope", "period", "window_start_ms"]
    op.create_index("ix_budget_spent_window", "budget_spent", window)
    op.create_table(
        "budget_watermark",
        *text_keys("tenant_id"),
        *numbers("line_seq", "since_ms"),
    )


def _alerts() -> None:
    op.create_table(
        "budget_alert",
        *text_keys("tenant_id", "scope", "scope_id", "period"),
        *number_keys("window_start_ms", "limit_nano"),
        sa.Column("threshold", sa.Integer(), primary_key=True),
        *texts("budget_id"),
        *numbers("spent_nano", "created_ms"),
    )
    op.create_table(
        "alert_target",
        *text_keys("tenant_id", "id"),
        *texts("kind", "address", "secret", "author"),
        *numbers("created_ms"),
        *maybe_numbers("ended_ms"),
        sa.CheckConstraint("kind IN ('webhook', 'email')", name="ck_alert_target_kind"),
    )
    op.create_table(
        "outbox",
        *text_keys("tenant_id", "id"),
        *texts("topic", "target_id", "idempotency_key"),
        sa.Column("payload", sa.JSON(), nullable=False),
        *texts("state"),
        sa.Column("attempts", sa.Integer(), nullable=False),
        *numbers("next_attempt_ms"),
        *texts("claimed_by"),
        *numbers("claimed_until_ms"),
        *maybe_numbers("first_sent_ms", "ended_ms"),
        *texts("last_error"),
        *numbers("created_ms"),
        sa.CheckConstraint("state IN ('waiting', 'sent', 'failed')", name="ck_outbox_state"),
        sa.UniqueConstraint("tenant_id", "idempotency_key", name="uq_outbox_key"),
    )
    op.create_index("ix_outbox_due", "outbox", ["state", "next_attempt_ms"])

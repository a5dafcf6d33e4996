"""Cost centers, usage lines, rollups and the ledger."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Make the books."""
    op.add_column("tenant", sa.Column("time_zone", sa.String(), nullable=False, server_default="UTC"))
    op.add_column("price_book", sa.Column("parent_id", sa.String()))
    op.add_column("usage_quarantine", sa.Column("resolved_ms", sa.BigInteger()))
    op.add_column("usage_quarantine", sa.Column("resolution", sa.String(), nullable=False, server_default=""))
    _make_cost_centers()
    _make_lines()
    _make_rollups()
    _make_ledger()


def _make_cost_centers() -> None:
    op.create_table(
        "cost_center",
        *_keys("tenant_id", "id"),
        *_texts("code", "name"),
        *_numbers("created_ms"),
        sa.Column("closed_ms", sa.BigInteger()),
        sa.UniqueConstraint("tenant_id", "code", name="uq_cost_center_code"),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenant.tenant_id"], name="fk_cost_center_tenant"),
    )
    op.create_table(
        "project_cost_center",
        *_keys("tenant_id", "project_id"),
        sa.Column("valid_from_ms", sa.BigInteger(), primary_key=True),
        *_texts("cost_center_id"),
        sa.ForeignKeyConstraint(
            ["tenant_id", "project_id"],
            ["project.tenant_id", "project.id"],
            name="fk_project_cost_center_project",
        ),
        sa.ForeignKeyConstraint(
            ["tenant_id", "cost_center_id"],
            ["cost_center.tenant_id", "cost_center.id"],
            name="fk_project_cost_center_center",
        ),
    )


def _make_lines() -> None:
    op.create_table(
        "usage_line",
        *_keys("tenant_id"),
        sa.Column("seq", sa.BigInteger(), primary_key=True),
        *_texts("request_id"),
        sa.Column("number", sa.Integer(), nullable=False),
        *_texts("kind", "meter"),
        *_numbers("quantity", "price_nano", "amount_nano"),
        *_texts("price_book_id"),
        sa.Column("price_version", sa.Integer(), nullable=False),
        *_texts("cost_center_id"),
        sa.Column("adjusts_seq", sa.BigInteger()),
        *_numbers("ended_ms", "posted_ms"),
        sa.CheckConstraint("quantity >= 0 OR kind <> 'usage'", name="ck_usage_line_quantity"),
        sa.CheckConstraint("price_nano >= 0", name="ck_usage_line_price"),
        sa.UniqueConstraint("tenant_id", "request_id", "number", name="uq_usage_line_request"),
    )
    op.create_index("ix_usage_line_ended", "usage_line", ["tenant_id", "ended_ms"])


def _make_rollups() -> None:
    op.create_table(
        "rollup_hour",
        *_keys("tenant_id"),
        sa.Column("hour_ms", sa.BigInteger(), primary_key=True),
        *_keys("project_id", "cost_center_id", "user_id", "key_id", "model", "pool"),
        *_numbers("requests", "errors", "input_uncached", "input_cached", "output_text", "output_reasoning"),
        *_numbers("amount_nano"),
    )


def _make_ledger() -> None:
    op.create_table(
        "ledger_head",
        *_keys("tenant_id"),
        *_numbers("txn_seq", "line_seq", "rolled_seq"),
        *_texts("sha256"),
    )
    op.create_table(
        "ledger_txn",
        *_keys("tenant_id"),
        sa.Column("seq", sa.BigInteger(), primary_key=True),
        *_texts("kind", "idempotency_key"),
        *_numbers("posted_ms", "first_line_seq", "last_line_seq"),
        *_texts("previous_sha256", "sha256"),
        sa.UniqueConstraint("tenant_id", "idempotency_key", name="uq_ledger_txn_key"),
    )
    op.create_table(
        "ledger_entry",
        *_keys("tenant_id"),
        sa.Column("txn_seq", sa.BigInteger(), primary_key=True),
        sa.Column("number", sa.Integer(), primary_key=True),
        *_texts("account"),
        *_numbers("amount_nano"),
        *_texts("project_id", "cost_center_id"),
        sa.ForeignKeyConstraint(
            ["tenant_id", "txn_seq"], ["ledger_txn.tenant_id", "ledger_txn.seq"], name="fk_ledger_entry_txn"
        ),
    )
    op.create_index("ix_ledger_entry_account", "ledger_entry", ["tenant_id", "account"])


def _keys(*names: str) -> list[sa.Column[str]]:
    return [sa.Column(name, sa.String(), primary_key=True) for name in names]


def _texts(*names: str) -> list[sa.Column[str]]:
    return [sa.Column(name, sa.String(), nullable=False) for name in names]


def _numbers(*names: str) -> list[sa.Column[int]]:
    return [sa.Column(name, sa.BigInteger(), nullable=False) for name in names]

"""Tiers, commitments, closed periods, and the time of dedicated pools."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """Make the tables."""
    _make_prices()
    _make_periods()
    _make_pools()
    _make_commitments()


def _make_prices() -> None:
    op.create_table(
        "price_tier",
        *_text_keys("book_id"),
        *_number_keys("version", of=sa.Integer()),
        *_text_keys("model", "meter"),
        *_texts("tenant_id", "mode"),
        sa.Column("tiers", sa.JSON(), nullable=False),
        *_numbers("minimum_nano"),
        sa.CheckConstraint("minimum_nano >= 0", name="ck_price_tier_minimum"),
        sa.ForeignKeyConstraint(
            ["book_id", "version", "model"],
            ["price.book_id", "price.version", "price.model"],
            name="fk_price_tier_price",
        ),
    )
    op.create_table(
        "gpu_price",
        *_text_keys("book_id"),
        *_number_keys("version", of=sa.Integer()),
        *_text_keys("gpu_type"),
        *_texts("tenant_id"),
        *_numbers("second_nano"),
        sa.CheckConstraint("second_nano >= 0", name="ck_gpu_price_second"),
        sa.ForeignKeyConstraint(
            ["book_id", "version"],
            ["price_version.book_id", "price_version.version"],
            name="fk_gpu_price_version",
        ),
    )


def _make_periods() -> None:
    op.create_table(
        "period_commitment",
        *_text_keys("tenant_id", "id"),
        *_texts("model", "meter"),
        *_numbers("units", "committed_nano"),
        sa.Column("overage_nano", sa.BigInteger()),
        *_numbers("start_ms", "end_ms", "created_ms"),
        sa.CheckConstraint("committed_nano >= 0", name="ck_period_commitment_amount"),
        sa.CheckConstraint("units >= 0", name="ck_period_commitment_units"),
        sa.CheckConstraint("overage_nano IS NULL OR overage_nano >= 0", name="ck_period_commitment_overage"),
        sa.CheckConstraint("start_ms < end_ms", name="ck_period_commitment_time"),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenant.tenant_id"], name="fk_period_commitment_tenant"),
    )
    op.create_table(
        "period_close",
        *_text_keys("tenant_id"),
        *_number_keys("start_ms"),
        *_numbers("end_ms"),
        *_texts("month"),
        *_numbers("line_seq", "amount_nano", "closed_ms"),
        sa.CheckConstraint("start_ms < end_ms", name="ck_period_close_time"),
    )
    op.create_table(
        "charge",
        *_text_keys("tenant_id", "id"),
        *_texts("kind", "source", "project_id", "user_id", "key_id", "model", "pool", "currency"),
        *_numbers("start_ms", "end_ms", "created_ms"),
        sa.CheckConstraint("start_ms < end_ms", name="ck_charge_time"),
    )
    op.create_index("ix_charge_source", "charge", ["tenant_id", "kind", "source", "end_ms"])


def _make_pools() -> None:
    op.create_table(
        "pool_interval",
        *_text_keys("pool", "worker"),
        *_number_keys("from_ms"),
        *_numbers("to_ms", "busy_ms", "hour_ms"),
        *_texts("device", "gpu_type"),
        sa.Column("gpus", sa.Integer(), nullable=False),
        *_texts("state"),
        sa.Column("counted", sa.Boolean(), nullable=False),
        sa.CheckConstraint("from_ms <= to_ms", name="ck_pool_interval_time"),
        sa.CheckConstraint("busy_ms >= 0 AND busy_ms <= to_ms - from_ms", name="ck_pool_interval_busy"),
        sa.CheckConstraint("gpus >= 0", name="ck_pool_interval_gpus"),
    )
    op.create_index("ix_pool_interval_hour", "pool_interval", ["hour_ms"])
    op.create_index("ix_pool_interval_counted", "pool_interval", ["counted", "hour_ms"])
    op.create_table(
        "pool_owner",
        *_text_keys("pool"),
        *_number_keys("from_ms"),
        *_texts("tenant_id", "project_id"),
        *_numbers("created_ms"),
    )
    op.create_table(
        "gpu_cost",
        *_text_keys("gpu_type", "region"),
        *_number_keys("valid_from_ms"),
        *_numbers("hour_nano", "created_ms"),
        sa.CheckConstraint("hour_nano >= 0", name="ck_gpu_cost_hour"),
    )


def _make_commitments() -> None:
    op.create_table(
        "commitment",
        *_text_keys("tenant_id", "id"),
        *_texts("pool", "gpu_type"),
        sa.Column("gpus", sa.Integer(), nullable=False),
        *_numbers("rate_nano"),
        sa.Column("overage_nano", sa.BigInteger()),
        *_texts("payment"),
        *_numbers("start_ms", "end_ms", "created_ms"),
        sa.CheckConstraint("gpus > 0", name="ck_commitment_gpus"),
        sa.CheckConstraint("rate_nano >= 0", name="ck_commitment_rate"),
        sa.CheckConstraint("overage_nano IS NULL OR overage_nano >= 0", name="ck_commitment_overage"),
        sa.CheckConstraint("start_ms < end_ms", name="ck_commitment_time"),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenant.tenant_id"], name="fk_commitment_tenant"),
    )


def _text_keys(*names: str) -> list[sa.Column[str]]:
    return [sa.Column(name, sa.String(), primary_key=True) for name in names]


def _number_keys(*names: str, of: sa.types.TypeEngine[int] | None = None) -> list[sa.Column[int]]:
    return [sa.Column(name, of or sa.BigInteger(), primary_key=True) for name in names]


def _texts(*names: str) -> list[sa.Column[str]]:
    return [sa.Column(name, sa.String(), nullable=False) for name in names]


def _numbers(*names: str) -> list[sa.Column[int]]:
    return [sa.Column(name, sa.BigInteger(), nullable=False) for name in names]

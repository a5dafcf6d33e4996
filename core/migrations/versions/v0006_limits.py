"""What tenants may use: rates, concurrency and budgets."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Make the tables of limits, and what sums usage by the time of acceptance."""
    op.create_table(
        "quota_policy",
        *_keys("tenant_id", "id"),
        *_texts("plan_id", "scope", "scope_id", "model_glob", "dimension"),
        sa.Column("limit_units", sa.BigInteger(), nullable=False),
        sa.Column("burst_units", sa.BigInteger()),
        *_texts("mode", "author"),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.Column("ended_ms", sa.BigInteger()),
        sa.CheckConstraint("limit_units >= 0", name="ck_quota_policy_limit"),
        sa.CheckConstraint("burst_units IS NULL OR burst_units >= 1", name="ck_quota_policy_burst"),
    )
    op.create_index("ix_quota_policy_open", "quota_policy", ["tenant_id", "ended_ms"])
    op.create_table(
        "budget",
        *_keys("tenant_id", "id"),
        *_texts("scope", "scope_id", "period"),
        sa.Column("limit_nano", sa.BigInteger(), nullable=False),
        sa.Column("hard", sa.Boolean(), nullable=False),
        *_texts("mode"),
        sa.Column("thresholds", sa.JSON(), nullable=False),
        sa.Column("override_nano", sa.BigInteger()),
        sa.Column("override_until_ms", sa.BigInteger()),
        *_texts("author"),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.Column("ended_ms", sa.BigInteger()),
        sa.CheckConstraint("limit_nano >= 0", name="ck_budget_limit"),
        sa.CheckConstraint("override_nano IS NULL OR override_nano >= 0", name="ck_budget_override"),
    )
    op.create_index("ix_budget_open", "budget", ["tenant_id", "ended_ms"])
    op.create_index("ix_usage_event_accepted", "usage_event", ["tenant_id", "accepted_ms"])


def _keys(*names: str) -> list[sa.Column[str]]:
    return [sa.Column(name, sa.String(), primary_key=True) for name in names]


def _texts(*names: str) -> list[sa.Column[str]]:
    return [sa.Column(name, sa.String(), nullable=False) for name in names]

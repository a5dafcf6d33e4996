"""Plans, the record of what administrators did, and noisy neighbours."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Make plans, the audit log and the findings."""
    _make_plans()
    _make_audit_log()
    _make_findings()


def _make_plans() -> None:
    op.create_table(
        "plan",
        *_keys("id"),
        *_texts("tenant_id", "name", "price_book_id", "priority_max"),
        sa.Column("weight", sa.Float()),
        sa.Column("slots_max", sa.BigInteger()),
        sa.Column("tokens_max", sa.BigInteger()),
        sa.Column("reserve_tokens", sa.BigInteger(), nullable=False),
        *_numbers("created_ms"),
        sa.Column("ended_ms", sa.BigInteger()),
        sa.CheckConstraint("weight IS NULL OR weight > 0", name="ck_plan_weight"),
        sa.CheckConstraint("reserve_tokens >= 0", name="ck_plan_reserve"),
        sa.UniqueConstraint("name", name="uq_plan_name"),
        sa.ForeignKeyConstraint(["price_book_id"], ["price_book.id"], name="fk_plan_price_book"),
    )
    # SQLite adds no constraint to a table that is there; a column may come with its own.
    op.execute("ALTER TABLE tenant ADD COLUMN plan_id VARCHAR CONSTRAINT fk_tenant_plan REFERENCES plan (id)")
    op.add_column("tenant", sa.Column("plan_since_ms", sa.BigInteger()))
    op.add_column("account", sa.Column("closed_ms", sa.BigInteger()))


def _make_audit_log() -> None:
    op.create_table("audit_head", *_keys("tenant_id"), *_numbers("seq"), *_texts("sha256"))
    op.create_table(
        "audit_log",
        *_keys("tenant_id"),
        sa.Column("seq", sa.BigInteger(), primary_key=True),
        *_numbers("at_ms"),
        *_texts("author", "source", "action", "target"),
        sa.Column("before", sa.Text(), nullable=False),
        sa.Column("after", sa.Text(), nullable=False),
        *_texts("previous_sha256", "sha256"),
    )
    op.create_index("ix_audit_log_at", "audit_log", ["tenant_id", "at_ms"])


def _make_findings() -> None:
    op.create_table(
        "noisy_finding",
        *_keys("tenant_id", "id"),
        *_texts("pool", "state"),
        *_numbers("opened_ms", "updated_ms"),
        sa.Column("closed_ms", sa.BigInteger()),
        *_numbers("share_permille", "fair_permille", "used_tokens", "others_wait_ms", "baseline_wait_ms"),
        sa.Column("slots_max", sa.BigInteger()),
        sa.Column("throttled_ms", sa.BigInteger()),
        sa.Column("lifted_ms", sa.BigInteger()),
        sa.Column("proposal", sa.JSON(), nullable=False),
        *_texts("reason"),
    )
    op.create_index("ix_noisy_finding_closed", "noisy_finding", ["closed_ms"])
    op.create_index("ix_usage_event_ended", "usage_event", ["ended_ms"])
    still_open = sa.text("closed_ms IS NULL")
    op.create_index(
        "uq_noisy_finding_open",
        "noisy_finding",
        ["tenant_id", "pool"],
        unique=True,
        sqlite_where=still_open,
        postgresql_where=still_open,
    )


def _keys(*names: str) -> list[sa.Column[str]]:
    return [sa.Column(name, sa.String(), primary_key=True) for name in names]


def _texts(*names: str) -> list[sa.Column[str]]:
    return [sa.Column(name, sa.String(), nullable=False) for name in names]


def _numbers(*names: str) -> list[sa.Column[int]]:
    return [sa.Column(name, sa.BigInteger(), nullable=False) for name in names]

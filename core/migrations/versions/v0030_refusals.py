"""Refused requests, counted by the minute."""

import sqlalchemy as sa
from alembic import op

revision = "0030"
down_revision = "0029"


def upgrade() -> None:
    """Counts, and how far the stream of them was read."""
    names = [sa.Column(name, sa.String(), nullable=False) for name in ("key_id", "user_id", "code")]
    op.create_table(
        "refusal_minute",
        sa.Column("tenant_id", sa.String(), nullable=False),
        sa.Column("minute_ms", sa.BigInteger(), nullable=False),
        *names,
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("why", sa.String(), nullable=False),
        sa.Column("last_ids", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("tenant_id", "minute_ms", "key_id", "user_id", "code"),
    )
    op.create_index("ix_refusal_minute_minute", "refusal_minute", ["minute_ms"])
    op.create_table(
        "refusal_mark",
        sa.Column("installation", sa.String(), nullable=False),
        sa.Column("last_ms", sa.BigInteger(), nullable=False),
        sa.Column("last_seq", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("installation"),
    )

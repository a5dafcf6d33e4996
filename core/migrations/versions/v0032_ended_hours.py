"""What workers ended by the hour, to be compared with what was billed."""

import sqlalchemy as sa
from alembic import op

revision = "0032"
down_revision = "0031"


def upgrade() -> None:
    """Make its table."""
    op.create_table(
        "ended_hour",
        *(sa.Column(name, sa.String(), primary_key=True) for name in ("tenant_id", "pool", "writer")),
        sa.Column("hour_ms", sa.BigInteger(), primary_key=True),
        *(
            sa.Column(name, sa.BigInteger(), nullable=False)
            for name in ("requests", "output", "cost_nano", "updated_ms")
        ),
        sa.Column("agreed_ms", sa.BigInteger()),
    )
    op.create_index("ix_ended_hour_open", "ended_hour", ["agreed_ms", "hour_ms"])

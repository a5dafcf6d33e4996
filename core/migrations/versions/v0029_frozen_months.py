"""Closed months that stay what they were."""

import sqlalchemy as sa
from alembic import op

revision = "0029"
down_revision = "0028"


def upgrade() -> None:
    """Those there are get their zone when their tenant leaves it."""
    op.add_column("period_close", sa.Column("time_zone", sa.String(), nullable=False, server_default=""))
    op.add_column("ledger_head", sa.Column("closed_ms", sa.BigInteger(), nullable=False, server_default="0"))
    op.execute(
        "UPDATE ledger_head SET closed_ms = COALESCE((SELECT MAX(period_close.end_ms) FROM period_close "
        "WHERE period_close.tenant_id = ledger_head.tenant_id), 0)"
    )

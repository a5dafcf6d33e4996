"""Commitments that end with notice."""

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"


def upgrade() -> None:
    """Those there are have a month's notice, and none is ended."""
    op.add_column(
        "period_commitment", sa.Column("notice_months", sa.Integer(), nullable=False, server_default="1")
    )
    op.add_column("period_commitment", sa.Column("ends_ms", sa.BigInteger()))

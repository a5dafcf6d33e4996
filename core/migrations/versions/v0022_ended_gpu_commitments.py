"""Commitments to GPUs that end with notice."""

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"


def upgrade() -> None:
    """Those there are have 30 days' notice, and none is ended."""
    op.add_column("commitment", sa.Column("notice_days", sa.Integer(), nullable=False, server_default="30"))
    op.add_column("commitment", sa.Column("ends_ms", sa.BigInteger()))

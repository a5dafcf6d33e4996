"""Versions of price books that were withdrawn before they began."""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"


def upgrade() -> None:
    """None is."""
    op.add_column("price_version", sa.Column("withdrawn_ms", sa.BigInteger()))

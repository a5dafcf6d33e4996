"""Months that were closed without what was still under way."""

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"


def upgrade() -> None:
    """Of those there are nobody knows."""
    op.add_column("period_close", sa.Column("lacks", sa.JSON()))

"""Operators may turn patterns off for a tenant. Those that are there have them."""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"


def upgrade() -> None:
    """Add the switch, on."""
    op.add_column("tenant", sa.Column("regex", sa.Boolean(), nullable=False, server_default=sa.true()))

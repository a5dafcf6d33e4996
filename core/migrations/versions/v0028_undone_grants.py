"""What was taken back of grants: voided, clawed back, paid out."""

import sqlalchemy as sa
from alembic import op

revision = "0028"
down_revision = "0027"


def upgrade() -> None:
    """Nothing by now."""
    op.add_column(
        "wallet_grant", sa.Column("taken_nano", sa.BigInteger(), nullable=False, server_default="0")
    )

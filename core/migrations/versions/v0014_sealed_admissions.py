"""When gateways began to seal what they admit: events from before have no seal, and end some time."""

import time

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the table; an installation that has tenants may have requests under way."""
    marks = op.create_table(
        "installation_mark",
        sa.Column("name", sa.String(), primary_key=True),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
    )
    tenants = op.get_bind().execute(sa.text("SELECT count(*) FROM tenant")).scalar_one()
    now = int(time.time() * 1000) if tenants else 0
    op.bulk_insert(marks, [{"name": "sealed_since", "at_ms": now}])

"""When gateways began to seal where a request is and whose: records from before have no seal."""

import time

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """An installation that has tenants may have requests under way."""
    tenants = op.get_bind().execute(sa.text("SELECT count(*) FROM tenant")).scalar_one()
    marks = sa.table("installation_mark", sa.column("name", sa.String), sa.column("at_ms", sa.BigInteger))
    now = int(time.time() * 1000) if tenants else 0
    op.bulk_insert(marks, [{"name": "directory_sealed_since", "at_ms": now}])

"""Whether a tenant shows amounts to its users, and whether they share cached prefixes."""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"

DEMO_TENANT = "demo"


def upgrade() -> None:
    """Amounts are hidden until a tenant shows them; prefixes stay shared, for prices depend on it. The demo
    tenant is one person's."""
    for name in ("shows_costs", "cache_by_owner"):
        op.add_column("tenant", sa.Column(name, sa.Boolean(), nullable=False, server_default=sa.false()))
    tenants = sa.table("tenant", sa.column("name"), sa.column("shows_costs", sa.Boolean()))
    op.get_bind().execute(
        sa.update(tenants).where(tenants.c.name == DEMO_TENANT).values(shows_costs=sa.true())
    )

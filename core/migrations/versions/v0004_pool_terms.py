"""What tenants may take of the pools."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Make the table of shares, caps and reserves."""
    op.create_table(
        "pool_terms",
        sa.Column("tenant_id", sa.String(), primary_key=True),
        sa.Column("weight", sa.Float(), nullable=False),
        sa.Column("slots_max", sa.BigInteger()),
        sa.Column("tokens_max", sa.BigInteger()),
        sa.Column("reserve_tokens", sa.BigInteger(), nullable=False),
        sa.Column("updated_ms", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("weight > 0", name="ck_pool_terms_weight"),
        sa.CheckConstraint("reserve_tokens >= 0", name="ck_pool_terms_reserve"),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenant.tenant_id"], name="fk_pool_terms_tenant"),
    )

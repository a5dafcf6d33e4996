"""The model versions that this installation can run."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Make the engine's first table."""
    op.create_table(
        "model_version",
        sa.Column("name", sa.String(), primary_key=True),
        sa.Column("version", sa.String(), primary_key=True),
        sa.Column("fingerprint", sa.String(), nullable=False),
        sa.Column("folder", sa.String(), nullable=False),
        sa.Column("pool", sa.String(), nullable=False),
        sa.Column("max_model_len", sa.Integer(), nullable=False),
        sa.Column("manifest", sa.JSON(), nullable=False),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("max_model_len > 0", name="ck_model_version_max_model_len"),
    )

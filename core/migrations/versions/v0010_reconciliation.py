"""What books and counters were compared, and what was found."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"

ENGINE_COUNTS = (
    "engine_prompt",
    "engine_output",
    "prompt_new",
    "prompt_again",
    "prompt_test",
    "prompt_unseen_max",
    "output_taken",
    "output_dropped",
    "output_test",
    "output_unseen_max",
)


def upgrade() -> None:
    """Make the tables of differences, of how far books were read, and of the engines' counts."""
    op.create_table(
        "recon_item",
        *(sa.Column(name, sa.String(), primary_key=True) for name in ("tenant_id", "check_id", "subject")),
        sa.Column("first_seen_ms", sa.BigInteger(), primary_key=True),
        sa.Column("last_seen_ms", sa.BigInteger(), nullable=False),
        sa.Column("resolved_ms", sa.BigInteger()),
        *(sa.Column(name, sa.BigInteger(), nullable=False) for name in ("expected", "actual", "difference")),
        sa.Column("detail", sa.String(), nullable=False),
    )
    op.create_index("ix_recon_item_open", "recon_item", ["resolved_ms", "check_id"])
    op.create_table(
        "recon_mark",
        *(sa.Column(name, sa.String(), primary_key=True) for name in ("tenant_id", "chain")),
        *(sa.Column(name, sa.BigInteger(), nullable=False) for name in ("seq", "line_seq")),
        sa.Column("sha256", sa.String(), nullable=False),
        sa.Column("sums", sa.JSON(), nullable=False),
        sa.Column("verified_ms", sa.BigInteger(), nullable=False),
    )
    op.create_table(
        "engine_hour",
        *(sa.Column(name, sa.String(), primary_key=True) for name in ("tenant_id", "pool", "worker")),
        sa.Column("hour_ms", sa.BigInteger(), primary_key=True),
        *(sa.Column(name, sa.BigInteger(), nullable=False) for name in (*ENGINE_COUNTS, "updated_ms")),
        sa.CheckConstraint("updated_ms >= hour_ms", name="ck_engine_hour_updated"),
    )

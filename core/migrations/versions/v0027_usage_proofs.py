"""Proofs of requests and charges in the lines of books, and so in their chains."""

import sqlalchemy as sa
from alembic import op

revision = "0027"
down_revision = "0026"


def upgrade() -> None:
    """What is booked has none: a biller seals it when it starts. What an older biller books meanwhile says so
    by the defaults."""
    op.add_column("usage_event", sa.Column("words_proof", sa.String(), nullable=False, server_default=""))
    op.add_column("usage_line", sa.Column("proof", sa.String(), nullable=False, server_default=""))
    op.add_column("ledger_txn", sa.Column("hash_version", sa.Integer(), nullable=False, server_default="1"))

"""What was deleted is found without reading what was not."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    """Make the index of deleted conversations."""
    deleted = sa.text("deleted_ms IS NOT NULL")
    op.create_index(
        "ix_conversation_deleted",
        "conversation",
        ["deleted_ms"],
        sqlite_where=deleted,
        postgresql_where=deleted,
    )

"""What one user asked for is found without reading all of a tenant's requests."""

from alembic import op

revision = "0023"
down_revision = "0022"


def upgrade() -> None:
    """By the user and when it ended."""
    op.create_index("ix_usage_event_user", "usage_event", ["tenant_id", "user_id", "ended_ms"])

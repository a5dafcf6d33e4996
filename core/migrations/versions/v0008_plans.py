"""Plans, and the record of what administrators did."""

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Nothing yet."""

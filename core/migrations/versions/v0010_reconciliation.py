"""What books and counters were compared, and what was found."""

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    """Nothing yet."""

"""Prepaid money, alerts, and what is to be sent."""

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Nothing yet."""

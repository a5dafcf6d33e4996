"""Tiers, commitments, and the seconds of dedicated pools."""

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """Nothing yet."""

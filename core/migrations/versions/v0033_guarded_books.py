"""Tables that only grow are guarded by triggers, which each migration makes, and so this one."""

revision = "0033"
down_revision = "0032"


def upgrade() -> None:
    """Nothing of its own. Processes that need the triggers do not start before it was run."""

"""Which sessions have a user of their own, who ends with them, and which were used for anything."""

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"


def upgrade() -> None:
    """What is signed in now may have been used: its users are kept, and closed at its end."""
    for name, default in (("own_user", sa.false()), ("used", sa.true())):
        op.add_column(
            "browser_session", sa.Column(name, sa.Boolean(), nullable=False, server_default=default)
        )
    op.execute(
        "UPDATE browser_session SET own_user = TRUE WHERE EXISTS (SELECT 1 FROM tenant_user WHERE "
        "tenant_user.tenant_id = browser_session.tenant_id AND tenant_user.id = browser_session.user_id "
        "AND tenant_user.name = 'browser-' || browser_session.id)"
    )

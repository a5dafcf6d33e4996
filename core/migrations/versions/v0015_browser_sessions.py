"""Browsers that are signed in; what the demo key's browsers made is its link's user's."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"

DEMO_TENANT, DEMO_KEY, DEMO_USER = "demo", "parley up", "demo"


def upgrade() -> None:
    """Make the table. Cookies of before are good for nothing: their browsers sign in again."""
    op.create_table(
        "browser_session",
        *(sa.Column(name, sa.String(), primary_key=True) for name in ("tenant_id", "id")),
        *(
            sa.Column(name, sa.String(), nullable=False)
            for name in ("token_sha256", "key_id", "user_id", "address", "agent")
        ),
        *(sa.Column(name, sa.BigInteger(), nullable=False) for name in ("made_ms", "seen_ms", "ends_ms")),
        sa.UniqueConstraint("token_sha256", name="uq_browser_session_token"),
    )
    op.create_index("ix_browser_session_user", "browser_session", ["tenant_id", "user_id"])
    op.create_index("ix_browser_session_ends", "browser_session", ["ends_ms"])
    _give_to_the_links_user()


def _give_to_the_links_user() -> None:
    """Who signed in with the link of `parley up` was the key itself, and is the link's user now."""
    of_key = (
        "FROM api_key JOIN tenant ON tenant.tenant_id = api_key.tenant_id "
        f"WHERE tenant.name = '{DEMO_TENANT}' AND api_key.name = '{DEMO_KEY}' AND api_key.user_id = ''"
    )
    op.execute(
        "INSERT INTO tenant_user (tenant_id, id, name, created_ms) "
        f"SELECT tenant.tenant_id, '{DEMO_USER}', '{DEMO_USER}', MAX(tenant.created_ms) {of_key} "
        "AND NOT EXISTS (SELECT 1 FROM tenant_user WHERE tenant_user.tenant_id = tenant.tenant_id "
        f"AND tenant_user.id = '{DEMO_USER}') GROUP BY tenant.tenant_id"
    )
    op.execute(
        f"UPDATE conversation SET owner_key = '', user_id = '{DEMO_USER}' WHERE user_id = '' "
        f"AND EXISTS (SELECT 1 {of_key} AND api_key.tenant_id = conversation.tenant_id "
        "AND api_key.id = conversation.owner_key)"
    )

"""Keys of one chain of rotations are one owner; keys say whether browsers may share them."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"

_KEYS = sa.table(
    "api_key",
    *(sa.column(name) for name in ("tenant_id", "id", "user_id", "rotated_from", "owner_key")),
    sa.column("shared", sa.Boolean()),
)
_CONVERSATIONS = sa.table("conversation", *(sa.column(name) for name in ("tenant_id", "owner_key")))


def upgrade() -> None:
    """Service keys that exist are shared: what their tickets do goes on. What a rotated key made belongs to
    its chain."""
    op.add_column("api_key", sa.Column("shared", sa.Boolean(), nullable=False, server_default=sa.false()))
    op.add_column("api_key", sa.Column("owner_key", sa.String(), nullable=False, server_default=""))
    bind = op.get_bind()
    bind.execute(sa.update(_KEYS).where(_KEYS.c.user_id == "").values(shared=sa.true()))
    bind.execute(sa.update(_KEYS).values(owner_key=_KEYS.c.id))
    rotated: dict[tuple[str, str], str] = {
        (row.tenant_id, row.id): row.rotated_from
        for row in bind.execute(sa.select(_KEYS).where(_KEYS.c.rotated_from.is_not(None)))
    }
    for tenant, key in rotated:
        first = key
        while (tenant, first) in rotated:
            first = rotated[tenant, first]
        _own(bind, tenant, key, first)


def _own(bind: Any, tenant: str, key: str, first: str) -> None:
    of_key = (_KEYS.c.tenant_id == tenant) & (_KEYS.c.id == key)
    bind.execute(sa.update(_KEYS).where(of_key).values(owner_key=first))
    made = (_CONVERSATIONS.c.tenant_id == tenant) & (_CONVERSATIONS.c.owner_key == key)
    bind.execute(sa.update(_CONVERSATIONS).where(made).values(owner_key=first))

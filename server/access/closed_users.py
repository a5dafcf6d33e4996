"""Closed users of a tenant, for keys that are not a user's own: tickets and `metadata.user` name users.

Looked up in SQL, kept some seconds, dropped on news of changed access.
"""

from collections import OrderedDict

from billing.api import user_is_closed
from core.clock import now_ms
from core.sql.database import Database

KEPT_MS = 5_000
USERS_MAX = 10_000


class ClosedUsers:
    """One gateway's cache of closed users."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._kept: OrderedDict[tuple[str, str], tuple[bool, int]] = OrderedDict()

    async def has(self, tenant: str, user: str) -> bool:
        """True where this user was closed, as of some seconds ago at most."""
        if not user:
            return False
        now, kept = now_ms(), self._kept  # news replace it: a look-up begun before them fills the old one
        known = kept.get((tenant, user))
        if known is not None and 0 <= now - known[1] < KEPT_MS:
            return known[0]
        closed = await user_is_closed(self._db, tenant, user)
        kept[tenant, user] = (closed, now)
        kept.move_to_end((tenant, user))
        if len(kept) > USERS_MAX:
            kept.popitem(last=False)
        return closed

    def changed(self) -> None:
        """Forget everything, as a user was closed or opened again."""
        self._kept = OrderedDict()

"""Which users of a tenant may not come in, where a key is not theirs: tickets and `metadata.user` name them.

Looked up in SQL, kept some seconds, dropped when news of changed access come.
"""

from collections import OrderedDict

from billing.api import user_is_closed
from core.clock import now_ms
from core.database import Database

KEPT_MS = 5_000
USERS_MAX = 10_000


class ClosedUsers:
    """One gateway's knowledge of them."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._kept: OrderedDict[tuple[str, str], tuple[bool, int]] = OrderedDict()
        self._changes = 0

    async def has(self, tenant: str, user: str) -> bool:
        """Whether this user was closed, as of some seconds ago at most."""
        if not user:
            return False
        now = now_ms()
        closed, read_ms = self._kept.get((tenant, user), (False, 0))
        if 0 <= now - read_ms < KEPT_MS:
            return closed
        before = self._changes
        closed = await user_is_closed(self._db, tenant, user)
        if before == self._changes:
            self._kept[tenant, user] = (closed, now)
            self._kept.move_to_end((tenant, user))
            if len(self._kept) > USERS_MAX:
                self._kept.popitem(last=False)
        return closed

    def changed(self) -> None:
        """Somebody was closed, or opened again."""
        self._changes += 1
        self._kept.clear()

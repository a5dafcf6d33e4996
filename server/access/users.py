"""Users' names and ids at the gateway's edge: clients name users, everything behind the edge knows ids.

Both ways are looked up in SQL and kept for a while; a name that is new gets a user.
"""

from collections import OrderedDict
from typing import Any

from billing.api import Principal, user_id, user_named, user_names
from core.clock import now_ms
from core.errors import Refused
from core.names import checked_user
from core.sql.database import Database
from server.access.authorization import user_of

KEPT_MS = 60_000
FULL_MS = 10_000
USERS_MAX = 10_000


class _UserCache:
    """A cache by tenant and key; the oldest entry goes first."""

    def __init__(self) -> None:
        self._found: OrderedDict[tuple[str, str], tuple[str, int]] = OrderedDict()

    def get(self, tenant: str, asked: str) -> str | None:
        kept = self._found.get((tenant, asked))
        return kept[0] if kept is not None and 0 <= now_ms() - kept[1] < KEPT_MS else None

    def keep(self, tenant: str, asked: str, found: str) -> None:
        self._found[tenant, asked] = (found, now_ms())
        self._found.move_to_end((tenant, asked))
        if len(self._found) > USERS_MAX:
            self._found.popitem(last=False)


class Users:
    """One gateway's cache of users."""

    def __init__(self, db: Database, users_max: int) -> None:
        self._db = db
        self._users_max = users_max
        self._ids, self._names = _UserCache(), _UserCache()
        self._full: dict[str, tuple[Refused, int]] = {}

    async def id_of(self, tenant: str, name: str) -> str:
        """A user's id by a checked name; empty for an empty name. Creates a new user. Raises Refused where
        the tenant has no room for another."""
        if not name:
            return ""
        ids = self._ids  # replaced on news, so a look-up that began before them writes into the old one
        known = ids.get(tenant, name)
        if known is not None:
            return known
        found = await self._find(tenant, name)
        ids.keep(tenant, name, found)
        return found

    async def _find(self, tenant: str, name: str) -> str:
        """As `user_id`. A tenant without room is counted again only after a while, as that is expensive."""
        name = checked_user(name)
        full = self._full.get(tenant)
        if full is not None and 0 <= now_ms() - full[1] < FULL_MS:
            known = await user_named(self._db, tenant, name)
            if known is None:
                raise Refused(full[0].refusal)
            return known.id
        try:
            found = await user_id(self._db, tenant, name, self._users_max)
        except Refused as refused:
            self._full[tenant] = (refused, now_ms())
            raise
        self._full.pop(tenant, None)
        return found

    async def of_turn(self, principal: Principal, metadata: dict[str, Any], project: str | None) -> str:
        """Id of the user a turn is charged to; see `user_of`."""
        own = await self.name_of(principal.tenant, principal.user)
        named = user_of(principal, metadata, project, own)
        return principal.user if named == own else await self.id_of(principal.tenant, named)

    async def name_of(self, tenant: str, id: str) -> str:
        """The name that people know a user by; empty for an empty id."""
        if not id:
            return ""
        names = self._names
        known = names.get(tenant, id)
        if known is not None:
            return known
        found = (await user_names(self._db, tenant, [id]))[id]
        names.keep(tenant, id, found)
        return found

    def changed(self) -> None:
        """Forget everything, as a user was closed, opened again or erased."""
        self._ids, self._names = _UserCache(), _UserCache()
        self._full.clear()

"""Sessions in which something was sent. A user that a sign-in made for one browser, and who sent nothing, is
deleted with the session. Noted once for each session and gateway."""

from collections import OrderedDict

from billing.api import Principal, touch_session
from core.errors import Refused
from core.sql.database import Database
from server.protocol.codes import ErrorCode, refusal

SESSIONS_MAX = 10_000


class UsedSessions:
    """One gateway's notes of used sessions."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._noted = OrderedDict[tuple[str, str], None]()

    async def note(self, principal: Principal) -> None:
        """Note a send in the caller's session. Raises Refused where the session has ended meanwhile."""
        name = (principal.tenant, principal.session)
        if not principal.session or name in self._noted:
            return
        if not await touch_session(self._db, *name):
            raise Refused(refusal(ErrorCode.UNAUTHORIZED, "you are signed out: sign in again"))
        self._noted[name] = None
        if len(self._noted) > SESSIONS_MAX:
            self._noted.popitem(last=False)

"""Which sessions something was sent in: whom a sign-in made for one browser, and who then did nothing, goes
with the session. Noted once a session and gateway.
"""

from collections import OrderedDict

from billing.api import Principal, touch_session
from core.errors import Refused
from core.sql.database import Database
from server.protocol.codes import ErrorCode, refusal

SESSIONS_MAX = 10_000


class UsedSessions:
    """One gateway's knowledge of them."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._noted = OrderedDict[tuple[str, str], None]()

    async def note(self, principal: Principal) -> None:
        """The caller is about to send something. Raises Refused where its session has ended meanwhile."""
        name = (principal.tenant, principal.session)
        if not principal.session or name in self._noted:
            return
        if not await touch_session(self._db, *name):
            raise Refused(refusal(ErrorCode.UNAUTHORIZED, "you are signed out: sign in again"))
        self._noted[name] = None
        if len(self._noted) > SESSIONS_MAX:
            self._noted.popitem(last=False)

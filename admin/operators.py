"""Sign-in of operators to the console: a one-time link that `parley up` or `parley console --link` makes
becomes a session, which is a row that can be listed and ended.

A link's code is sealed content: nobody who can write Redis can forge one.
"""

import secrets

import msgspec
from sqlalchemy.exc import SQLAlchemyError
from starlette.requests import Request
from starlette.responses import Response

from billing.api import (
    PLATFORM,
    BrowserSession,
    end_session,
    open_operator_session,
    operator_of_session,
    record_separately,
)
from core.actor import Author, process_user
from core.clock import now_ms
from core.configuration.settings import Settings
from core.errors import StartupError
from core.network.addresses import address_of
from core.network.buckets import Rate, TokenBuckets
from core.redis import one_time
from core.redis.client import RedisClient
from core.signing.sealed import SealedContent
from core.signing.signed_text import Keyring
from core.sql.database import Database, require_schema
from core.sql.store_errors import database_failure
from core.web.cookies import drop_cookie, read_cookie, set_cookie
from core.web.signins import FailedSignins

CODE_SECONDS = 3600
SESSION_SECONDS = 12 * 3600
COOKIE = "parley_operator"
PURPOSE = b"parley operator v2"
ID_BYTES = 12
REFUSED_ROWS_A_MINUTE = 30


class OperatorLink(msgspec.Struct, frozen=True, array_like=True):
    """Content of a link's code: the operator's name and its deadline. `opens_by_ms` is Unix ms."""

    id: str
    name: str
    opens_by_ms: int


_links = SealedContent(OperatorLink, PURPOSE, lambda link: link.opens_by_ms)


def make_operator_code(keyring: Keyring, name: str = "") -> str:
    """A code that signs one browser in as this operator, once, within an hour; by default the system's
    user."""
    opens_by_ms = now_ms() + CODE_SECONDS * 1000
    link = OperatorLink(secrets.token_urlsafe(ID_BYTES), name or process_user(), opens_by_ms)
    return _links.seal(link, keyring)


async def operator_code_on_record(settings: Settings, name: str = "") -> str:
    """A code, once the audit log has a row for it: for whom and by whom it was made."""
    db = Database(settings.database_endpoint)
    try:
        await require_schema(db)
        await record_separately(db, PLATFORM, "operator.link", name or process_user(), None)
    except (SQLAlchemyError, OSError) as error:
        raise StartupError(f"no link, since it cannot be recorded: {database_failure(error)}") from error
    finally:
        await db.close()
    return make_operator_code(settings.keyring, name)


async def use_operator_code(redis: RedisClient, keyring: Keyring, code: str) -> str | None:
    """The operator's name of a good code, which this uses up; None for a bad one."""
    now = now_ms()
    link = _links.unseal(code, keyring, now)
    if link is None:
        return None
    spent = await one_time.use_once(redis, f"parley:operator:{link.id}", link.opens_by_ms - now)
    return link.name if spent else None


class OperatorSessions:
    """Signs operators' browsers in and out."""

    def __init__(self, settings: Settings, redis: RedisClient, db: Database) -> None:
        self._settings = settings
        self._redis = redis
        self._db = db
        self._failed = FailedSignins(settings.failed_signins_per_address_per_minute)
        self._rows = TokenBuckets(Rate.a_minute(REFUSED_ROWS_A_MINUTE))

    async def sign_in(self, request: Request, code: str, reply: Response) -> int | None:
        """Exchange a one-time code for a session and its cookie: None. For a bad code 0, or the milliseconds
        to wait after too many tries."""
        name, address = (
            await use_operator_code(self._redis, self._settings.keyring, code),
            address_of(request.scope),
        )
        if name is None:
            return await self._refused(address)
        agent = request.headers.get("user-agent", "")
        _, token = await open_operator_session(self._db, name, SESSION_SECONDS, address, agent)
        set_cookie(reply, request, self._settings, COOKIE, token, SESSION_SECONDS)
        return None

    async def _refused(self, address: str) -> int:
        """Count and log a bad code, in the audit log too unless there is a flood, which would fill it."""
        after_ms = self._failed.count(address, "operator")
        if not after_ms and not self._rows.take(""):
            author = Author(address, "api")
            await record_separately(self._db, PLATFORM, "operator.refuse", address, None, author)
        return after_ms

    async def who(self, request: Request) -> BrowserSession | None:
        """The caller's session; None for an unknown caller."""
        token = read_cookie(request, self._settings, COOKIE)
        return await operator_of_session(self._db, token) if token else None

    async def sign_out(self, request: Request, reply: Response) -> None:
        """End the caller's session, and have the browser forget it."""
        found = await self.who(request)
        if found is not None:
            author = Author(found.user_id, "api")
            await end_session(self._db, self._redis, found.tenant_id, found.id, author)
        drop_cookie(reply, request, self._settings, COOKIE)

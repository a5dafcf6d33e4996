"""Operations on signed-in browsers of a tenant's users. Those of people who manage are `people.sessions`."""

from typing import Annotated

import msgspec
from msgspec import Meta
from sqlmodel import col, select

from billing.operations.shared_fields import AUDIT, CONTROL, TenantName
from billing.tables.sessions import BrowserSession
from billing.tenants import sessions
from billing.tenants.session_ends import tell_session_ends, write_session_ends
from billing.tenants.users import user_named, user_names
from billing.unit_of_work.listing import ListQuestion, listed_page
from billing.unit_of_work.units import Change, Look
from core.clock import iso_time
from core.errors import Refused, bad_request, see, unknown
from core.operations import ADMINS, OPERATORS, ListedPage, Role, Uses, operation

SESSION_EDITORS = OPERATORS | ADMINS
OF_USERS = "tenant quota_policy budget rollup_hour api_key"


class ListSessions(ListQuestion, frozen=True, kw_only=True):
    """Whose browsers."""

    tenant: TenantName


class EndSessions(msgspec.Struct, frozen=True, kw_only=True):
    """Which browsers to sign out: one, or all of a user."""

    tenant: TenantName
    session: Annotated[str, Meta(description="One browser's.")] = ""
    user: Annotated[str, Meta(description="All browsers of this user.")] = ""


class SessionFacts(msgspec.Struct, frozen=True):
    """A browser that is signed in. `user`: their name; `key`: the id of the key that signed it in."""

    session: str
    user: str
    key: str
    address: str
    agent: str
    made: str | None
    seen: str | None
    ends: str | None


class EndedSessions(msgspec.Struct, frozen=True):
    """How many browsers were signed out."""

    ended: int


@operation(
    "sessions.list",
    "GET /tenants/{tenant}/sessions",
    may=SESSION_EDITORS | {Role.SUPPORT},
    uses=Uses(reads="tenant tenant_user browser_session"),
)
async def list_sessions(look: Look, ask: ListSessions) -> ListedPage[SessionFacts]:
    """List a tenant's browsers that are signed in, newest first."""
    return await _listed(look, ask, (await look.tenant(ask.tenant)).tenant_id)


@operation(
    "sessions.revoke",
    "POST /tenants/{tenant}/sessions/revoke",
    may=SESSION_EDITORS,
    audit="session.end",
    reason=True,
    uses=Uses(reads=OF_USERS, writes=f"tenant_user browser_session {AUDIT}", keys=CONTROL),
)
async def revoke_sessions(change: Change, ask: EndSessions) -> EndedSessions:
    """Sign a browser out, or all of a user; their connections close within a second."""
    owner = (await change.tenant(ask.tenant)).tenant_id
    known = await user_named(change.db, owner, ask.user) if ask.user else None
    ended = await _end(change, owner, ask, known.id if known is not None else ask.user)
    change.after(tell_session_ends, owner, ended)
    return EndedSessions(len(ended))


async def _listed(look: Look, ask: ListQuestion, owner: str) -> ListedPage[SessionFacts]:
    statement = select(BrowserSession).where(
        col(BrowserSession.tenant_id) == owner, col(BrowserSession.ends_ms) > look.now_ms()
    )
    page: ListedPage[BrowserSession] = await listed_page(
        look, ask, statement, col(BrowserSession.id), lambda row: row, newest_first=True
    )
    names = await user_names(look.db, owner, {row.user_id for row in page.items})
    return ListedPage([_facts(row, names[row.user_id]) for row in page.items], page.next)


async def _end(change: Change, owner: str, ask: EndSessions, user_id: str) -> list[str]:
    """End what is asked for, and return the ids. Raises Refused where nobody is signed in by that."""
    if bool(ask.session) == bool(ask.user):
        raise bad_request("name a session or a user", field="session")
    ended: list[str] = []
    while rows := await sessions.list_sessions(change.db, owner, ask.session or None, user_id or None):
        ended += await write_session_ends(change.db, owner, [row.id for row in rows])
    if not ended:
        raise _nobody(owner, "session" if ask.session else "user")
    return ended


def _nobody(owner: str, field: str) -> Refused:
    return unknown("nobody is signed in by that", field=field, see=see("sessions.list", tenant=owner))


def _facts(row: BrowserSession, user: str) -> SessionFacts:
    return SessionFacts(
        session=row.id,
        user=user,
        key=row.key_id,
        address=row.address,
        agent=row.agent,
        made=iso_time(row.made_ms),
        seen=iso_time(row.seen_ms),
        ends=iso_time(row.ends_ms),
    )


OPERATIONS = (list_sessions, revoke_sessions)

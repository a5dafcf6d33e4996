"""Rechecks the access of open connections: keys and sessions end or lose rights, and users are closed.

News of that come at once and can be lost, so all are looked up again now and then.
"""

from collections.abc import Sequence
from dataclasses import replace

from billing.api import KEY_REVOKED, ControlNews, Principal
from core.clock import now_ms
from core.errors import Refusal
from server.access.authentication import Authenticator
from server.access.closed_users import ClosedUsers
from server.access.key_origins import origin_refusal
from server.connection.registry import OpenSocket
from server.protocol.codes import CloseCode, ErrorCode, suspended
from server.session.events import AccessChanged


async def recheck_access(
    auth: Authenticator,
    closed_users: ClosedUsers,
    connected: Sequence[OpenSocket],
    of_tenant: str | None = None,
) -> None:
    """Look up the keys and sessions of open connections, all or those of one tenant, and apply any change."""
    of_proof: dict[tuple[str, str, str], list[OpenSocket]] = {}
    for who in connected:
        if who.principal is not None and of_tenant in (None, who.principal.tenant):
            of_proof.setdefault(proof_of(who.principal), []).append(who)
    for proof, users in of_proof.items():
        fresh = await auth.standing(*proof)
        refused = suspended() if fresh is None and await auth.is_suspended_proof(*proof) else None
        for who in users:
            await _check(closed_users, who, proof, fresh, refused)


async def present_access(auth: Authenticator, principal: Principal) -> Principal | None:
    """The access of a caller who is being let in, looked up once more, as news of a change found no
    connection yet; None where it has ended."""
    return await auth.standing(*proof_of(principal), principal.user)


def end_all(connected: Sequence[OpenSocket], news: ControlNews) -> None:
    """End the connections of a key that was revoked, or of a browser that signed out."""
    for who in connected:
        principal = who.principal
        if principal is None or principal.tenant != news.tenant:
            continue
        if news.key == (principal.key if news.kind == KEY_REVOKED else principal.session):
            _end(who)


def access_ms(principal: Principal) -> int | None:
    """Milliseconds until a caller's access ends, None: without end."""
    return None if principal.access_ends_ms is None else max(0, principal.access_ends_ms - now_ms())


async def _check(
    closed_users: ClosedUsers,
    who: OpenSocket,
    proof: tuple[str, str, str],
    fresh: Principal | None,
    refused: Refusal | None,
) -> None:
    """Apply the present access of its key or session to a connection; None ends it. `refused`: the reason to
    tell it, where there is one."""
    before = who.principal
    if before is None or proof_of(before) != proof:  # it showed another token meanwhile
        return
    if refused is not None:
        who.order_close(CloseCode.SUSPENDED, ErrorCode(refused.code), refused.message)
        return
    if fresh is None:
        _end(who)
        return
    if (foreign := origin_refusal(fresh, who.origins)) is not None:
        who.order_close(CloseCode.FORBIDDEN, ErrorCode.FORBIDDEN, foreign.message)
        return
    # A user that a key or a session is fixed to was looked up with it; one who came by a ticket was not.
    by_ticket = before.fixed_user and not fresh.fixed_user
    if by_ticket and await closed_users.has(before.tenant, before.user):
        _end(who)
    if who.principal is not before:
        return
    sooner = _ends_sooner(fresh, before)
    who.principal = replace(
        before,
        access_ends_ms=fresh.access_ends_ms if sooner else before.access_ends_ms,
        scopes=before.scopes & fresh.scopes,  # a ticket has fewer than its key
        priority_max=fresh.priority_max,
        regex=fresh.regex,
        shows_costs=fresh.shows_costs,
        cache_by_owner=fresh.cache_by_owner,
    )
    if sooner:
        who.feed(AccessChanged(access_ms(fresh)))


def proof_of(principal: Principal) -> tuple[str, str, str]:
    """A caller's proof: tenant, key, session."""
    return principal.tenant, principal.key, principal.session


def _ends_sooner(fresh: Principal, known: Principal) -> bool:
    if fresh.access_ends_ms is None:
        return False
    return known.access_ends_ms is None or fresh.access_ends_ms < known.access_ends_ms


def _end(who: OpenSocket) -> None:
    signed_out = who.principal is not None and who.principal.session
    message = "the browser was signed out" if signed_out else "the key was revoked"
    who.order_close(CloseCode.AUTH_INVALID, ErrorCode.UNAUTHORIZED, message)

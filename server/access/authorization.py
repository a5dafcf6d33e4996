"""Who may read and cancel what (docs/protocol.md). Pure.

The owner of a request is (tenant, project, key) for a service key, and (tenant, project, user) for whoever is
fixed to a user. A key that was rotated and its successors are one owner, by the name of the first of them.
Other tenants' ids never get here: every look-up names the caller's tenant, so they answer like unknown ones.
"""

import hashlib
from typing import Any, NamedTuple

from billing.api import DirectoryEntry, Principal
from core.errors import Refusal, Refused
from core.names import same_name
from server.protocol.codes import ErrorCode, refusal

CHAT_SCOPE = "chat"
READ_SCOPE = "requests:read"
CANCEL_SCOPE = "requests:cancel"


class ConversationOwner(NamedTuple):
    """Whose a conversation is, inside its tenant: a user's (then `key` is empty), else a key's."""

    project: str
    key: str
    user: str


def owner_of(principal: Principal) -> ConversationOwner:
    """Who owns what the caller makes: the user where one is fixed, else the key."""
    if principal.fixed_user and principal.user:
        return ConversationOwner(principal.project, "", principal.user)
    return ConversationOwner(principal.project, principal.owner_key, "")


def cache_salt(principal: Principal, user: str) -> str:
    """What keeps an owner's cached prefixes from others' of the tenant, where it wants that; else empty.
    `user`: whom the turn is charged to."""
    if not principal.cache_by_owner:
        return ""
    owner = ConversationOwner(principal.project, "" if user else principal.owner_key, user)
    return hashlib.sha256(repr(tuple(owner)).encode()).hexdigest()


def owns(principal: Principal, project: str, key: str, user: str) -> bool:
    """Whether what (project, key, user) made is the caller's own."""
    if project != principal.project:
        return False
    if principal.fixed_user and principal.user:
        return user == principal.user
    return key == principal.owner_key and (user == "" or not principal.fixed_user)


def read_refusal(principal: Principal, found: DirectoryEntry) -> Refusal | None:
    """Why a request of the caller's tenant may not be read, None where it may."""
    if READ_SCOPE in principal.scopes or owns(principal, found.project, found.key, found.user):
        return None
    return refusal(ErrorCode.FORBIDDEN, "this request is another's; reading it takes the scope requests:read")


def cancel_refusal(principal: Principal, found: DirectoryEntry) -> Refusal | None:
    """Why a request of the caller's tenant may not be cancelled, None where it may."""
    if CANCEL_SCOPE in principal.scopes or owns(principal, found.project, found.key, found.user):
        return None
    problem = "this request is another's; cancelling it takes the scope requests:cancel"
    return refusal(ErrorCode.CANCEL_DENIED, problem)


def user_of(principal: Principal, metadata: dict[str, Any], project: str | None, own: str) -> str:
    """The name of the user a turn is charged to. `project`: the id of the one that the metadata names, None
    for none; `own`: the name of the caller's user.

    Raises Refused (forbidden) where the metadata names what the caller may not."""
    if "project" in metadata and project != principal.project:
        raise Refused(refusal(ErrorCode.FORBIDDEN, "metadata.project: this key belongs to another project"))
    named = metadata.get("user", own)
    assert isinstance(named, str)
    if not principal.fixed_user:
        return named
    if not same_name(named, own):
        raise Refused(refusal(ErrorCode.FORBIDDEN, "metadata.user: this key or ticket is another user's"))
    return own

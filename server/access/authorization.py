"""Rules for reading and cancelling requests (docs/protocol.md). Pure.

The owner of a request is (tenant, project, key) for a service key, and (tenant, project, user) for a caller
who is fixed to a user. A rotated key and its successors are one owner, by the name of the first of them.
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
    """Owner of a conversation, inside its tenant: a user (then `key` is empty), else a key."""

    project: str
    key: str
    user: str


def owner_of(principal: Principal) -> ConversationOwner:
    """Owner of what the caller creates: the user where one is fixed, else the key."""
    if principal.fixed_user and principal.user:
        return ConversationOwner(principal.project, "", principal.user)
    return ConversationOwner(principal.project, principal.owner_key, "")


def cache_salt(principal: Principal, user: str) -> str:
    """Salt that keeps an owner's cached prefixes from other owners of a tenant that wants that; else empty.
    `user`: the one the turn is charged to."""
    if not principal.cache_by_owner:
        return ""
    owner = ConversationOwner(principal.project, "" if user else principal.owner_key, user)
    return hashlib.sha256(repr(tuple(owner)).encode()).hexdigest()


def owns(principal: Principal, project: str, key: str, user: str) -> bool:
    """True where the caller is the owner of what (project, key, user) created."""
    if project != principal.project:
        return False
    if principal.fixed_user and principal.user:
        return user == principal.user
    return key == principal.owner_key and (user == "" or not principal.fixed_user)


def read_refusal(principal: Principal, found: DirectoryEntry) -> Refusal | None:
    """The refusal to read a request of the caller's tenant, None where the caller may."""
    if READ_SCOPE in principal.scopes or owns(principal, found.project, found.key, found.user):
        return None
    return refusal(ErrorCode.FORBIDDEN, "this request is another's; reading it takes the scope requests:read")


def cancel_refusal(principal: Principal, found: DirectoryEntry) -> Refusal | None:
    """The refusal to cancel a request of the caller's tenant, None where the caller may."""
    if CANCEL_SCOPE in principal.scopes or owns(principal, found.project, found.key, found.user):
        return None
    problem = "this request is another's; cancelling it takes the scope requests:cancel"
    return refusal(ErrorCode.CANCEL_DENIED, problem)


def user_of(principal: Principal, metadata: dict[str, Any], project: str | None, own: str) -> str:
    """Name of the user a turn is charged to. `project`: id of the project that the metadata names, None for
    none; `own`: name of the caller's user.

    Raises Refused (forbidden) where the metadata names a project or user that the caller may not use.
    """
    if "project" in metadata and project != principal.project:
        raise Refused(refusal(ErrorCode.FORBIDDEN, "metadata.project: this key belongs to another project"))
    named = metadata.get("user", own)
    assert isinstance(named, str)
    if not principal.fixed_user:
        return named
    if not same_name(named, own):
        raise Refused(refusal(ErrorCode.FORBIDDEN, "metadata.user: this key or ticket is another user's"))
    return own

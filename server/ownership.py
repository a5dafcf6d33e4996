"""Who may read and cancel what within a tenant (docs/protocol.md). Pure."""

from dataclasses import dataclass

from billing.api import Principal

READ_SCOPE = "requests:read"
CANCEL_SCOPE = "requests:cancel"


@dataclass(frozen=True)
class Owner:
    """Whose a request or conversation is in its tenant: a user's (then `key` is empty), else a key's."""

    project: str
    key: str
    user: str


def owner_of(principal: Principal, user: str | None = None) -> Owner:
    """The owner of what this caller makes. A service key may name a user; what it makes stays the key's."""
    if principal.fixed_user and principal.user:
        return Owner(principal.project, "", principal.user)
    return Owner(principal.project, principal.key, user or principal.user)


def may_read(principal: Principal, owner: Owner) -> bool:
    """Same owner, or the scope that reads the whole tenant's requests."""
    return _same(principal, owner) or READ_SCOPE in principal.scopes


def may_cancel(principal: Principal, owner: Owner) -> bool:
    """Same owner, or the scope that cancels the whole tenant's requests."""
    return _same(principal, owner) or CANCEL_SCOPE in principal.scopes


def _same(principal: Principal, owner: Owner) -> bool:
    mine = owner_of(principal, owner.user)
    return mine == owner and (not principal.fixed_user or principal.user == owner.user)

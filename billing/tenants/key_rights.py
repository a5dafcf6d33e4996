"""What a key may, and from where: its scopes, and the origins of the web pages that may use it. Pure."""

from collections.abc import Sequence

from core.configuration.settings import Settings
from core.errors import bad_request

USAGE_SCOPE, TENANT_USAGE_SCOPE = "usage:read", "usage:read:tenant"
USAGE_SCOPES = frozenset({USAGE_SCOPE, TENANT_USAGE_SCOPE})  # for services: no user, ticket or browser has it
SCOPES = frozenset({"chat", "requests:read", "requests:cancel"}) | USAGE_SCOPES
DEFAULT_SCOPES = ("chat",)
RIGHTS = {  # what a key's successor has of it
    *("tenant_id", "project_id", "user_id", "name", "shared", "scopes", "origins"),
    *("priority_max", "expires_ms"),
}
ORIGINS_MAX: int = Settings.model_fields["origins_per_key_max"].default


def checked_scopes(scopes: Sequence[str], user: str) -> list[str]:
    """What a key may, each once. `user`: whom it is bound to. Raises Refused."""
    no_scopes = sorted(set(scopes) - SCOPES)
    if no_scopes or not scopes:
        named = repr(no_scopes[0]) if no_scopes else "(none)"
        raise bad_request(f"unknown scope {named}: choose from {', '.join(sorted(SCOPES))}", field="scopes")
    if user and not USAGE_SCOPES.isdisjoint(scopes):
        message = "usage is for services to read: a key of one user has no scope usage:read"
        raise bad_request(message, field="scopes")
    return sorted(set(scopes))


def checked_origins(origins: Sequence[str], most: int = ORIGINS_MAX) -> list[str]:
    """The origins of the pages that may use a key, each once, in the order given; none: anything may. Raises
    Refused."""
    if len(origins) > most:
        message = (
            f"a key has {most} origins at most (PARLEY_ORIGINS_PER_KEY_MAX): write https://*.example.com for "
            "all of a domain, or make another key"
        )
        raise bad_request(message, field="origins")
    from core.network.origins import checked_origin  # a list of keys does without

    return list(dict.fromkeys(checked_origin(each, "origins") for each in origins))

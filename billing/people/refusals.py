"""What who cannot sign in, or not any more, is answered. Pure."""

from core.errors import Refusal, Refused

NOT_SIGNED_IN = "this does not sign you in: check what you typed, or ask for a new link"
LINK_IS_SPENT = "this link is not good any more: ask for a new one"


def unauthorized(message: str) -> Refused:
    """The Refused for a caller who has shown nothing that is good now."""
    return Refused(Refusal("unauthorized", message))


def too_often(after_ms: int, scope: str) -> Refused:
    """The Refused for too many tries. `scope`: of an address, or at an account."""
    return Refused(
        Refusal("rate_limited", "too many tries to sign in", retry=True, after_ms=after_ms, scope=scope)
    )

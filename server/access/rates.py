"""Rates of one gateway by address, caller and connection: cheap checks before anything that costs.

By address until the caller is identified, then by (tenant, key, user). Characters of prompts, which are
expensive to tokenize, also count by tenant. Limits over all gateways are billing's; these keep one gateway
alive, and are set above those.
"""

from billing.api import Principal
from core.configuration.settings import Settings
from core.errors import Refusal, Refused
from core.network.addresses import rate_limit_address
from core.network.buckets import Rate, TokenBuckets
from core.web.signins import FailedSignins
from server.protocol.codes import ErrorCode, refusal


class CallRates:
    """One gateway's buckets. Each method raises Refused (rate_limited) where its rate is exceeded."""

    def __init__(self, settings: Settings) -> None:
        self._calls = TokenBuckets(Rate.a_second(settings.calls_per_address_per_second))
        self._sockets = TokenBuckets(Rate.a_second(settings.sockets_per_address_per_second))
        self._signins = TokenBuckets(Rate.a_minute(settings.signins_per_address_per_minute))
        self._own_signins = TokenBuckets(Rate.a_minute(settings.signins_per_caller_per_minute))
        self._failed = FailedSignins(settings.failed_signins_per_address_per_minute)
        self._known = TokenBuckets(Rate.a_second(settings.calls_per_caller_per_second))
        self._sends = TokenBuckets(Rate.a_second(settings.sends_per_caller_per_second))
        self._asks = TokenBuckets(Rate.a_second(settings.asks_per_caller_per_second))
        self._prompts = TokenBuckets(Rate.a_second(settings.prompt_characters_per_tenant_per_second))

    def call(self, address: str) -> None:
        """Count an HTTP call of an address."""
        _take(self._calls, rate_limit_address(address), "address", "too many calls from this address")

    def socket(self, address: str) -> None:
        """Count a new WebSocket of an address."""
        _take(self._sockets, rate_limit_address(address), "address", "too many connections from this address")

    def signin(self, address: str) -> None:
        """Count a sign-in of an address."""
        _take(self._signins, rate_limit_address(address), "address", "too many sign-ins from this address")

    def signed_in(self, principal: Principal) -> None:
        """Count a browser that a good key signs in."""
        _take(self._own_signins, _who(principal), "caller", "too many sign-ins with this key")

    def failed(self, address: str, shown: str, refused: Refusal) -> Refusal:
        """Count a wrong proof; returns the refusal to send. `shown`: see FailedSignins."""
        after_ms = self._failed.count(address, shown)
        return (
            _refusal("address", "too many failed sign-ins from this address", after_ms)
            if after_ms
            else refused
        )

    def known(self, principal: Principal) -> None:
        """Count an HTTP call of an identified caller."""
        _take(self._known, _who(principal), "caller", "too many calls")

    def send(self, principal: Principal) -> None:
        """Count a send, before anything is looked up for it."""
        _take(self._sends, _who(principal), "caller", "too many sends")

    def ask(self, principal: Principal, cost: int = 1) -> None:
        """Count a hello (which costs more with each request to resume), attach, cancel or fresh token."""
        _take(self._asks, _who(principal), "caller", "too many connections, attaches and cancels", cost)

    def prompt(self, principal: Principal, characters: int) -> None:
        """Count a prompt's characters, before it is made into tokens."""
        _take(self._prompts, principal.tenant, "tenant", "too much text at once", characters)


def _take(buckets: TokenBuckets, name: str, scope: str, problem: str, cost: float = 1.0) -> None:
    after_ms = buckets.take(name, cost)
    if after_ms:
        raise Refused(_refusal(scope, problem, after_ms))


def _refusal(scope: str, problem: str, after_ms: int) -> Refusal:
    message = f"{problem}: try again after {after_ms} ms"
    return refusal(ErrorCode.RATE_LIMITED, message, after_ms=after_ms, scope=scope)


def _who(principal: Principal) -> str:
    """Bucket of a caller: a service key's own calls share one; each of its tickets' users has another."""
    user = principal.user if principal.fixed_user else ""
    return f"{principal.tenant} {principal.owner_key} {user}"

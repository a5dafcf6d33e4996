"""Tries to sign in, slowed by address and by account.

By address each process counts for itself. By account Redis does, so that all consoles share the count; it
knows an account by the hash of what was typed, whether anybody has it or not.
"""

import hashlib

from billing.people.refusals import too_often
from core.network.addresses import rate_limit_address
from core.network.buckets import Rate, TokenBuckets
from core.redis.client import RedisClient

KEY = "parley:tries:"
TRIES_MAX = 10
WINDOW_MS = 15 * 60_000
BY_ADDRESS_A_MINUTE = 30  # each costs a hash
FIELD = "n"


class SignInTries:
    """Counts of one process, and those that all share."""

    def __init__(self, redis: RedisClient, by_address_a_minute: float = BY_ADDRESS_A_MINUTE) -> None:
        self._redis = redis
        self._by_address = TokenBuckets(Rate.a_minute(by_address_a_minute))

    def from_address(self, address: str) -> None:
        """Count a try from an address, before it costs anything. Raises Refused (rate_limited)."""
        after_ms = self._by_address.take(rate_limit_address(address))
        if after_ms:
            raise too_often(after_ms, "address")

    async def at_account(self, account: str) -> None:
        """Count a try at an account before what it shows is looked at, so that many at once are as slow as
        one after another. Raises Refused (rate_limited)."""
        name = _name(account)
        counted, _, left_ms = await self._redis.all_at_once(
            [("HINCRBY", name, FIELD, 1), ("PEXPIRE", name, WINDOW_MS, "NX"), ("PTTL", name)]
        )
        for each in (counted, left_ms):
            if isinstance(each, Exception):
                raise each
        if counted > TRIES_MAX:
            raise too_often(max(1, left_ms), "account")

    async def forget(self, account: str) -> None:
        """Count from nothing again: somebody has signed in."""
        await self._redis.delete(_name(account))


def _name(account: str) -> str:
    return KEY + hashlib.sha256(account.encode("utf-8", "surrogatepass")).hexdigest()[:32]

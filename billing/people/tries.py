"""Tries to sign in, slowed by address, by browser and by account.

By address each process counts for itself. The rest is Redis', so that all consoles share the counts; it knows
an account by the hash of what was typed, whether anybody has it or not.

Nobody can lock an account: strangers' tries at it are slowed to one a minute, whatever the number of their
addresses, and those of a browser in which it was signed in before (known_browsers.py) are counted apart.
"""

import hashlib

from billing.people.refusals import too_often
from core.network.addresses import rate_limit_address
from core.network.buckets import Rate, TokenBuckets
from core.redis.client import RedisClient

KEY = "parley:tries:"
TRIES_MAX = 10  # in a window, from one address or known browser at one account; then each waits for its end
WINDOW_MS = 15 * 60_000
PACE_MS = 60_000  # between strangers' tries at one account, beyond TRIES_MAX of all of them
BY_ADDRESS_A_MINUTE = 30  # each costs a hash
FIELD, TURN = "n", "turn"


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

    async def at_account(self, account: str, address: str, browser: str | None) -> None:
        """Count a try at an account before what it shows is looked at, so that many at once are as slow as
        one after another. `browser`: the id of one that knows the account. Raises Refused (rate_limited)."""
        counted, left_ms = await self._counted(_name(account, browser or rate_limit_address(address)), "NX")
        if counted > TRIES_MAX:
            raise too_often(max(1, left_ms), "address")
        if browser is not None:
            return
        counted, _ = await self._counted(_name(account), None)  # until strangers have been quiet for long
        if counted > TRIES_MAX:
            await self._wait_for_turn(_name(account, TURN))

    async def forget(self, account: str, address: str, browser: str | None) -> None:
        """Count from nothing again: somebody has signed in. What strangers did meanwhile stays counted where
        the browser is a known one."""
        await self._redis.delete(_name(account, browser or rate_limit_address(address)))
        if browser is None:
            await self._redis.delete(_name(account))

    async def _counted(self, name: str, unless: str | None) -> tuple[int, int]:
        """Count one more under a name; return how many, and for how many ms more they are counted."""
        expire = ("PEXPIRE", name, WINDOW_MS, *([unless] if unless else []))
        counted, _, left_ms = await self._redis.all_at_once(
            [("HINCRBY", name, FIELD, 1), expire, ("PTTL", name)]
        )
        for each in (counted, left_ms):
            if isinstance(each, Exception):
                raise each
        return counted, left_ms

    async def _wait_for_turn(self, name: str) -> None:
        """Take the one try of this minute. Raises Refused where it is taken."""
        if await self._redis.at_once("SET", name, FIELD, "NX", "PX", PACE_MS) is None:
            left_ms = await self._redis.at_once("PTTL", name)
            raise too_often(max(1, left_ms), "account")


def account_hash(text: str) -> str:
    """What stands for an account, or a part of a key, where it is not to be read. Pure."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _name(account: str, by: str = "") -> str:
    """The key of tries at an account: of all strangers, of one address or browser, or whose turn it is."""
    return f"{KEY}{account_hash(account)}:{by if by in ('', TURN) else account_hash(by)}"

"""Passwords: hashed by argon2id beside the event loop, a few at once, and compared in the same time whether
there is a hash or not."""

import asyncio
import base64
import threading
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, TypeVar

from core.errors import Refusal, Refused, bad_request

if TYPE_CHECKING:
    from argon2 import PasswordHasher

CHARACTERS_MIN, CHARACTERS_MAX = 12, 200
AT_ONCE = 2  # each takes 64 MiB and a few cores' time
WAITING_MAX = 16
AGAIN_MS = 2_000

Done = TypeVar("Done")
_threads = threading.BoundedSemaphore(AT_ONCE)  # of the whole process


def nobodys_hash() -> str:
    """A hash that no password has, with the parameters of the others."""
    hasher = _hasher()
    costs = f"m={hasher.memory_cost},t={hasher.time_cost},p={hasher.parallelism}"
    salt, digest = (
        base64.b64encode(bytes(each)).decode().rstrip("=") for each in (hasher.salt_len, hasher.hash_len)
    )
    return f"$argon2id$v=19${costs}${salt}${digest}"


def checked_password(password: str) -> str:
    """The password, where it is long enough to be one. Raises Refused. Pure."""
    if not CHARACTERS_MIN <= len(password) <= CHARACTERS_MAX:
        raise bad_request(
            f"a password has {CHARACTERS_MIN} to {CHARACTERS_MAX} characters, of any kind", field="password"
        )
    return password


class Passwords:
    """One process' hashing. Raises Refused (rate_limited) where too many wait for it."""

    def __init__(self, at_once: int = AT_ONCE, waiting_max: int = WAITING_MAX) -> None:
        self._at_once = at_once
        self._free: tuple[asyncio.AbstractEventLoop, asyncio.Semaphore] | None = None
        self._waiting_max = at_once + waiting_max
        self._here = 0

    async def hash(self, password: str) -> str:
        """The hash to store, of a checked password."""
        return await self._one_of_few(_hasher().hash, password)

    async def matches(self, password: str, stored: str | None) -> bool:
        """True where this is the password of the hash. It takes the same time where there is no hash."""
        return await self._one_of_few(_matches, password[:CHARACTERS_MAX], stored or nobodys_hash())

    async def _one_of_few(self, work: Callable[..., Done], *facts: str) -> Done:
        if self._here >= self._waiting_max:
            raise Refused(Refusal("rate_limited", "too many sign in at once", retry=True, after_ms=AGAIN_MS))
        self._here += 1
        try:
            async with self._turn():
                return await asyncio.to_thread(_in_turn, work, *facts)
        finally:
            self._here -= 1

    def _turn(self) -> asyncio.Semaphore:
        """Who has it hashes. It is of one event loop, of which a process has one after the other."""
        loop = asyncio.get_running_loop()
        if self._free is None or self._free[0] is not loop:
            self._free = loop, asyncio.Semaphore(self._at_once)
        return self._free[1]


process_passwords = Passwords()  # all hashing of this process


def is_outdated(stored: str) -> bool:
    """True where a hash has weaker parameters than new ones. Pure."""
    return _hasher().check_needs_rehash(stored)


def _in_turn(work: Callable[..., Done], *facts: str) -> Done:
    with _threads:
        return work(*facts)


@cache
def _hasher() -> "PasswordHasher":
    """With RFC 9106's second choice of parameters. Processes that sign nobody in do without the library."""
    from argon2 import PasswordHasher

    return PasswordHasher()


def _matches(password: str, stored: str) -> bool:
    from argon2.exceptions import InvalidHashError, VerificationError

    try:
        return _hasher().verify(stored, password)
    except (VerificationError, InvalidHashError):
        return False

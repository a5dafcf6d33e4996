"""How much of the usage API a tenant, and all together, may take: reads a minute, and at once.

And which reads are to be recorded: each, but the same question of the same key once an hour, so that a page
that asks every minute does not fill the audit log."""

import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Generator
from contextlib import contextmanager

from core.buckets import Buckets, Rate
from core.errors import Refused
from core.settings import Settings
from server.api import ErrorCode, refusal

AFTER_MS = 1000
RECORDED_SECONDS = 3600.0
RECORDED_MAX = 10_000


class UsageGate:
    """One process'."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._reads = Buckets(Rate.a_minute(settings.usage_reads_per_tenant_per_minute))
        self._running = Counter[str]()

    def read(self, tenant: str) -> None:
        """Somebody of a tenant asks for a page. Raises Refused (rate_limited)."""
        after_ms = self._reads.take(tenant)
        if after_ms:
            raise _refused(ErrorCode.RATE_LIMITED, "too many pages of usage", after_ms)

    @contextmanager
    def turn(self, tenant: str) -> Generator[None]:
        """A read's time in the database. Raises Refused where too many run: of this tenant (rate_limited), or
        of all (overloaded)."""
        if self._running[tenant] >= self._settings.usage_reads_per_tenant_max:
            raise _refused(ErrorCode.RATE_LIMITED, "too many reads of usage at once", AFTER_MS)
        if self._running.total() >= self._settings.usage_reads_max:
            raise Refused(refusal(ErrorCode.OVERLOADED, "too many read usage now", after_ms=AFTER_MS))
        self._running[tenant] += 1
        try:
            yield
        finally:
            self._running[tenant] -= 1
            if not self._running[tenant]:
                del self._running[tenant]


def _refused(code: ErrorCode, problem: str, after_ms: int) -> Refused:
    message = f"{problem}: try again after {after_ms} ms"
    return Refused(refusal(code, message, after_ms=after_ms, scope="tenant"))


class Recorded:
    """Reads that are in the audit log. What is forgotten is recorded again."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._until: OrderedDict[bytes, float] = OrderedDict()

    def has(self, question: bytes) -> bool:
        """Whether it was recorded within the hour."""
        return self._until.get(question, 0.0) > self._clock()

    def add(self, question: bytes) -> None:
        """It is recorded now."""
        self._until[question] = self._clock() + RECORDED_SECONDS
        self._until.move_to_end(question)
        if len(self._until) > RECORDED_MAX:
            self._until.popitem(last=False)

"""Limits on the usage API: reads a minute and at once, by tenant and in all.

Also decides which reads get a row in the audit log: the same question of the same key once an hour, and
ROWS_AN_HOUR of a key, so that frequent callers do not fill the log. The next row counts the reads without
one.
"""

import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

from core.configuration.settings import Settings
from core.errors import Refused
from core.network.buckets import Rate, TokenBuckets
from server.api import ErrorCode, refusal

AFTER_MS = 1000
RECORDED_SECONDS = 3600.0
RECORDED_KEYS_MAX = 10_000
ROWS_AN_HOUR = 20  # for each key


class UsageGate:
    """The limits in one process."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._reads = TokenBuckets(Rate.a_minute(settings.usage_reads_per_tenant_per_minute))
        self._running = Counter[str]()

    def read(self, tenant: str) -> None:
        """Count a tenant's page. Raises Refused (rate_limited)."""
        after_ms = self._reads.take(tenant)
        if after_ms:
            raise _refused(ErrorCode.RATE_LIMITED, "too many pages of usage", after_ms)

    @contextmanager
    def turn(self, tenant: str) -> Generator[None]:
        """Hold a place for a read in the database. Raises Refused where too many run: of this tenant
        (rate_limited), or of all (overloaded). Half of the places are for tenants that have none."""
        running, most = self._running.total(), self._settings.usage_reads_max
        is_more_than_its_share = self._running[tenant] and running + 1 > most - max(1, most // 2)
        if is_more_than_its_share or self._running[tenant] >= self._settings.usage_reads_per_tenant_max:
            raise _refused(ErrorCode.RATE_LIMITED, "too many reads of usage at once", AFTER_MS)
        if running >= most:
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


@dataclass
class _OfKey:
    """One key's hour: questions with a row, and the number of reads since the last row."""

    began: float
    questions: set[bytes] = field(default_factory=set[bytes])
    further: int = 0


class RecordedReads:
    """Reads that are in the audit log, by key. A forgotten one is recorded again."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._keys: OrderedDict[str, _OfKey] = OrderedDict()

    def has(self, key: str, question: bytes) -> bool:
        """True where it was recorded within the hour, or the key has all its rows; counts the read then."""
        hour = self._hour(key)
        if question not in hour.questions and len(hour.questions) < ROWS_AN_HOUR:
            return False
        hour.further += 1
        return True

    def beside(self, key: str) -> dict[str, int | bool]:
        """Facts of the key's next row beside its question: the number of reads since the last row; whether it
        is the last row of the hour."""
        hour = self._hour(key)
        last = len(hour.questions) + 1 >= ROWS_AN_HOUR
        return {"further": hour.further} | ({"last_of_the_hour": True} if last else {})

    def add(self, key: str, question: bytes) -> None:
        """Note a recorded question."""
        hour = self._hour(key)
        hour.questions.add(question)
        hour.further = 0

    def _hour(self, key: str) -> _OfKey:
        now = self._clock()
        hour = self._keys.setdefault(key, _OfKey(now))
        self._keys.move_to_end(key)
        if hour.began + RECORDED_SECONDS <= now:
            hour.began = now
            hour.questions.clear()
        if len(self._keys) > RECORDED_KEYS_MAX:
            self._keys.popitem(last=False)
        return hour

"""Turns at sending files: each reads the database for as long as its receiver takes, so few are sent at
once. The last turn is for a tenant that has none."""

from collections import Counter
from collections.abc import Callable

from core.errors import Refusal, Refused

AT_ONCE_MAX = 4  # of one process
OF_TENANT_MAX = 2
AFTER_MS = 5_000


class FileTurns:
    """Files that one process sends now, by tenant."""

    def __init__(self) -> None:
        self._sent: Counter[str] = Counter()

    def take(self, tenant_id: str) -> Callable[[], None]:
        """Take a turn; return what gives it back, once. Raises Refused where there is none now."""
        own = self._sent[tenant_id]
        left = AT_ONCE_MAX - self._sent.total() - (1 if own else 0)
        if own >= OF_TENANT_MAX or left <= 0:
            told = "other files are being sent: wait until one is there"
            raise Refused(Refusal("rate_limited", told, retry=True, after_ms=AFTER_MS))
        self._sent[tenant_id] += 1
        open_turns = [tenant_id]

        def give_back() -> None:
            while open_turns:
                self._sent[open_turns.pop()] -= 1
                self._sent += Counter()  # forgets those without one

        return give_back

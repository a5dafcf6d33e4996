"""Reads that the audit log has of late: a page that reads the same thing every few seconds is one row."""

from core.clock import monotonic

AGAIN_SECONDS = 600.0
KNOWN_MAX = 10_000

Read = tuple[str, str, str, str]  # who, whose chain, the action, of what


class RecentReads:
    """Reads of one process."""

    def __init__(self) -> None:
        self._known: dict[Read, float] = {}

    def is_new(self, read: Read) -> bool:
        """True where the read is to be recorded: nobody has for AGAIN_SECONDS."""
        now, before = monotonic(), self._known.get(read)
        return before is None or now - before > AGAIN_SECONDS

    def note(self, read: Read) -> None:
        """Remember a read that is recorded. The oldest is forgotten where there are KNOWN_MAX."""
        self._known.pop(read, None)
        self._known[read] = monotonic()
        if len(self._known) > KNOWN_MAX:
            del self._known[next(iter(self._known))]

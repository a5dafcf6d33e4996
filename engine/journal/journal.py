"""The journal of one process: ends as they come, on the disk a moment later, beside what the process does.

A disk that is full, a folder that cannot be written, a journal at its bound: it is said loudly, the last ends
are tried again, and nothing else stops.
"""

import asyncio
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from core.configuration.settings import Settings
from core.observability.error_facts import error_summary
from core.observability.telemetry import RepeatedWarning, logger
from core.runtime.failed_rounds import logged_failures
from engine import instruments
from engine.journal.end_counts import EndCounts
from engine.journal.files import FOLDER, JournalFullError, JournalSegments
from engine.queue.journaled_ends import JournaledEnd, frame

log = logger(__name__)
seldom = RepeatedWarning(log)

TICK_SECONDS = 1.0
WAITING_MAX = 4_096  # that are tried again while the disk takes nothing
MIB = 1 << 20


def make_journal(settings: Settings, pool: str, owner: str) -> "Journal | None":
    """None where it is switched off."""
    if not settings.journal_mib_max:
        return None
    return Journal(settings.home / FOLDER, pool, owner, settings.journal_mib_max * MIB)


class Journal:
    """Ends of one pool. `owner`: a name that no other process has. `run` writes them, in its own task."""

    def __init__(self, folder: Path, pool: str, owner: str, bytes_max: int) -> None:
        self.folder = folder
        self.pool = pool
        self.owner = owner
        self.counted = EndCounts()
        self._segments = JournalSegments(folder, pool, owner, bytes_max)
        self._waiting: list[JournaledEnd] = []
        self._under_way: list[JournaledEnd] = []
        self._more = asyncio.Event()
        self._writing = threading.Lock()

    def add(self, end: JournaledEnd) -> None:
        """To be on the disk soon. Never blocks, never fails."""
        self.counted.add(end)
        self._waiting.append(end)
        if len(self._waiting) > WAITING_MAX:
            del self._waiting[0]
            instruments.journal_lost.add(1)
            seldom.warning("journal.write_failed", consequence="these ends are in no journal", pool=self.pool)
        self._more.set()

    async def keep(self, ends: Sequence[JournaledEnd]) -> bool:
        """Put them on the disk now; whether they are."""
        return await asyncio.to_thread(self._write, list(ends))

    async def run(self) -> None:
        """For ever; what waits when it is cancelled is written before it ends."""
        try:
            while True:
                with suppress(TimeoutError):
                    async with asyncio.timeout(TICK_SECONDS):
                        await self._more.wait()
                self._more.clear()
                with logged_failures(seldom, "journal.run_failed", pool=self.pool):
                    await self._flush()
        finally:
            # A write that was cancelled may not have begun; what it wrote may then stand there twice.
            self._write([*self._under_way, *self._waiting])
            with self._writing:
                self._segments.close()

    async def _flush(self) -> None:
        """All that came meanwhile in one write. What the disk does not take waits for the next time."""
        self._under_way, self._waiting = self._waiting, []
        if not await asyncio.to_thread(self._write, self._under_way):
            self._waiting = [*self._under_way, *self._waiting][-WAITING_MAX:]
        self._under_way = []

    def _write(self, ends: list[JournaledEnd]) -> bool:
        """Whether they are on the disk now. In a thread."""
        try:
            with self._writing:
                self._segments.tick()
                if ends:
                    self._segments.write([frame(end) for end in ends])
        except (OSError, JournalFullError) as error:
            why = "full" if isinstance(error, JournalFullError) else "disk"
            instruments.journal_failures.add(1, {"reason": why})
            seldom.warning(
                "journal.ends_dropped",
                consequence="lost unbilled if Redis is lost now",
                why=why,
                error=error_summary(error),
            )
            return False
        instruments.journal_written.add(len(ends))
        return True

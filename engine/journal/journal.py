"""The journal of one process: its ends, written to disk a moment after they happen, in a task of its own.

A full disk, an unwritable folder or a full journal is logged, the last ends are tried again, and nothing else
stops.
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
repeated = RepeatedWarning(log)

TICK_SECONDS = 1.0
WAITING_MAX = 4_096  # ends that are tried again while the disk takes nothing
MIB = 1 << 20


def make_journal(settings: Settings, pool: str, owner: str) -> "Journal | None":
    """The journal of a process; None where the setting switches it off."""
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
        self._being_written: list[JournaledEnd] = []
        self._more = asyncio.Event()
        self._write_lock = threading.Lock()

    def add(self, end: JournaledEnd) -> None:
        """Write an end soon. Never blocks, never fails."""
        self.counted.add(end)
        self._waiting.append(end)
        if len(self._waiting) > WAITING_MAX:
            del self._waiting[0]
            instruments.journal_lost.add(1)
            repeated.warning(
                "journal.write_failed", consequence="these ends are in no journal", pool=self.pool
            )
        self._more.set()

    async def keep(self, ends: Sequence[JournaledEnd]) -> bool:
        """Write ends to the disk now; True where that worked."""
        return await asyncio.to_thread(self._write, list(ends))

    async def run(self) -> None:
        """Write for ever; on cancellation writes what still waits."""
        try:
            while True:
                with suppress(TimeoutError):
                    async with asyncio.timeout(TICK_SECONDS):
                        await self._more.wait()
                self._more.clear()
                with logged_failures(repeated, "journal.run_failed", pool=self.pool):
                    await self._flush()
        finally:
            # A cancelled write may or may not have begun, so its ends may stand in the file twice.
            self._write([*self._being_written, *self._waiting])
            with self._write_lock:
                self._segments.close()

    async def _flush(self) -> None:
        """Write all that came meanwhile at once. Ends that the disk refuses are tried again."""
        self._being_written, self._waiting = self._waiting, []
        if not await asyncio.to_thread(self._write, self._being_written):
            self._waiting = [*self._being_written, *self._waiting][-WAITING_MAX:]
        self._being_written = []

    def _write(self, ends: list[JournaledEnd]) -> bool:
        """Write ends; True where they are on the disk. Called in a thread."""
        try:
            with self._write_lock:
                self._segments.tick()
                if ends:
                    self._segments.write([frame(end) for end in ends])
        except (OSError, JournalFullError) as error:
            why = "full" if isinstance(error, JournalFullError) else "disk"
            instruments.journal_failures.add(1, {"reason": why})
            repeated.warning(
                "journal.ends_dropped",
                consequence="lost unbilled if Redis is lost now",
                why=why,
                error=error_summary(error),
            )
            return False
        instruments.journal_written.add(len(ends))
        return True

"""Drops a pool's journal files that the biller has acknowledged, and brings back ends of them that Redis
lost.

Runs where workers' files are: in their supervisor, or in a worker that has none. A file in doubt is kept, and
an end that is brought back is in our own journal before its old file goes.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from redis.exceptions import RedisError

from core.observability.error_facts import error_facts, error_summary
from core.observability.telemetry import RepeatedWarning, logger
from core.redis.unreadable import Unreadable
from core.runtime.failed_rounds import is_store_down, logged_failures
from engine import instruments
from engine.journal.end_counts import publish
from engine.journal.files import ClosedSegment, closed_paths, taken
from engine.journal.journal import Journal
from engine.journal.verdict import Id, SegmentVerdict, last_ids, split_ends, verdict
from engine.queue.client import PoolQueue
from engine.queue.journaled_ends import JournalContents, JournaledEnd, contents
from engine.queue.types import ReplayCode, Watermark

log = logger(__name__)
repeated = RepeatedWarning(log)

LOOK_SECONDS = 2.0
REPLAYED_AT_ONCE = 100
MEMORIES_MAX = 16


class JournalKeeper:
    """Tends the files of `journal`'s folder and pool. `journal` takes the ends that are brought back."""

    def __init__(self, queue: PoolQueue, journal: Journal) -> None:
        self._queue = queue
        self._journal = journal
        self._before: dict[str, Id] = {}
        self._last: dict[Path, dict[str, Id]] = {}  # of files that were read; a closed one never changes

    async def run(self) -> None:
        """Look for ever."""
        while True:
            with logged_failures(log, "journal.keeper_failed", pool=self._queue.pool):
                try:
                    await self.once()
                except (RedisError, OSError) as error:
                    repeated.warning("journal.keeper_failed", error=error_summary(error))
            await asyncio.sleep(LOOK_SECONDS)

    async def once(self) -> None:
        """Publish this process' own counts, then look at every closed file."""
        await publish(self._queue.redis, self._queue.pool, self._journal.owner, self._journal.counted)
        now = await self._queue.ends()
        paths = await asyncio.to_thread(closed_paths, self._journal.folder, self._queue.pool)
        for gone in self._last.keys() - set(paths):
            del self._last[gone]
        for path in paths:
            known = self._last.get(path)
            if known is None or verdict(known, now, self._before) is not SegmentVerdict.WAITS:
                with taken(path) as closed:
                    if closed is not None:
                        await self._tend_alone(closed, now)
        self._before[now.memory] = now.below
        while len(self._before) > MEMORIES_MAX:
            del self._before[next(iter(self._before))]

    async def _tend_alone(self, closed: ClosedSegment, now: Watermark) -> None:
        """Tend one file; its failure does not keep the others from being tended."""
        try:
            await self._tend(closed, now)
        except Exception as error:
            if isinstance(error, RedisError) and is_store_down(error):
                raise
            repeated.warning("journal.segment_failed", file=closed.path.name, **error_facts(error))

    async def _tend(self, closed: ClosedSegment, now: Watermark) -> None:
        found = await asyncio.to_thread(lambda: contents(closed.read()))  # others need this loop
        if isinstance(found, Unreadable):
            log.error("journal.segment_set_aside", file=closed.path.name, why=str(found))
            instruments.journal_damaged.add(1)
            await asyncio.to_thread(closed.set_aside)
            return
        self._last[closed.path] = last_ids(found.ends)
        match verdict(self._last[closed.path], now, self._before):
            case SegmentVerdict.WAITS:
                return
            case SegmentVerdict.LOST:
                if not await self._bring_back(found.ends, now):
                    return
            case SegmentVerdict.DONE:
                pass
        self._log_damage(closed, found)
        await asyncio.to_thread(closed.drop)

    async def _bring_back(self, ends: Sequence[JournaledEnd], now: Watermark) -> bool:
        """Bring back lost ends; True where all that still matters of a file is in our own journal now."""
        sorted_ = split_ends(ends, now, self._before)
        kept, became = list(sorted_.waiting), Counter[str]()
        for first in range(0, len(sorted_.lost), REPLAYED_AT_ONCE):
            asked = sorted_.lost[first : first + REPLAYED_AT_ONCE]
            for end, (code, at) in zip(asked, await self._queue.replay(asked), strict=True):
                became[code.value] += 1
                moved = JournaledEnd(end.tenant, end.request, at.memory, at.id, end.event)
                kept.append(end if code is ReplayCode.OPEN else moved)
                if code is ReplayCode.PUT:
                    log.warning(
                        "journal.end_replayed", tenant=end.tenant, id=end.request, pool=self._queue.pool
                    )
        if not await self._journal.keep(kept):
            return False
        for code, count in became.items():
            instruments.journal_replayed.add(count, {"outcome": code})
        if became[ReplayCode.PUT]:
            log.warning("journal.ends_replayed", pool=self._queue.pool, **became)
        return True

    def _log_damage(self, closed: ClosedSegment, found: JournalContents) -> None:
        """Log damage. A torn end is what a crash leaves; any other is the disk's, or somebody's edit."""
        if found.damaged:
            instruments.journal_damaged.add(1)
            log.error(
                "journal.segment_damaged", file=closed.path.name, bytes=found.damaged, ends=len(found.ends)
            )

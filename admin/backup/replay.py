"""Puts the ends of journals back into the pools' streams, those of the backup and of the home, wherever a
stream lacks them. The biller bills each request once.
"""

import asyncio
import stat
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from core.configuration.settings import Settings
from core.errors import StartupError
from core.redis.client import RedisClient
from core.redis.unreadable import Unreadable
from engine.api import (
    JOURNAL_BYTES_MAX,
    JOURNAL_SUFFIX,
    JournalContents,
    PoolQueue,
    ReplayCode,
    journal_contents,
    pool_of_journal,
    taken_journal,
)

AT_ONCE = 100


@dataclass
class ReplayedEnds:
    """Outcome of the journals. `read`: their ends; `put`: events put into streams; `running`: ends by tenant
    whose requests still run by Redis; `damaged`: files of which not all could be read."""

    read: int = 0
    put: int = 0
    running: Counter[str] = field(default_factory=Counter[str])
    damaged: list[str] = field(default_factory=list[str])


def journals_in(*folders: Path) -> list[Path]:
    """The journal files of these folders, those that exist."""
    found = (path for folder in folders for path in sorted(folder.glob(f"*{JOURNAL_SUFFIX}")))
    return [path for path in found if stat.S_ISREG(path.lstat().st_mode)]


def pools_of(paths: Iterable[Path]) -> set[str]:
    """The pools that journals are of."""
    return {pool_of_journal(path) for path in paths}


def require_unlocked(paths: Sequence[Path]) -> None:
    """Raise StartupError where a process still writes one of these files."""
    for path in paths:
        with taken_journal(path) as closed:
            if closed is None and path.exists():
                raise StartupError(
                    f"a process still writes {path}: stop every gateway, worker and supervisor first"
                )


async def replay_journals(redis: RedisClient, settings: Settings, paths: Sequence[Path]) -> ReplayedEnds:
    """Put back what the streams lack. A file that cannot be read is named, and stays where it is."""
    done = ReplayedEnds()
    for path in paths:
        found = await asyncio.to_thread(_read, path)
        if isinstance(found, Unreadable) or found.damaged:
            done.damaged.append(str(path))
        if isinstance(found, Unreadable):
            continue
        queue = PoolQueue(redis, pool_of_journal(path), settings)
        for first in range(0, len(found.ends), AT_ONCE):
            ends = found.ends[first : first + AT_ONCE]
            done.read += len(ends)
            for end, (code, _) in zip(ends, await queue.replay(ends, again=True), strict=True):
                done.put += code is ReplayCode.PUT
                if code is ReplayCode.OPEN:
                    done.running[end.tenant] += 1
    return done


def _read(path: Path) -> JournalContents | Unreadable:
    if path.stat().st_size > JOURNAL_BYTES_MAX:
        return Unreadable("journal", "it is too large")
    return journal_contents(path.read_bytes())

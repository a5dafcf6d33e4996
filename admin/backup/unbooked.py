"""Copies ended requests that may not be in the books yet: events in Redis that no biller has acknowledged,
and this machine's journals. Reads only.

It comes before the database's copy, and Redis before the journals: an end goes from Redis into the books, and
from a journal into Redis and another journal. So it is in the backup once at least, and billed once.
"""

import asyncio
import errno
import os
import stat
from collections import defaultdict
from collections.abc import AsyncGenerator, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sqlmodel.ext.asyncio.session import AsyncSession

from admin.backup.archive import failing_disk
from admin.backup.manifest import UnbookedEnds
from billing.api import billed_or_held, unacknowledged_events
from billing.usage import read_event
from core.configuration.settings import Settings
from core.errors import StartupError
from core.redis import redis_errors
from core.redis.client import RedisClient
from core.redis.pools import announced_pools
from core.redis.unreadable import Unreadable
from core.sql.store_errors import redis_failure
from engine.api import (
    JOURNAL_BYTES_MAX,
    JOURNAL_SUFFIX,
    PAYLOAD_BYTES_MAX,
    JournalContents,
    JournaledEnd,
    JournalSegments,
    PoolQueue,
    journal_contents,
    journal_frame,
    pool_of_journal,
)

OWNER = "backup"
FRAMES_AT_ONCE = 500
ASKED_AT_ONCE = 500
PASSES_MAX = 20
NO_BOUND = 1 << 62
WRITING = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
UNREADABLE = ".unreadable"

RequestName = tuple[str, str]  # tenant and request; of an event that cannot be read both are empty
RequestsByPool = dict[str, set[RequestName]]


@dataclass
class CopiedEnds:
    """Ended requests that were copied, by pool. `unread`: pools whose events could not be read; `warnings`:
    sentences for people."""

    pools: set[str] = field(default_factory=set[str])
    redis: RequestsByPool = field(default_factory=lambda: defaultdict(set))
    journals: RequestsByPool = field(default_factory=lambda: defaultdict(set))
    unread: set[str] = field(default_factory=set[str])
    warnings: list[str] = field(default_factory=list[str])


async def copy_ends(settings: Settings, redis: RedisClient, journals: Path, folder: Path) -> CopiedEnds:
    """Copy events and journals into a folder. Redis may be away: `warnings` says so. Raises StartupError."""
    found = CopiedEnds(pools={settings.pool})
    try:
        found.pools |= await announced_pools(redis, settings)
        for pool in sorted(found.pools):
            await _copy_events(settings, redis, pool, folder, found)
    except (redis_errors.RedisError, OSError) as error:
        found.unread |= found.pools
        found.warnings.append(
            f"ENDED REQUESTS THAT WAIT IN REDIS ARE NOT IN THIS BACKUP: {redis_failure(error, settings)}. "
            "Make another one once that is mended"
        )
    await asyncio.to_thread(_copy_journals, journals, folder, found)
    found.pools |= found.journals.keys()
    return found


async def unbooked(session: AsyncSession, ends: CopiedEnds) -> list[UnbookedEnds]:
    """Counts of those that the copied database does not know, by pool."""
    found: list[UnbookedEnds] = []
    for pool in sorted(ends.pools):
        redis = None if pool in ends.unread else await _unknown(session, ends.redis[pool])
        journals = await _unknown(session, ends.journals[pool])
        if redis is None or redis or journals:
            found.append(UnbookedEnds(pool, redis, journals))
    return found


async def _unknown(session: AsyncSession, requests: Iterable[RequestName]) -> int:
    by_tenant: dict[str, list[str]] = defaultdict(list)
    for tenant, request in requests:
        by_tenant[tenant].append(request)
    count = 0
    for tenant, ids in by_tenant.items():
        for at in range(0, len(ids), ASKED_AT_ONCE):
            asked = ids[at : at + ASKED_AT_ONCE]
            count += len(asked) - len(await billed_or_held(session, tenant, asked))
    return count


async def _copy_events(
    settings: Settings, redis: RedisClient, pool: str, folder: Path, found: CopiedEnds
) -> None:
    """Write a pool's events as a journal. A pool whose keys are not what they should be is told of; the
    others go on."""
    segments = JournalSegments(folder, pool, OWNER, NO_BOUND)
    too_large = 0
    try:
        async for ends in _in_pages(settings, redis, pool):
            fit = [end for end in ends if len(end.event) <= PAYLOAD_BYTES_MAX - FRAMES_AT_ONCE]
            too_large += len(ends) - len(fit)
            found.redis[pool].update((end.tenant, end.request) for end in fit)
            with failing_disk(folder):
                await asyncio.to_thread(segments.write, [journal_frame(end) for end in fit])
    except redis_errors.ResponseError as error:
        found.unread.add(pool)
        found.warnings.append(
            f"ended requests of the pool {pool} that wait in Redis are not in this backup: "
            f"{redis_failure(error, settings)}"
        )
    finally:
        await asyncio.to_thread(segments.close)
    if too_large:
        found.warnings.append(
            f"{too_large} events of the pool {pool} are too large for a biller, and left out"
        )


async def _in_pages(
    settings: Settings, redis: RedisClient, pool: str
) -> AsyncGenerator[Sequence[JournaledEnd]]:
    page: list[JournaledEnd] = []
    memory = ""
    async for id, data in unacknowledged_events(redis, pool):
        if not memory:
            memory = (await PoolQueue(redis, pool, settings).ends()).memory
        event = read_event(data)
        tenant, request = ("", "") if isinstance(event, Unreadable) else (event.tenant, event.request)
        page.append(JournaledEnd(tenant, request, memory, id, data))
        if len(page) == FRAMES_AT_ONCE:
            yield page
            page = []
    if page:
        yield page


def _copy_journals(source: Path, folder: Path, found: CopiedEnds) -> None:
    """Copy all journals as they are. A keeper moves ends from one file to another: where a file went
    meanwhile, what grew or came is copied too."""
    copied: dict[str, tuple[Path, int]] = {}
    for _ in range(PASSES_MAX):
        whole = True
        for path in _journal_paths(source):
            try:
                whole &= _copy_journal(path, folder, copied)
            except OSError as error:
                found.warnings.append(f"the journal {path} is not in this backup: {error.strerror}")
                copied[path.name] = path, -1
        if whole:
            break
    for name, (path, size) in copied.items():
        if size >= 0 and name.endswith(JOURNAL_SUFFIX):
            contents = journal_contents(path.read_bytes())
            if isinstance(contents, JournalContents):
                found.journals[pool_of_journal(path)].update(
                    (end.tenant, end.request) for end in contents.ends
                )


def _copy_journal(path: Path, folder: Path, copied: dict[str, tuple[Path, int]]) -> bool:
    """Copy one file, unless it is copied and did not grow; False where it is gone. Raises OSError where it
    cannot be read, StartupError where the copy cannot be written."""
    target, before = copied.get(path.name, (None, None))
    if before == -1:
        return True
    try:
        opened = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        facts = os.fstat(opened)
        if not stat.S_ISREG(facts.st_mode) or facts.st_size > JOURNAL_BYTES_MAX:
            raise OSError(errno.EFBIG, "it is no file of a journal, or too large for one")
        if facts.st_size == before:
            return True
        with os.fdopen(opened, "rb", closefd=False) as file:
            data = file.read(JOURNAL_BYTES_MAX)
    finally:
        os.close(opened)
    target = target or _free_name(folder, path.name)
    with failing_disk(folder), os.fdopen(os.open(target, WRITING, 0o600), "wb") as made:
        made.write(data)
    copied[path.name] = target, facts.st_size
    return True


def _journal_paths(folder: Path) -> list[Path]:
    """Files of all pools, those that a keeper set aside too."""
    try:
        with os.scandir(folder) as entries:
            names = sorted(each.name for each in entries if each.name.endswith((JOURNAL_SUFFIX, UNREADABLE)))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StartupError(f"cannot read {folder}: {error.strerror}") from error
    return [folder / name for name in names]


def _free_name(folder: Path, name: str) -> Path:
    """The name, or one like it where an earlier backup's journal, which was restored, has it."""
    stem, dot, suffix = name.rpartition(".")
    names = (f"{stem}{more}{dot}{suffix}" for more in ("", *(f"-{number}" for number in range(2, 1 << 20))))
    return next(path for path in map(folder.joinpath, names) if not path.exists())

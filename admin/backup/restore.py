"""Restores a backup into an empty database, and makes Redis, whether it survived or not, fit the books.

Each step may be repeated, so a restore that was killed is run again with the same backup.
"""

import asyncio
import hashlib
import os
import shutil
from collections.abc import AsyncGenerator, Callable, Collection, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec
from redis.exceptions import RedisError

from admin.backup import archive, manifest, postgres_tools
from admin.backup.manifest import CopiedHead, Manifest, read_manifest
from admin.backup.redis_marks import (
    counted_sums,
    forget_lost_counts,
    is_shared,
    rewind_streams,
    tenants_counted,
)
from admin.backup.replay import ReplayedEnds, journals_in, pools_of, replay_journals, require_unlocked
from admin.backup.restore_checks import (
    home_locked,
    is_empty,
    keep_secret,
    kept_as_it_was,
    not_empty,
    require_fit,
    require_stopped,
    require_whole,
)
from admin.backup.restore_loss import explained_hours, in_no_book, lost_requests
from admin.backup.restore_mark import CountedBefore, RestoreMark, read_mark, remove_mark, write_mark
from admin.backup.restore_report import RestoreReport
from billing.api import (
    Check,
    Comparison,
    ComparisonState,
    Reconciliation,
    list_tenants,
    push_limits,
    read_heads,
    record_restore,
    require_heads,
    rollbacks_of,
)
from billing.shared_commands import (
    EVERYTHING,
    Biller,
    DrainedStreams,
    booked_sums,
    chain_ends,
    ended_hours_since,
    held_by_tenant,
    restored_faults,
)
from core.clock import monotonic
from core.configuration.settings import Settings
from core.errors import Refused, StartupError
from core.redis.client import RedisClient, connect
from core.redis.pools import announced_pools
from core.runtime.embedded import EmbeddedValkey, ensure_home
from core.sql.database import Database, database_url, migrate, shown_url
from core.sql.store_errors import redis_failure
from engine.api import JOURNALS_FOLDER

CAUSE = "restored from a backup"
UNSWEPT = "nobody has swept since the restore: supervisors and gateways close these"
Say = Callable[[str], None]


@dataclass
class Restore:
    """One run of a restore. `heads`: files of heads kept elsewhere, empty: those of the settings."""

    settings: Settings
    folder: Path
    heads: Sequence[Path]
    say: Say
    manifest: Manifest
    mark: RestoreMark
    seconds: dict[str, float] = field(default_factory=dict[str, float])

    @contextmanager
    def timed(self, step: str, words: str) -> Generator[None]:
        """Say what begins, and keep how long it took."""
        self.say(words)
        began = monotonic()
        yield
        self.seconds[step] = round(monotonic() - began, 2)

    def marked(self, **facts: object) -> None:
        """Write how far it is."""
        self.mark = write_mark(self.settings.home, msgspec.structs.replace(self.mark, **facts))


async def restore(source: Path, settings: Settings, heads: Sequence[Path], say: Say) -> RestoreReport:
    """Restore a backup, a folder or .tar file, into the database and home of the settings. Raises
    StartupError where that is not possible."""
    with (
        kept_as_it_was(settings.home),
        home_locked(settings.home),
        archive.opened(source, settings.home) as folder,
    ):
        found = read_manifest(folder)
        require_fit(found, settings)
        say(f"reading the backup: {sum(each.bytes for each in found.files) >> 20} MiB")
        await asyncio.to_thread(require_whole, folder, found)
        require_heads(settings, heads)
        list(read_heads(settings, heads))  # one that cannot be read is told now
        digest = hashlib.sha256((folder / manifest.FILE).read_bytes()).hexdigest()
        mark = await _begun(settings, found, digest)
        await asyncio.to_thread(ensure_home, settings)
        run = Restore(settings, folder, heads, say, found, mark)
        async with _redis(settings) as redis:
            return await _run(run, redis)


async def _begun(settings: Settings, found: Manifest, digest: str) -> RestoreMark:
    """The mark of this restore, also of one that was killed. StartupError where the place is not empty."""
    mark = read_mark(settings.home)
    if mark is not None and mark.backup_sha256 != digest:
        raise StartupError(
            "a restore of another backup did not end here: restore that one again, or empty the database "
            "and the home"
        )
    empty = await is_empty(settings)
    if not empty and (mark is None or not await _holds(settings, found.heads)):
        raise await not_empty(settings, digest)
    if empty and mark is not None and mark.placed:
        raise StartupError("the database that was being restored is gone: empty the home, and begin again")
    return mark or RestoreMark(digest)


async def _holds(settings: Settings, heads: Sequence[CopiedHead]) -> bool:
    """True where the database has all chains of the backup, at least as long."""
    await migrate(settings.database_endpoint)
    db = Database(settings.database_endpoint)
    try:
        ends = await chain_ends(db, settings)
        return all(ends.get((head.chain, head.tenant), 0) >= head.sequence for head in heads)
    finally:
        await db.close()


async def _run(run: Restore, redis: RedisClient) -> RestoreReport:
    settings, home = run.settings, run.settings.home
    own = journals_in(home / JOURNALS_FOLDER)
    require_unlocked(own)
    paths = [*journals_in(run.folder / manifest.ENDS_FOLDER), *own]
    pools = {settings.pool, *await announced_pools(redis, settings), *pools_of(paths)}
    pools |= {each.pool for each in run.manifest.unbooked}
    if settings.redis_url:
        await require_stopped(redis, settings, pools)
    keep_secret(run.folder, settings)
    run.marked()
    if not run.mark.placed:
        with run.timed("database", "putting the database in place"):
            await _place(run)
    await migrate(settings.database_endpoint)
    run.marked(placed=True)
    db = Database(settings.database_endpoint)
    try:
        report = await _fit(run, db, redis, sorted(pools), paths)
    finally:
        await db.close()
    remove_mark(home)
    return report


async def _place(run: Restore) -> None:
    """Put the database in place, all or nothing."""
    endpoint, file = run.settings.database_endpoint, run.folder / run.manifest.database.file
    if not await is_empty(run.settings):
        return  # placed by one that was killed right then
    if run.manifest.database.kind == "sqlite":
        await asyncio.to_thread(_copy, file, Path(database_url(endpoint).database or ""))
        return
    db = Database(endpoint)
    try:
        version, folder = await postgres_tools.server_facts(db)
    finally:
        await db.close()
    tools = await asyncio.to_thread(
        postgres_tools.find_tools, run.settings, version, folder, run.manifest.database.tool
    )
    await postgres_tools.put_back(endpoint, tools, file, run.settings.home)


def _copy(source: Path, target: Path) -> None:
    """Copy a file under another name, and give it its own once it is on the disk."""
    draft = target.with_name(f"{target.name}.restoring")
    draft.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    opened = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(opened, "wb") as written, source.open("rb") as read:
        shutil.copyfileobj(read, written, manifest.CHUNK_BYTES)
        written.flush()
        os.fsync(written.fileno())
    draft.rename(target)
    archive.sync(target.parent)


async def _fit(
    run: Restore, db: Database, redis: RedisClient, pools: Sequence[str], paths: Sequence[Path]
) -> RestoreReport:
    """Make Redis fit the books, bill what it and journals have, record the restore, and check everything."""
    settings = run.settings
    names = {each.tenant_id: each.name for each in await list_tenants(db)}
    tenants = sorted(names)
    if run.mark.counted is None:
        counted = {*tenants, *await tenants_counted(redis, settings)}
        run.marked(counted=await counted_sums(redis, counted))
    with run.timed("redis", "making the counts in Redis fit the books"):
        await forget_lost_counts(db, redis, settings, tenants, run.say)
        await rewind_streams(redis, settings, pools)
    with run.timed("ends", "billing what ended: streams and journals"):
        replayed = await replay_journals(redis, settings, paths)
        drained = await Biller(db, redis, settings, pools).drain()
    with run.timed("repair", "counting the tenants' sums anew"):
        unrepaired = await _repair(run, db, redis, tenants)
    rolled_back = await _record(run, db)
    report = await _checked(run, db, redis, replayed, drained, names)
    return msgspec.structs.replace(
        report, rolled_back=rolled_back, differences=[*unrepaired, *report.differences]
    )


async def _repair(run: Restore, db: Database, redis: RedisClient, tenants: Sequence[str]) -> list[str]:
    """Set every tenant's sums in Redis to the books', which are proved afterwards; return whose could not
    be."""
    reconciliation, failed = Reconciliation(db, redis, run.settings), list[str]()
    for tenant in tenants:
        try:
            await reconciliation.set_sums(tenant, CAUSE)
        except Refused as refused:
            failed.append(f"R4 of {tenant}: {refused.refusal.message}")
        await push_limits(db, redis, tenant)
    return failed


async def _record(run: Restore, db: Database) -> int:
    """Write the audit row, once; return the number of chains that kept heads show to be taken back."""
    rollbacks = rollbacks_of(run.manifest.heads, read_heads(run.settings, run.heads))
    if not run.mark.recorded:
        made_ms, digest = run.manifest.made_ms, run.mark.backup_sha256
        await record_restore(db, run.settings, made_ms, digest, rollbacks)
        run.marked(recorded=True)
    return len(rollbacks)


async def _checked(
    run: Restore,
    db: Database,
    redis: RedisClient,
    replayed: ReplayedEnds,
    drained: DrainedStreams,
    names: dict[str, str],
) -> RestoreReport:
    counted = run.mark.counted or {}
    held = await held_by_tenant(db)
    missing = in_no_book(
        names, held, replayed.running, lost_requests(counted, await _booked(db, redis, names, counted), held)
    )
    with run.timed("verify", "verifying all books and changes"):
        faults = await restored_faults(db, run.settings, run.heads)
    with run.timed("reconcile", "comparing the books"):
        reconciliation = Reconciliation(db, redis, run.settings)
        compared = await reconciliation.run(EVERYTHING, whole=True)
    hours = await ended_hours_since(db, await reconciliation.pools(), run.manifest.made_ms)
    explained = explained_hours(hours, missing, bool(counted))
    subjects = {compared.subject for each in explained for compared in each.compared()}
    differing = [each for each in map(_judged, compared) if _differs(each)]
    follows = [each for each in differing if each.check is Check.R5 and each.subject in subjects]
    return RestoreReport(
        backup_sha256=run.mark.backup_sha256,
        made_ms=run.manifest.made_ms,
        home=run.settings.home,
        database=shown_url(database_url(run.settings.database_endpoint)),
        tenants=len(names),
        redis_survived=bool(counted),
        redis_shared=await is_shared(redis, run.settings),
        replayed=replayed.put,
        billed=drained.posted.total(),
        known=drained.repeated,
        strangers={who: count for who, count in drained.posted.items() if who not in names},
        in_no_book=missing,
        damaged_journals=replayed.damaged,
        rolled_back=0,
        models=run.manifest.models,
        faults=faults,
        differences=[_shown(each) for each in differing if each not in follows],
        following=[f"{_shown(each)}: it follows from what is lost" for each in follows],
        following_until_ms=max((each.looked_at_until_ms for each in explained), default=0),
        seconds=run.seconds,
    )


async def _booked(
    db: Database, redis: RedisClient, names: Mapping[str, str], counted: Collection[str]
) -> dict[str, CountedBefore]:
    """Sums by the books: in Redis for tenants that there are, where they are repaired; else in SQL."""
    booked = await counted_sums(redis, sorted(names))
    for tenant in sorted(set(counted) - set(names)):
        sums = await booked_sums(db, tenant)
        booked[tenant] = CountedBefore(sums["requests"], sums["cost_nano"], sums["output"])
    return booked


def _judged(compared: Comparison) -> Comparison:
    """Holds of answers that a stop ended are closed by supervisors, which do not run yet."""
    return (
        replace(compared, waiting=UNSWEPT) if compared.check is Check.R8 and compared.difference else compared
    )


def _differs(compared: Comparison) -> bool:
    return compared.state is ComparisonState.DIFFERS


def _shown(compared: Comparison) -> str:
    expected, actual = compared.in_words(compared.expected), compared.in_words(compared.actual)
    return f"{compared.check.value} {compared.subject} {compared.tenant_id}: {expected}, and it is {actual}"


@asynccontextmanager
async def _redis(settings: Settings) -> AsyncGenerator[RedisClient]:
    """A client of the Redis of the settings, else of the home's own Valkey, which ends with the block."""
    valkey = None if settings.redis_url else EmbeddedValkey(settings)
    try:
        if valkey is not None:
            await valkey.start()
        client = connect(settings)
        try:
            try:
                await client.ping()
            except (RedisError, OSError) as error:
                raise redis_failure(error, settings) from error
            yield client
        finally:
            await client.aclose()
    finally:
        if valkey is not None:
            await valkey.stop()

"""A backup of a running installation: one state of the books, each ended request at least once, whole or not
there."""

import asyncio
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from admin.backup import backup as backups
from admin.backup import unbooked
from admin.backup.archive import opened
from admin.backup.backup import BackupCall
from admin.backup.commands import backup_command
from admin.backup.manifest import CopiedHead, UnbookedEnds, read_manifest
from admin.backup.unbooked import CopiedEnds, copy_ends
from billing.audit_heads.store_heads import current_heads
from billing.cli.audit import faults_in, verify_all
from chaos.tampering.filling import fill, typing
from core.configuration.settings import Settings
from core.errors import StartupError
from core.redis.pools import announce_pool
from core.runtime.embedded import RESTORE_MARK, EmbeddedValkey, ensure_home
from core.sql.database import Database
from engine.queue.journaled_ends import JournaledEnd
from tests.admin.backup.backed_up import backed_up, booked, copied_database, copied_ends, names_of
from tests.billing.events import an_event
from tests.billing.posting.billers import a_biller, end, until_acknowledged, until_posted
from tests.engine.journals import a_journal, journals_are_closed
from tests.support.home import TEST_SECRET, settings_in
from tests.support.patience import wait_until
from tests.support.redis import Redis

__all__ = ["journals_are_closed"]
GONE = "unix:///nowhere/redis.sock"


@pytest.fixture
def installed(home: Path, redis_url: str, database_url: str) -> Settings:
    """An installation on SQLite and on Postgres."""
    return settings_in(home, redis_url=redis_url, database_url=database_url)


async def heads_of(db: Database, settings: Settings) -> list[CopiedHead]:
    """The ends of all its chains."""
    return sorted(
        [
            CopiedHead(each.chain.value, each.tenant, each.sequence, each.sha256)
            async for page in current_heads(db, settings)
            for each in page
        ],
        key=lambda head: (head.chain, head.tenant),
    )


def journaled(*requests: str) -> list[JournaledEnd]:
    """Ends as a process of ours journals them."""
    return [JournaledEnd("t1", each, "m.0", f"{at + 1}-0", b"event") for at, each in enumerate(requests)]


async def test_a_backup_while_billing_is_one_state(
    installed: Settings, database: Database, redis: Redis, tmp_path: Path, postgres_folder: Path
):
    """Its chains verify, their ends are those of the manifest, and each ended request is in its books or in
    its journals."""
    before = [an_event(f"before-{at}") for at in range(20)]
    ended: list[str] = []

    async def write() -> None:
        while True:
            events = [an_event(f"meanwhile-{len(ended) + at}") for at in range(5)]
            await end(redis, events, installed)
            ended.extend(event.request for event in events)
            await until_posted(database, len(before) + len(ended))  # no faster than the books

    async with a_biller(database, redis, installed):
        await end(redis, before, installed)
        await until_posted(database, len(before))
        writing = asyncio.create_task(write())
        await wait_until(lambda: len(ended) > 10)
        known = list(ended)
        report = await backed_up(installed, tmp_path / "made")
        behind = len(ended)
        await wait_until(lambda: len(ended) > behind)  # writers went on all the while
        writing.cancel()
        await asyncio.wait((writing,))
    async with copied_database(installed, tmp_path / "made", postgres_folder) as copy:
        assert faults_in(await verify_all(copy, None, {})) == []
        assert report.manifest.heads == await heads_of(copy, installed)
        assert report.manifest.database.rows["usage_event"] == len(await booked(copy))
        assert {event.request for event in before} <= await booked(copy)
        assert set(known) <= await booked(copy) | names_of(copied_ends(tmp_path / "made"))
    assert report.warnings == []


async def test_what_is_booked_meanwhile_is_in_the_backup_twice(
    installed: Settings,
    database: Database,
    redis: Redis,
    tmp_path: Path,
    postgres_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    """An event that is acknowledged between the two copies is in its books too, and waits no more."""
    events = [an_event(f"r{at}") for at in range(5)]
    await end(redis, events, installed)

    async def then_book(*arguments: Any) -> CopiedEnds:
        found = await copy_ends(*arguments)
        async with a_biller(database, redis, installed):
            await until_acknowledged(redis)
        return found

    monkeypatch.setattr(backups, "copy_ends", then_book)
    report = await backed_up(installed, tmp_path / "made")
    names = {event.request for event in events}
    assert names_of(copied_ends(tmp_path / "made")) == names
    async with copied_database(installed, tmp_path / "made", postgres_folder) as copy:
        assert await booked(copy) == names
    assert report.manifest.unbooked == []


async def test_what_waits_is_counted_and_copied(
    installed: Settings, database: Database, redis: Redis, tmp_path: Path
):
    """Events in Redis that no biller took, of every announced pool, an unreadable one too; ends of journals,
    but for those in the books. Each stands where a restore looks."""
    billed = [an_event(f"billed-{at}") for at in range(3)]
    async with a_biller(database, redis, installed):
        await end(redis, billed, installed)
        await until_posted(database, len(billed))
        await until_acknowledged(redis)
    waiting = [an_event("w1"), an_event("w2")]
    await end(redis, [*waiting, an_event("far", pool="far/west")], installed)
    await redis.xadd("{p:default}ended", {"e": b"no event"})
    await announce_pool(connect_to(redis), installed, "far/west")
    journal = a_journal(installed, "worker-1")
    assert await journal.keep(journaled("billed-0", "w1", "lost"))
    report = await backed_up(installed, tmp_path / "made")
    assert report.manifest.unbooked == [UnbookedEnds("default", 3, 2), UnbookedEnds("far/west", 1, 0)]
    by_event = {found.event: found for found in copied_ends(tmp_path / "made")}
    assert {b"no event", b"event"} < by_event.keys()
    assert names_of(list(by_event.values())) == {"w1", "w2", "far", "", "lost"}
    ids = {id.decode() for id, _ in await redis.xrange("{p:default}ended")}
    now = await unbooked.PoolQueue(connect_to(redis), "default", installed).ends()
    found = next(each for each in copied_ends(tmp_path / "made") if each.request == "w2")
    assert (found.memory, found.id in ids) == (now.memory, True)
    names = sorted(path.name for path in (tmp_path / "made" / "ends").iterdir())
    assert names == ["default~backup~1.ends", "default~worker-1~1.ends", "far%2Fwest~backup~1.ends"]


def connect_to(redis: Redis) -> Any:
    """The test's client, as our own functions take one."""
    return redis


async def test_without_redis_there_is_a_backup_that_says_so(home: Path, sqlite: Database, tmp_path: Path):
    """Loudly, and in its manifest; journals are in it."""
    settings = settings_in(home, redis_url=GONE)
    assert await a_journal(settings, "worker-1").keep(journaled("lost"))
    report = await backed_up(settings, tmp_path / "made")
    assert report.manifest.unbooked == [UnbookedEnds("default", None, 1)]
    assert len(report.warnings) == 1
    assert report.warnings[0].startswith("ENDED REQUESTS THAT WAIT IN REDIS ARE NOT IN THIS BACKUP")
    environment = {"PARLEY_HOME": str(home), "PARLEY_REDIS_URL": GONE, "PARLEY_SECRET": TEST_SECRET}
    done = await asyncio.to_thread(
        CliRunner().invoke, backup_command, [str(tmp_path / "again")], env=environment
    )
    assert done.exit_code == 3, done.output
    assert "pool default: UNKNOWN IN REDIS, 1 in journals" in done.stdout
    assert "WARNING: ENDED REQUESTS THAT WAIT IN REDIS" in done.stderr


async def test_a_damaged_pool_does_not_keep_the_others_from_it(
    installed: Settings, database: Database, redis: Redis, tmp_path: Path
):
    """A worker that was taken over can put anything into its pool's keys."""
    await end(redis, [an_event("w1")], installed)
    await redis.set("{p:bad}ended", "no stream")
    await announce_pool(connect_to(redis), installed, "bad")
    report = await backed_up(installed, tmp_path / "made")
    assert report.manifest.unbooked == [UnbookedEnds("bad", None, 0), UnbookedEnds("default", 1, 0)]
    assert "pool bad that wait in Redis are not in this backup" in report.warnings[0]


async def test_an_end_that_changes_its_journal_meanwhile_is_copied(
    home: Path, sqlite: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A keeper keeps it in its own journal, which was copied already, then drops the old file."""
    settings = settings_in(home, redis_url=GONE)
    keeper, dead = a_journal(settings, "keeper"), a_journal(settings, "worker")
    assert await keeper.keep(journaled("mine"))
    assert await dead.keep(journaled("lost"))
    copy_journal = unbooked._copy_journal  # pyright: ignore[reportPrivateUsage]

    def copied_then_moved(path: Path, *rest: Any) -> bool:
        done = copy_journal(path, *rest)
        if "keeper" in path.name and (old := home / "ends" / "default~worker~1.ends").exists():
            assert keeper._write(journaled("lost"))  # pyright: ignore[reportPrivateUsage]
            old.unlink()
        return done

    monkeypatch.setattr(unbooked, "_copy_journal", copied_then_moved)
    await backed_up(settings, tmp_path / "made")
    assert names_of(copied_ends(tmp_path / "made")) == {"mine", "lost"}


async def test_odd_files_among_journals_are_told_of(home: Path, sqlite: Database, tmp_path: Path):
    """A link, a folder and a pipe are left out with a warning; a file that was set aside, and one of an
    earlier backup, are copied as they are."""
    settings = settings_in(home, redis_url=GONE)
    ends = home / "ends"
    ends.mkdir()
    (ends / "default~a~1.ends").symlink_to("/etc/passwd")
    (ends / "default~b~1.ends").mkdir()
    os.mkfifo(ends / "default~c~1.ends")
    (ends / "default~d~1.unreadable").write_bytes(b"?")
    (ends / "default~backup~1.ends").write_bytes(b"?")
    (ends / "notes.txt").write_bytes(b"mine")
    report = await backed_up(settings, tmp_path / "made")
    assert len(report.warnings) == 4
    names = sorted(path.name for path in (tmp_path / "made" / "ends").iterdir())
    assert names == ["default~backup~1.ends", "default~d~1.unreadable"]


async def test_a_backup_is_for_its_owner_alone(installed: Settings, database: Database, tmp_path: Path):
    """Whatever the umask is; the secret is in it."""
    os.umask(0)
    await backed_up(installed, tmp_path / "made")
    await backed_up(installed, tmp_path / "made.tar")
    for path in (tmp_path / "made", *(tmp_path / "made").rglob("*")):
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path
    assert (tmp_path / "made.tar").stat().st_mode & 0o777 == 0o600
    with opened(tmp_path / "made.tar") as folder:
        assert (folder / "secret").read_text() == TEST_SECRET
        assert folder.stat().st_mode & 0o777 == 0o700


async def test_all_books_are_copied(home: Path, redis_url: str, sqlite: Database, tmp_path: Path):
    """Tenants who have something of all that is administered and booked verify in the copy as in the
    original."""
    from billing.posting.biller import post

    settings = settings_in(home, redis_url=redis_url)
    environment = {"PARLEY_HOME": str(home), "PARLEY_REDIS_URL": redis_url}

    def filled() -> None:
        def book(events: Any) -> None:
            runner.run(post(sqlite, "default", events))

        with asyncio.Runner() as runner:
            fill(home, typing(environment), book, TEST_SECRET)
            runner.run(sqlite.close())

    await asyncio.to_thread(filled)
    report = await backed_up(settings, tmp_path / "made")
    copy = Database(f"sqlite+aiosqlite:///{tmp_path / 'made' / 'database.sqlite'}")
    try:
        verified = await verify_all(copy, None, {})
        assert faults_in(verified) == []
        assert [books.sha256 for _, books, _, _ in verified] == [
            books.sha256 for _, books, _, _ in await verify_all(sqlite, None, {})
        ]
        assert report.manifest.heads == await heads_of(copy, settings)
    finally:
        await copy.close()


async def test_a_home_with_its_own_redis(home: Path, sqlite: Database, tmp_path: Path):
    """As `parley up` has it: both are found by PARLEY_HOME alone."""
    settings = settings_in(home)
    ensure_home(settings)
    server = EmbeddedValkey(settings)
    await server.start()
    try:
        async with Redis.from_url(settings.redis_endpoint) as client:
            await end(client, [an_event("w1")], settings)
        report = await backed_up(settings, tmp_path / "made")
    finally:
        await server.stop()
    assert report.manifest.unbooked == [UnbookedEnds("default", 1, 0)]
    assert report.warnings == []


async def test_what_cannot_be_copied_is_one_line(
    home: Path, redis_url: str, sqlite: Database, tmp_path: Path
):
    """And leaves nothing: no tables, no secret, a target that is there, a place that takes no files, a target
    that would be lost with the home or is no archive."""
    settings = settings_in(home, redis_url=redis_url)
    (tmp_path / "empty").mkdir()
    for wrong, target, says in (
        (settings_in(tmp_path / "none"), tmp_path / "made", f"{tmp_path}/none/parley.db has no tables yet"),
        (settings_in(tmp_path / "empty"), tmp_path / "made", "no tables yet"),
        (settings_in(home, secret=None), tmp_path / "made", "there is no secret"),
        (settings, tmp_path / "empty", "exists already"),
        (settings, tmp_path / "none" / "made", "does not exist"),
        (settings, tmp_path / "made.tar.gz", "would be a folder"),
        (settings, home / "made", "inside of PARLEY_HOME"),
        (settings, Path("/proc/made"), "/proc cannot be written"),
    ):
        with pytest.raises(StartupError, match=says):
            await backups.backup(wrong, BackupCall(target), lambda _: None)
    assert not (home / "secret").exists()
    assert sorted(os.listdir(tmp_path)) == ["empty"]
    assert [name for name in os.listdir(tmp_path / "empty") if not name.startswith("parley.db")] == []


async def test_half_of_a_restore_is_not_backed_up(home: Path, sqlite: Database, tmp_path: Path):
    """Its database is there, and Redis does not fit it yet."""
    (home / RESTORE_MARK).write_text("{}")
    with pytest.raises(StartupError, match="a restore did not end here"):
        await backups.backup(settings_in(home), BackupCall(tmp_path / "made"), lambda _: None)
    assert os.listdir(tmp_path) == []


async def test_the_command_prints_what_was_copied(
    installed: Settings, database: Database, redis: Redis, tmp_path: Path, database_url: str
):
    """For people: place, size, rows, heads, what waits, and that the secret is in it. As JSON: all of it."""
    await end(redis, [an_event("w1")], installed)
    assert installed.redis_url is not None
    environment = {
        "PARLEY_HOME": str(installed.home),
        "PARLEY_REDIS_URL": installed.redis_url.get_secret_value(),
        "PARLEY_DATABASE_URL": database_url,
        "PARLEY_SECRET": TEST_SECRET,
    }

    def run(*arguments: str) -> Any:
        return CliRunner().invoke(backup_command, list(arguments), env=environment)

    done = await asyncio.to_thread(run, str(tmp_path / "made"))
    assert done.exit_code == 0, done.output
    for words in (
        "size  ",
        "0 usage_event",
        "(platform)",
        "pool default: 1 in Redis, 0 in journals",
        "secret",
    ):
        assert words in done.stdout
    assert "copying the database" in done.stderr
    done = await asyncio.to_thread(run, str(tmp_path / "made.tar"), "--json")
    assert done.exit_code == 0, done.output
    printed = msgspec.json.decode(done.stdout)
    with opened(tmp_path / "made.tar") as folder:
        assert printed["manifest"] == msgspec.to_builtins(read_manifest(folder))
    assert printed["target"] == str(tmp_path / "made.tar")
    assert TEST_SECRET not in done.output

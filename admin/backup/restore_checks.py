"""Conditions of a restore: the backup is whole and fits, its place is empty, nothing runs there.

Each check raises StartupError with what to do.
"""

import asyncio
import hmac
import os
from collections.abc import Collection, Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from admin.backup.manifest import SECRET_FILE, Manifest, damaged_files
from billing.shared_commands import active_consumers, is_restored
from core.clock import monotonic
from core.configuration.settings import ADMISSION_PURPOSE, Settings
from core.errors import StartupError
from core.files import file_lock
from core.redis.client import RedisClient
from core.runtime.embedded import RESTORE_MARK
from core.signing.signed_text import Keyring, checked_secret
from core.sql.database import MIGRATIONS, Database, database_url, revision_of, schema_versions, shown_url
from core.sql.schema_origin import text_of
from core.web.local_urls import UP_LOCK
from engine.api import living_processes

LOCK_SECONDS_MAX = 0.1
BILLER_IDLE_MS_MAX = 5_000
BILLER_LOOK_SECONDS = 2.0  # a biller that runs asks for more work twice a second
CLOCKS_DIFFER_MS = 500
NAMED_MAX = 10
TABLES = """
SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S')
AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
"""


def require_whole(folder: Path, manifest: Manifest) -> None:
    """Every file is what it was, and what is read is among them. Reads all of them: call it in a thread."""
    damaged = damaged_files(folder, manifest)
    if damaged:
        more = f" and {len(damaged) - NAMED_MAX} more" if len(damaged) > NAMED_MAX else ""
        raise StartupError(f"the backup is damaged: {', '.join(damaged[:NAMED_MAX])}{more}")


def require_fit(manifest: Manifest, settings: Settings) -> None:
    """This release knows its schema, and the settings name a database of its kind and its installation."""
    kind = database_url(settings.database_endpoint).get_backend_name()
    if manifest.database.kind != kind:
        raise StartupError(
            f"the backup is of {manifest.database.kind}, and PARLEY_DATABASE_URL names {kind}: "
            "name an empty database of the same kind"
        )
    if manifest.database.schema not in schema_versions():
        raise StartupError(
            f"the backup's schema {manifest.database.schema} is of a newer release than this one "
            f"({schema_versions()[0]}): restore it with Parley {manifest.release} or later"
        )
    if manifest.database.made_from not in ("", text_of(MIGRATIONS, manifest.database.schema)):
        raise StartupError(
            "the backup is of another version of Parley under development (its schema "
            f"{manifest.database.schema} is not this one's): restore it with that version"
        )
    if manifest.installation != settings.installation:
        raise StartupError(
            f"the backup is of the installation {manifest.installation!r}, and PARLEY_INSTALLATION is "
            f"{settings.installation!r}: set the same name"
        )


def keep_secret(folder: Path, settings: Settings) -> None:
    """Put the backup's secret into the home, where there is none, and see that no other is in force."""
    try:
        secret = checked_secret((folder / SECRET_FILE).read_text().strip(), "the backup's secret")
    except ValueError as error:
        raise StartupError("the backup's secret is no text") from error
    own = settings.home / "secret"
    present = settings.secret.get_secret_value() if settings.secret else None
    where = "PARLEY_SECRET"
    if present is None and own.exists():
        present, where = own.read_text().strip(), str(own)
    if present is not None and not hmac.compare_digest(present.encode(), secret):
        raise StartupError(
            f"{where} is another secret than the backup's, under which its requests could not be billed: "
            "take it away, or set the backup's"
        )
    if present is None:
        draft = own.with_name(f"secret.{os.getpid()}")
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(secret)
            os.fsync(file.fileno())
        draft.rename(own)
    if Keyring(secret).key(ADMISSION_PURPOSE) not in settings.admission_keys:
        raise StartupError("PARLEY_ADMISSION_KEY is not of the backup's secret: unset it here")


async def is_empty(settings: Settings) -> bool:
    """True where there is no database yet: no file, or a Postgres database without tables."""
    url = database_url(settings.database_endpoint)
    if url.get_backend_name() == "sqlite":
        path = Path(url.database or "")
        return not any(path.with_name(path.name + end).exists() for end in ("", "-wal", "-shm", "-journal"))
    db = Database(settings.database_endpoint)
    try:
        async with db.reading() as connection:
            return (await connection.execute(text(TABLES))).scalar() == 0
    finally:
        await db.close()


async def not_empty(settings: Settings, backup_sha256: str) -> StartupError:
    """What to say of a database that is not empty: also that it has this very backup already."""
    url = database_url(settings.database_endpoint)
    where = f"the database {shown_url(url)} is not empty"
    if await _has_restored(settings, backup_sha256):
        return StartupError(f"{where}: this backup was restored into it already, so start (`parley up`)")
    if url.get_backend_name() == "sqlite":
        name = Path(url.database or "").name
        todo = f"move {name} away, with {name}-wal and {name}-shm"
    else:
        todo = "name one without tables in PARLEY_DATABASE_URL"
    return StartupError(f"{where}, and a backup is restored into an empty one only: {todo}")


async def _has_restored(settings: Settings, backup_sha256: str) -> bool:
    """True where its audit log has a restore of this backup. A database of anything else has none."""
    db = Database(settings.database_endpoint)
    try:
        return await revision_of(db) is not None and await is_restored(db, backup_sha256)
    except (StartupError, OSError, DBAPIError):
        return False
    finally:
        await db.close()


@contextmanager
def kept_as_it_was(home: Path) -> Generator[None]:
    """A home, made where there is none, that a restore which is refused leaves as it found it."""
    was_there, had_lock = home.exists(), (home / UP_LOCK).exists()
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise StartupError(f"cannot use PARLEY_HOME {home}: {error.strerror}") from error
    try:
        yield
    except BaseException:
        if not (home / RESTORE_MARK).exists():
            _remove_made(home, was_there, had_lock)
        raise


def _remove_made(home: Path, was_there: bool, had_lock: bool) -> None:
    with suppress(OSError):
        if not had_lock:
            (home / UP_LOCK).unlink()
        if not was_there:
            home.rmdir()


@contextmanager
def home_locked(home: Path) -> Generator[None]:
    """The lock of `parley up`, so that none runs or starts here meanwhile."""
    lock = file_lock.acquire(home / UP_LOCK, LOCK_SECONDS_MAX)
    if lock is None:
        raise StartupError(f"`parley up` or another `parley restore` runs on {home}: stop it first")
    try:
        yield
    finally:
        os.close(lock)


async def require_stopped(redis: RedisClient, settings: Settings, pools: Collection[str]) -> None:
    """No worker, gateway, supervisor or biller of these pools is at work."""
    found: list[str] = []
    for pool in sorted(pools):
        found += [f"{name} (pool {pool})" for name in await living_processes(redis, pool, settings)]
    found += await _living_billers(redis, pools)
    if found:
        named = ", ".join(found[:NAMED_MAX])
        raise StartupError(
            f"processes of the installation still run: stop them first ({named}). "
            "What was killed counts for some seconds more"
        )


async def _living_billers(redis: RedisClient, pools: Collection[str]) -> list[str]:
    """Billers that ask for work between two looks: nobody takes the name of one that died out of Redis."""
    before = {pool: await active_consumers(redis, pool, BILLER_IDLE_MS_MAX) for pool in sorted(pools)}
    if not any(before.values()):
        return []
    began = monotonic()
    await asyncio.sleep(BILLER_LOOK_SECONDS)
    found: list[str] = []
    for pool, asked in before.items():
        waited_ms = round((monotonic() - began) * 1000)
        now = await active_consumers(redis, pool, BILLER_IDLE_MS_MAX + 2 * waited_ms)
        found += [
            f"biller {name} (pool {pool})"
            for name, ms in asked.items()
            if now.get(name, ms + waited_ms) < ms + waited_ms - CLOCKS_DIFFER_MS
        ]
    return found

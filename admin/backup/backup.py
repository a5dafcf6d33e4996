"""Makes a backup of a running installation: everything in a draft, checked, and then under its name.

The order is against the flow: events in Redis, journals, then one state of the database. So an event that is
booked meanwhile is in the backup twice, and billed once; none is in neither.
"""

import os
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path

import msgspec
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from sqlmodel.ext.asyncio.session import AsyncSession

from admin.backup import manifest as files
from admin.backup.archive import drafted, require_apart, require_new, sync
from admin.backup.copied_facts import copied_counts, copied_heads, copied_models, copied_schema
from admin.backup.manifest import CopiedDatabase, CopiedFile, Manifest, copied_file, encode_manifest
from admin.backup.postgres_tools import PostgresTools, check_dump, dump, find_tools, server_facts
from admin.backup.sqlite_copy import check_database, copy_database
from admin.backup.unbooked import CopiedEnds, copy_ends, unbooked
from core.clock import monotonic, now_ms
from core.configuration.settings import Settings
from core.errors import StartupError
from core.redis.client import connect
from core.runtime.embedded import require_restored
from core.sql.database import Database, require_folder, revision_of, shown_url
from core.sql.store_errors import database_failure
from engine.api import JOURNALS_FOLDER

SAY_SECONDS = 2.0

Say = Callable[[str], None]


class BackupCall(msgspec.Struct, frozen=True):
    """`target`: a folder, or a file where it ends with .tar, that does not exist."""

    target: Path


class BackupReport(msgspec.Struct, frozen=True):
    """A backup that was made. `copy_seconds`: of the database alone; `bytes`: of all its files; `warnings`:
    what is not in it, in sentences."""

    target: Path
    bytes: int
    copy_seconds: float
    seconds: float
    manifest: Manifest
    warnings: list[str]


class _Snapshot(msgspec.Struct, frozen=True):
    """A database that was copied, and a session that sees the copied state."""

    session: AsyncSession
    made_ms: int
    seconds: float
    server: str = ""
    tool: str = ""


async def backup(settings: Settings, call: BackupCall, say: Say) -> BackupReport:
    """Make a backup. Raises StartupError; then there is none, and nothing of it."""
    begun = monotonic()
    target = call.target.absolute()
    require_new(target)
    require_apart(target, settings.home)
    require_restored(settings.home)
    db = Database(settings.database_endpoint)
    try:
        tools = await _require_copyable(db, settings)
        secret = settings.secret_text
        with drafted(target) as folder:
            (folder / files.ENDS_FOLDER).mkdir(0o700)
            ends = await _copy_ends(settings, folder / files.ENDS_FOLDER, say)
            _write(folder / files.SECRET_FILE, secret.encode())
            async with _copied_database(db, settings, tools, folder, say) as copied:
                made = await _manifest(settings, folder, copied, ends, db.dialect)
            await _check(folder, tools, say)
            _write(folder / files.FILE, encode_manifest(made))
    except DBAPIError as error:
        raise database_failure(error) from error
    finally:
        await db.close()
    total = sum(each.bytes for each in made.files)
    return BackupReport(target, total, copied.seconds, monotonic() - begun, made, ends.warnings)


async def _require_copyable(db: Database, settings: Settings) -> PostgresTools | None:
    """Look before anything is written whether there is a database, and what copies it (None: SQLite)."""
    nothing = StartupError(
        f"there is nothing to back up: the database {shown_url(db.engine.url)} has no tables yet, and "
        f"PARLEY_HOME is {settings.home}. Are these the installation's (PARLEY_HOME, PARLEY_DATABASE_URL)?"
    )
    try:
        require_folder(db.engine.url)
    except StartupError:
        raise nothing from None
    try:
        if await revision_of(db) is None:
            raise nothing
        return None if db.dialect == "sqlite" else find_tools(settings, *await server_facts(db))
    except (OSError, DBAPIError) as error:
        raise database_failure(error) from error


async def _copy_ends(settings: Settings, folder: Path, say: Say) -> CopiedEnds:
    say("copying ended requests that wait in Redis and in journals")
    redis = connect(settings)
    try:
        return await copy_ends(settings, redis, settings.home / JOURNALS_FOLDER, folder)
    finally:
        await redis.aclose()


@asynccontextmanager
async def _copied_database(
    db: Database, settings: Settings, tools: PostgresTools | None, folder: Path, say: Say
) -> AsyncGenerator[_Snapshot]:
    begun = monotonic()
    told = _CopyProgress(say)
    if tools is None:
        source, file = Path(db.engine.url.database or ""), folder / files.SQLITE_FILE
        made_ms = now_ms()
        await copy_database(source, file, told.sqlite)
        copy = Database(f"sqlite+aiosqlite:///{file}")
        try:
            async with copy.snapshot() as session:
                yield _Snapshot(session, made_ms, monotonic() - begun)
        finally:
            await copy.close()
        return
    async with db.snapshot() as session:
        connection = await session.connection()
        for name in ("statement_timeout", "idle_in_transaction_session_timeout"):
            await connection.execute(text(f"SET LOCAL {name} = 0"))
        exported = (await connection.execute(text("SELECT pg_export_snapshot()"))).scalar_one()
        server = (await connection.execute(text("SELECT current_setting('server_version')"))).scalar_one()
        made_ms = now_ms()
        await dump(settings.database_endpoint, tools, folder / files.POSTGRES_FILE, exported, told.postgres)
        yield _Snapshot(session, made_ms, monotonic() - begun, server, tools.version)


async def _manifest(
    settings: Settings, folder: Path, copied: _Snapshot, ends: CopiedEnds, dialect: str
) -> Manifest:
    session = copied.session
    file = files.SQLITE_FILE if dialect == "sqlite" else files.POSTGRES_FILE
    schema = await copied_schema(session)
    rows = await copied_counts(session)
    database = CopiedDatabase(
        "sqlite" if dialect == "sqlite" else "postgresql",
        file,
        str(schema.revision),
        rows,
        copied.server,
        copied.tool,
        schema.made_from or "",
    )
    heads, wrong = await copied_heads(session)
    ends.warnings.extend(wrong)
    return Manifest(
        format=files.FORMAT,
        release=version("parley"),
        installation=settings.installation,
        made_ms=copied.made_ms,
        database=database,
        heads=heads,
        models=await copied_models(session),
        unbooked=await unbooked(session, ends),
        files=_listed(folder),
    )


def _listed(folder: Path) -> list[CopiedFile]:
    """All files so far, each on the disk."""
    names = sorted(each.relative_to(folder).as_posix() for each in folder.rglob("*") if each.is_file())
    for name in names:
        sync(folder / name)
    return [copied_file(folder, name) for name in names]


async def _check(folder: Path, tools: PostgresTools | None, say: Say) -> None:
    """Read the whole copy once more."""
    say("checking the copy")
    if tools is None:
        await check_database(folder / files.SQLITE_FILE)
    else:
        await check_dump(tools, folder / files.POSTGRES_FILE)


def _write(path: Path, data: bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
        file.write(data)
    sync(path)


class _CopyProgress:
    """Says how far the copy is, now and then."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self._last = monotonic()
        say("copying the database")

    def sqlite(self, done: int, expected: int) -> None:
        """Of a file whose size is known."""
        percent = min(99, 100 * done // max(1, expected))
        self._tell(f"copying the database: {percent} % of {expected:,} bytes")

    def postgres(self, done: int) -> None:
        """Of a compressed one."""
        self._tell(f"copying the database: {done:,} bytes so far")

    def _tell(self, words: str) -> None:
        if monotonic() - self._last >= SAY_SECONDS:
            self._last = monotonic()
            self._say(words)

"""Traces of an installation in PARLEY_HOME, by which `parley up` knows that a database is missing rather than
not made yet."""

from pathlib import Path

from sqlalchemy.exc import DBAPIError

from core.configuration.settings import Settings
from core.errors import StartupError
from core.sql.database import Database, database_url, revision_of, shown_url
from core.sql.store_errors import database_failure
from core.web.local_urls import UP_FILE
from engine.api import JOURNAL_SUFFIX, JOURNALS_FOLDER

APPENDED = "redis/appendonlydir"
APPENDED_BYTES_MIN = 1_024  # an embedded Valkey in which nothing was ever written leaves less


async def require_its_database(settings: Settings) -> None:
    """Raise StartupError where the home has traces of an installation, and the database no tables: a mount
    that is missing or another URL would otherwise begin as a new platform, without a word."""
    traces = traces_in(settings.home)
    if not traces or not await _is_gone(settings):
        return
    url = shown_url(database_url(settings.database_endpoint))
    raise StartupError(
        f"PARLEY_HOME {settings.home} is of an installation (it has {', '.join(traces)}), but "
        f"the database {url} has no tables: name or mount the right one (PARLEY_DATABASE_URL), or put a "
        "backup back (`parley restore`). `parley up --new-database` begins anew with an empty one"
    )


def traces_in(home: Path) -> list[str]:
    """What only an installation that ran leaves in its home, by the names of files."""
    appended = sum(path.stat().st_size for path in (home / APPENDED).glob("*"))
    found = {
        UP_FILE: (home / UP_FILE).exists(),
        "redis/": appended >= APPENDED_BYTES_MIN,
        f"{JOURNALS_FOLDER}/": any((home / JOURNALS_FOLDER).glob(f"*{JOURNAL_SUFFIX}")),
    }
    return [name for name, there in found.items() if there]


async def _is_gone(settings: Settings) -> bool:
    url = database_url(settings.database_endpoint)
    if url.get_backend_name() == "sqlite" and not _is_filled(Path(url.database or "")):
        return True  # to connect would make the file
    db = Database(settings.database_endpoint)
    try:
        return await revision_of(db) is None
    except (OSError, DBAPIError) as error:
        raise database_failure(error, shown_url(url)) from error
    finally:
        await db.close()


def _is_filled(path: Path) -> bool:
    return path.exists() and path.stat().st_size > 0

"""Where a database's schema comes from: its revision, and the text of the migrations that made it.

A version is edited in place until it is released. So a database keeps, beside the revision, a hash of that
text: one that another state of the code made is told apart at the start, before a statement fails.
"""

import hashlib
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import Connection, text
from sqlalchemy.engine import URL, RowMapping
from sqlalchemy.exc import DBAPIError

from core.errors import StartupError

COLUMN = "made_from"
UNDEFINED_TABLE = "42P01"
READ = text("SELECT * FROM alembic_version")  # without the column, where the code did not know it yet
FORMER_REVISION = re.compile(r"\d{4}")  # those of 0.1.0 and later begin with a letter
UNTOLD = re.compile(r'\s*^[ \t]*""".*?"""|#[^\n]*|\s+|,(?=\s*[)\]}])', re.DOTALL | re.MULTILINE)


class SchemaOrigin(NamedTuple):
    """What a database says of its schema; None: it was never migrated, or does not say."""

    revision: str | None = None
    made_from: str | None = None

    @classmethod
    def of(cls, row: RowMapping | None) -> "SchemaOrigin":
        """What stands in its table of versions."""
        return cls() if row is None else cls(row["version_num"], row.get(COLUMN))


@cache
def text_of(migrations: Path, revision: str) -> str:
    """SHA-256 over the versions up to this one, however they are laid out and explained: comments, docstrings
    and white space do not count."""
    files = [*migrations.glob("v[0-9]*/*.py"), *migrations.glob("versions/v[0-9]*.py")]
    names = sorted(each.relative_to(migrations).as_posix() for each in files)
    digest = hashlib.sha256()
    for name in names:
        if name.removeprefix("versions/")[1:5] <= revision[1:5]:
            digest.update(f"{name}\n{UNTOLD.sub('', (migrations / name).read_text())}\n".encode())
    return digest.hexdigest()


def lacks_the_table(error: OSError | DBAPIError) -> bool:
    """True for the error of a database that was never migrated."""
    orig = error.orig if isinstance(error, DBAPIError) else None
    return getattr(orig, "sqlstate", "") == UNDEFINED_TABLE or (
        getattr(orig, "sqlite_errorname", "") == "SQLITE_ERROR" and str(orig).startswith("no such table")
    )


def note_text(connection: Connection, made_from: str) -> None:
    """Keep in the database of which text it is."""
    found = connection.execute(READ).mappings().first()
    if found is not None and found.get(COLUMN) == made_from:
        return  # operators' commands migrate too, and may not write here
    if found is not None and COLUMN not in found:
        connection.execute(text(f"ALTER TABLE alembic_version ADD COLUMN {COLUMN} VARCHAR"))
    connection.execute(text(f"UPDATE alembic_version SET {COLUMN} = :made_from"), {"made_from": made_from})


def refuse_former(found: str | None, shown: str) -> None:
    """StartupError where this revision is of before 0.1.0."""
    if found is not None and FORMER_REVISION.fullmatch(found):
        raise StartupError(
            f"{shown} was made before 0.1.0 (schema {found}), which starts with a fresh database: "
            "name an empty one in PARLEY_DATABASE_URL (SQLite: or move the file elsewhere), and start again"
        )


def refuse_other_text(found: SchemaOrigin, migrations: Path, url: URL, shown: str) -> None:
    """StartupError where the schema has a revision that these migrations have, of another text."""
    if found.revision is None or found.made_from == text_of(migrations, found.revision):
        return
    if url.get_backend_name() == "sqlite":
        how = "move its folder aside, or name a new one in PARLEY_HOME"
    else:
        how = "name an empty database in PARLEY_DATABASE_URL, and a new PARLEY_HOME"
    raise StartupError(
        f"{shown} was made by another version of Parley under development (schema {found.revision} is not "
        f"this one's): {how}, or run that version. Nothing was changed"
    )

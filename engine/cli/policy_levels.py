"""What the commands of `parley safety` share: whose document is meant, reading it, how it is shown."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from shlex import quote
from typing import TypeVar

import click

from billing.api import find_tenant
from core.configuration.settings import Settings
from core.errors import Refused, StartupError, see, unknown
from core.files.named_files import read_beside
from core.sql.database import Database, require_schema
from core.terminal.refused_text import refused_text
from core.terminal.terminal import print_line
from engine.operations.policy_levels import Level, level_in
from engine.policies.level_files import LevelFile, level_file
from engine.policies.store import PolicyStore
from engine.safety.documents import DOCUMENT_BYTES_MAX, PolicyError

T = TypeVar("T")

STDIN = "-"

tenant_option = click.option("--tenant", help="This tenant's (name or id). Without it, the platform's.")
project_option = click.option("--project", help="The document of this project (name or id) of the tenant.")


def on_policies(action: Callable[[Database, PolicyStore], Awaitable[T]]) -> T:
    """Run `action` on the configured database; what is refused becomes one line and exit code 1."""
    settings = Settings()

    async def run() -> T:
        db = Database(settings.database_endpoint)
        try:
            await require_schema(db)
            return await action(db, PolicyStore(db))
        finally:
            await db.close()

    try:
        return asyncio.run(run())
    except Refused as refused:
        raise StartupError(refused_text(refused.refusal)) from refused
    except PolicyError as error:
        raise StartupError(str(error)) from error


async def level_named(db: Database, tenant: str | None, project: str | None) -> Level:
    """The level that these options mean. Raises Refused where there is no such tenant or project."""
    check_named(tenant, project)
    found = None if tenant is None else await find_tenant(db, tenant)
    if found is None and tenant is not None:
        raise unknown(f"there is no tenant {tenant!r}", field="tenant", see=see("tenants.list"))
    return await level_in(db, found, project)


def check_named(tenant: str | None, project: str | None) -> None:
    """Raise UsageError for a project without its tenant."""
    if tenant is None and project is not None:
        raise click.UsageError("--project names a project of --tenant")


def options_of(level: Level) -> str:
    """What names a level in a command. Pure."""
    options = f" --tenant {quote(level.tenant_name)}" if level.tenant_id else ""
    return options + (f" --project {quote(level.project_name)}" if level.project_id else "")


def read_level(file: str) -> LevelFile:
    """The document in a file, or with `-` on stdin; files of words are beside it. Raises StartupError."""
    folder = "." if file == STDIN else str(Path(file).parent)
    try:
        found = level_file(_bytes_of(file), lambda name: _bytes_beside(folder, name))
    except PolicyError as error:
        raise StartupError(f"{'stdin' if file == STDIN else Path(file).name}: {error}") from error
    for note in found.notes:
        print_line(note, err=True)
    return found


def _bytes_of(file: str) -> bytes:
    try:
        with click.open_file(file, "rb") as stream:
            return stream.read(DOCUMENT_BYTES_MAX + 1)
    except OSError as error:
        raise StartupError(f"{file} cannot be read: {error.strerror}") from error


def _bytes_beside(folder: str, name: str) -> bytes:
    try:
        return read_beside(folder, name, DOCUMENT_BYTES_MAX)
    except OSError as error:
        raise StartupError(f"{os.path.join(folder, name)} cannot be read: {error.strerror}") from error


def diff_colour(line: str) -> str | None:
    """How a line of a diff is shown on a terminal. Pure."""
    return {"+": "green", "-": "red", "@": "cyan"}.get(line[:1])

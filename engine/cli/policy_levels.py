"""What the commands of `parley safety` share: whose document is meant, reading it, how it is shown."""

import asyncio
import difflib
import json
import os
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Any, TypeVar

import click

from billing.api import PLATFORM, SafetyPolicy, find_project, find_tenant
from core.configuration.settings import Settings
from core.errors import Refused, StartupError
from core.files.named_files import read_beside
from core.redis import redis_errors
from core.redis.client import RedisClient, connect
from core.sql.database import Database, require_schema
from core.sql.store_errors import redis_failure
from core.terminal.refused_text import refused_text
from core.terminal.safe_text import printable_text
from core.terminal.terminal import print_line
from engine.cli.formatting import time_of_day
from engine.policies.level_files import LevelFile, level_file
from engine.policies.levels import level_facts
from engine.policies.store import PolicyStore, scope_of, written
from engine.safety.documents import DEFAULT, DOCUMENT_BYTES_MAX, PolicyDocument, PolicyError
from engine.safety.verdicts import Scope

T = TypeVar("T")

STDIN = "-"
DIFF_LINES_AROUND = 3

tenant_option = click.option("--tenant", help="This tenant's (name or id). Without it, the platform's.")
project_option = click.option("--project", help="The document of this project (name or id) of the tenant.")


@dataclass(frozen=True)
class Level:
    """Whose document is meant. `name`: for people; `options`: what names it in a command."""

    tenant_id: str
    project_id: str
    name: str
    options: str = ""

    @property
    def scope(self) -> Scope:
        """Which kind of level it is."""
        return "project" if self.project_id else "tenant" if self.tenant_id else "platform"

    @property
    def facts(self) -> dict[str, str | None]:
        """The level in JSON."""
        return {"level": self.scope, "tenant": self.tenant_id or None, "project": self.project_id or None}


PLATFORM_LEVEL = Level(PLATFORM, "", "the platform")


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


def on_policies_and_redis(action: Callable[[PolicyStore, RedisClient], Awaitable[T]]) -> T:
    """The same with Redis, for a command that tells gateways of its change."""
    settings = Settings()

    async def run(_db: Database, store: PolicyStore) -> T:
        redis = connect(settings)
        try:
            return await action(store, redis)
        except redis_errors.RedisError as error:
            why = redis_failure(error, settings)
            raise StartupError(f"the document is set, and gateways read it in some seconds: {why}") from error
        finally:
            await redis.aclose()

    return on_policies(run)


async def level_named(db: Database, tenant: str | None, project: str | None) -> Level:
    """The level that these options mean. Raises StartupError where there is no such tenant or project."""
    if tenant is None:
        if project is not None:
            raise click.UsageError("--project names a project of --tenant")
        return PLATFORM_LEVEL
    found = await find_tenant(db, tenant)
    if found is None:
        raise StartupError(f"there is no tenant {tenant!r}: see `parley tenants list`")
    options = f" --tenant {quote(found.name)}"
    if project is None:
        return Level(found.tenant_id, "", f"tenant {found.name}", options)
    of = await find_project(db, found.tenant_id, project)
    if of is None:
        listed = f"parley projects list{options}"
        raise StartupError(f"tenant {found.name} has no project {project!r}: see `{listed}`")
    options += f" --project {quote(of.name)}"
    return Level(found.tenant_id, of.id, f"project {of.name} of {found.name}", options)


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


def document_text(facts: dict[str, Any]) -> str:
    """A document for people, which `set` takes again as it is printed. Pure."""
    plain = json.dumps(facts, indent=2, ensure_ascii=False)
    return plain if printable_text(plain) == plain else json.dumps(facts, indent=2)


def level_lines(document: PolicyDocument | None) -> list[str]:
    """The same by lines; none where there is no document. Pure."""
    return [] if document is None else document_text(level_facts(document)).splitlines()


def diff_lines(scope: Scope, before: PolicyDocument | None, after: PolicyDocument | None) -> list[str]:
    """What a level's second document says otherwise, in a unified diff without its heads. A platform without
    one has the built-in default. Pure."""
    default = DEFAULT if scope == "platform" else None
    lines = difflib.unified_diff(
        level_lines(before or default), level_lines(after or default), lineterm="", n=DIFF_LINES_AROUND
    )
    return [line for line in lines if not line.startswith(("--- ", "+++ "))]


def diff_colour(line: str) -> str | None:
    """How a line of a diff is shown on a terminal. Pure."""
    return {"+": "green", "-": "red", "@": "cyan"}.get(line[:1])


def readable(row: SafetyPolicy) -> PolicyDocument | None:
    """A version's document; None where it was removed or erased. Raises StartupError where it is damaged."""
    try:
        return written(row)
    except PolicyError as error:
        raise StartupError(str(error)) from error


def version_facts(row: SafetyPolicy) -> dict[str, Any]:
    """Who made a version, when and why, for JSON. Pure."""
    return {
        "level": scope_of(row),
        "tenant": row.tenant_id or None,
        "project": row.project_id or None,
        "version": row.version,
        "sha256": row.sha256 or None,
        "author": row.author,
        "reason": row.reason,
        "created": time_of_day(row.created_ms),
    }


def state_of(row: SafetyPolicy) -> str:
    """What became of a version's document. Pure."""
    if row.document:
        return "set"
    return "erased" if row.sha256 else "removed"


def with_earlier(rows: list[SafetyPolicy]) -> Iterator[tuple[SafetyPolicy, SafetyPolicy | None]]:
    """Versions, newest first, each with the one before it. Pure."""
    for at, row in enumerate(rows):
        yield row, rows[at + 1] if at + 1 < len(rows) else None

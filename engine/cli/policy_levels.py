"""What the commands of `parley safety` share: whose document is meant, reading it, how it is shown."""

import os
from pathlib import Path
from shlex import quote

import click

from core.errors import StartupError
from core.files.named_files import read_beside
from core.terminal.terminal import print_line
from engine.operations.policy_levels import Level
from engine.policies.level_files import LevelFile, level_file
from engine.safety.documents import DOCUMENT_BYTES_MAX, PolicyError

STDIN = "-"

tenant_option = click.option("--tenant", help="This tenant's (name or id). Without it, the platform's.")
project_option = click.option("--project", help="The document of this project (name or id) of the tenant.")


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

"""A Postgres database with a role for each kind of process."""

from collections.abc import Generator
from pathlib import Path

import pytest
from click.testing import CliRunner
from filelock import FileLock

from billing.main import db_command
from core.access.database_roles import role_of
from core.access.processes import ProcessKind
from tests.support.emptied import EmptiedPostgres


@pytest.fixture
def roles(emptied: EmptiedPostgres, postgres_folder: Path, home: Path) -> Generator[str]:
    """A database whose roles were made by the command; its URL without a user."""
    make_roles(emptied.url, postgres_folder, home)
    make_roles(emptied.url, postgres_folder, home)
    yield emptied.url
    emptied.reset()


def make_roles(url: str, folder: Path, home: Path) -> None:
    """Run the command. Roles are of the whole server: tests beside this one wait for their turn."""
    environment = {"PARLEY_HOME": str(home), "PARLEY_DATABASE_URL": url}
    with FileLock(folder / "roles.lock"):
        done = CliRunner().invoke(db_command, ["roles", "--apply"], env=environment)
    assert done.exit_code == 0, (done.output, done.exception)


def as_role(url: str, process: ProcessKind) -> str:
    return url.replace("postgres@", f"{role_of(process)}@")

"""A Postgres database with a role for each kind of process."""

from collections.abc import Generator
from pathlib import Path

import pytest
from click.testing import CliRunner

from billing.main import db_command
from core.access.database_roles import role_of
from core.access.processes import ProcessKind
from tests.support.emptied import EmptiedPostgres


@pytest.fixture
def roles(emptied: EmptiedPostgres, home: Path) -> Generator[str]:
    """A database whose roles were made by the command; its URL without a user."""
    environment = {"PARLEY_HOME": str(home), "PARLEY_DATABASE_URL": emptied.url}
    done = CliRunner().invoke(db_command, ["roles", "--apply"], env=environment)
    assert done.exit_code == 0, (done.output, done.exception)
    again = CliRunner().invoke(db_command, ["roles", "--apply"], env=environment)
    assert again.exit_code == 0, (again.output, again.exception)
    yield emptied.url
    emptied.reset()


def as_role(url: str, process: ProcessKind) -> str:
    return url.replace("postgres@", f"{role_of(process)}@")

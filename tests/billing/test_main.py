"""The commands: what an operator types, sees and may pipe on."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from billing.cli.keys import keys_command
from billing.cli.tenants import tenants_command
from billing.main import biller_command, db_command
from billing.tenants.keys import Principal, authenticate_key
from core.errors import StartupError
from core.sql.database import Database
from tests.support.patience import ended

Command = Callable[..., Result]
COMMANDS = {"biller": biller_command, "db": db_command, "keys": keys_command, "tenants": tenants_command}


@pytest.fixture
def parley(home: Path, redis_url: str) -> Command:
    """Runs `parley …` with an own PARLEY_HOME and SQLite."""

    def run(name: str, *arguments: str) -> Result:
        environment = {"PARLEY_HOME": str(home), "PARLEY_REDIS_URL": redis_url}
        return CliRunner().invoke(COMMANDS[name], arguments, env=environment)

    return run


def facts(result: Result) -> dict[str, Any]:
    """The JSON that a command printed."""
    assert result.exit_code == 0, result.output
    return json.loads(result.output)


def who(home: Path, secret: str) -> Principal | None:
    """Who the secret belongs to in the database of this home."""

    async def authenticate() -> Principal | None:
        database = Database(f"sqlite+aiosqlite:///{home / 'parley.db'}")
        try:
            return await authenticate_key(database, secret)
        finally:
            await database.close()

    return asyncio.run(authenticate())


def test_from_nothing_to_a_key_that_works(parley: Command, home: Path) -> None:
    """Migrate, make a tenant, give it a key, use it, rotate it, revoke it."""
    assert parley("db", "migrate").exit_code == 0
    tenant = facts(parley("tenants", "create", "acme", "--json"))
    key = facts(parley("keys", "create", "--tenant", "acme", "--user", "alice", "--json"))
    principal = who(home, key["secret"])
    assert principal is not None
    assert principal.tenant == tenant["tenant"]
    assert principal.fixed_user
    assert principal.user.startswith("u_"), "behind the edge a user is an id"
    new = facts(parley("keys", "rotate", "--tenant", "acme", key["prefix"].removeprefix("pk_"), "--json"))
    revoke = ("keys", "revoke", "--tenant", tenant["tenant"], key["key"])
    assert parley(*revoke, "--which", "old").exit_code == 0
    assert who(home, key["secret"]) is None
    assert who(home, new["secret"]) is not None
    listed = [
        json.loads(line) for line in parley("keys", "list", "--tenant", "acme", "--json").output.splitlines()
    ]
    assert [row["key"] for row in listed] == [key["key"], new["key"]]
    assert [row["revoked"] is None for row in listed] == [False, True]


def test_a_secret_is_shown_once(parley: Command) -> None:
    """By the command that makes the key and by no other."""
    parley("db", "migrate")
    parley("tenants", "create", "acme")
    made = parley("keys", "create", "--tenant", "acme", "--name", "website").output
    secret = made.split()[1]
    assert secret.startswith("pk_")
    listed = parley("keys", "list", "--tenant", "acme").output
    assert "website" in listed
    assert secret not in listed
    assert "acme" in parley("tenants", "list").output


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (("tenants", "create", "acme"), "already"),
        (("tenants", "create", "x" * 201), "tenant: expected a name"),
        (("tenants", "create", "new", "--price-book", "none"), "no price book"),
        (("keys", "create", "--tenant", "none"), "no tenant"),
        (("keys", "create", "--tenant", "acme", "--project", "none"), "no project"),
        (("keys", "revoke", "--tenant", "acme", "none"), "there is no key"),
        (("keys", "rotate", "--tenant", "acme", "none"), "no such key"),
    ],
)
def test_what_cannot_be_done_is_one_line(parley: Command, command: tuple[str, ...], says: str) -> None:
    """Which the command line turns into exit code 1."""
    parley("db", "migrate")
    parley("tenants", "create", "acme")
    error = parley(*command).exception
    assert isinstance(error, StartupError)
    assert says in str(error)
    assert "\n" not in str(error)


def test_commands_on_an_old_schema_say_what_to_run(parley: Command) -> None:
    """Before anything is written."""
    error = parley("tenants", "list").exception
    assert isinstance(error, StartupError)
    assert "parley db migrate" in str(error)


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_and_option_explains_itself(name: str) -> None:
    """`--help` answers without settings, database or Redis."""
    command = COMMANDS[name]
    parts: list[click.Command] = list(command.commands.values()) if isinstance(command, click.Group) else []
    for part in [command, *parts]:
        result = CliRunner().invoke(part, ["--help"])
        assert result.exit_code == 0
        assert len(part.help or "") > 10


def test_the_biller_process_stops_on_sigterm(parley: Command, home: Path, redis_url: str) -> None:
    """It says when it is ready, ends with 0, and leaves no traceback."""
    parley("db", "migrate")
    environment = {**os.environ, "PARLEY_HOME": str(home), "PARLEY_REDIS_URL": redis_url}
    code = "from billing.main import biller_command; biller_command()"
    with subprocess.Popen(
        [sys.executable, "-c", code], env=environment, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        assert "biller.ready" in process.stderr.readline()
        process.send_signal(signal.SIGTERM)
        assert ended(process) == 0
        assert "Traceback" not in process.stderr.read()


def test_an_operator_shows_and_changes_what_a_tenant_may_take(parley: Command, home: Path) -> None:
    """What is not named stays; `none` takes a cap away; nonsense is one line."""
    assert parley("db", "migrate").exit_code == 0
    parley("tenants", "create", "acme")
    shown = facts(parley("tenants", "terms", "acme", "--json"))
    assert (shown["weight"], shown["slots_max"], shown["reserve_tokens"]) == (1.0, None, 0)
    facts(parley("tenants", "terms", "acme", "--weight", "4", "--slots-max", "16", "--json"))
    changed = facts(
        parley("tenants", "terms", "acme", "--slots-max", "none", "--tokens-max", "900", "--json")
    )
    assert (changed["weight"], changed["slots_max"], changed["tokens_max"]) == (4.0, None, 900)
    assert facts(parley("tenants", "terms", "acme", "--json")) == changed
    for bad in (("--weight", "0"), ("--slots-max", "-1"), ("--slots-max", "many")):
        refused = parley("tenants", "terms", "acme", *bad)
        assert refused.exit_code != 0
    assert facts(parley("tenants", "terms", "acme", "--json")) == changed

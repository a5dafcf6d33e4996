"""`parley limits`, as an operator types and a script reads it."""

import asyncio
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from billing.api import LimitCache, Quota, count_shadowed
from billing.cli.keys import keys_command
from billing.cli.limits import limits_command
from billing.cli.tenants import tenants_command
from billing.quota.types import Admission, Admitted
from billing.usage import PinnedPrices
from core.clock import now_ms
from core.configuration.settings import Settings
from core.errors import Refusal, StartupError
from core.sql.database import Database
from tests.support.redis import Redis

COMMANDS = {"keys": keys_command, "limits": limits_command, "tenants": tenants_command}
Command = Callable[..., Result]


@pytest.fixture
def parley(home: Path, redis_url: str, sqlite_template: Path) -> Command:
    """Runs `parley …` on a migrated SQLite of its own with the tenant acme."""

    def run(name: str, *arguments: str) -> Result:
        environment = {"PARLEY_HOME": str(home), "PARLEY_REDIS_URL": redis_url}
        return CliRunner().invoke(COMMANDS[name], arguments, env=environment)

    shutil.copy(sqlite_template, home / "parley.db")
    assert run("tenants", "create", "acme").exit_code == 0
    return run


def rows(result: Result) -> list[dict[str, Any]]:
    """The JSON lines that a command printed."""
    assert result.exit_code == 0, (result.output, result.exception)
    return [json.loads(line) for line in result.stdout.splitlines()]


def admit(home: Path, redis_url: str, settings: Settings, tenant: str, user: str) -> Admitted | Refusal:
    """One request of the tenant, under what the commands set."""

    async def run() -> Admitted | Refusal:
        db, redis = Database(f"sqlite+aiosqlite:///{home / 'parley.db'}"), Redis.from_url(redis_url)
        now = now_ms()
        try:
            limits = await LimitCache(db).limits_for(tenant, "p", "k", user, "large", now)
            quota = Quota(redis, settings, db)
            admission = Admission(
                tenant=tenant,
                id=f"r{now}{user}",
                body_hash="h",
                owner_key="k",
                project="p",
                user=user,
                model="large",
                pool="default",
                fingerprint="f",
                input_tokens=10,
                chunk_tokens=20,
                deadline_ms=now + 60_000,
                prices=PinnedPrices("default", 1, 1, 1, 1),
                limits=limits,
            )
            admitted = await quota.admit(admission)
            if isinstance(admitted, Admitted) and admitted.shadowed:
                await count_shadowed(redis, tenant, admitted.shadowed)
            return admitted
        finally:
            await redis.aclose()
            await db.close()

    return asyncio.run(run())


def test_a_limit_is_set_used_shown_and_ended(parley: Command, home: Path, redis_url: str, settings: Settings):
    """What is set holds; `list` and `show` say how much of it is used; an edit keeps that; an end ends it."""
    rate = ("--dimension", "requests_per_minute")
    (limit,) = rows(
        parley("limits", "set", "--tenant", "acme", "--scope", "tenant", *rate, "--limit", "1", "--json")
    )
    assert (limit["limit"], limit["burst"], limit["mode"]) == (1, None, "enforce")
    (tenant,) = rows(parley("tenants", "list", "--json"))
    assert isinstance(admit(home, redis_url, settings, tenant["tenant"], "ann"), Admitted)
    assert isinstance(admit(home, redis_url, settings, tenant["tenant"], "ann"), Refusal)
    (listed,) = rows(parley("limits", "list", "--tenant", "acme", "--json"))
    assert (listed["limit_id"], listed["used"], listed["remaining"]) == (limit["limit_id"], 1, 0)
    more = ("--limit", "1", "--burst", "2")
    (edited,) = rows(parley("limits", "set", "--tenant", "acme", "--scope", "tenant", *rate, *more, "--json"))
    assert edited["limit_id"] != limit["limit_id"]
    (shown,) = rows(parley("limits", "show", "--tenant", "acme", edited["limit_id"], "--json"))
    assert (shown["used"], shown["remaining"]) == (1, 1)
    (ended,) = rows(parley("limits", "end", "--tenant", "acme", edited["limit_id"], "--json"))
    assert ended["ended"] is not None
    assert rows(parley("limits", "list", "--tenant", "acme", "--json")) == []
    assert len(rows(parley("limits", "list", "--tenant", "acme", "--ended", "--json"))) == 2


def test_a_limit_for_each_is_shown_for_one(parley: Command, home: Path, redis_url: str, settings: Settings):
    """`list` has no one number for it; `show --id` has."""
    each = ("--scope", "user", "--dimension", "concurrency", "--limit", "4")
    (limit,) = rows(parley("limits", "set", "--tenant", "acme", *each, "--json"))
    assert limit["of"] == "each"
    (tenant,) = rows(parley("tenants", "list", "--json"))
    admit(home, redis_url, settings, tenant["tenant"], "ann")
    (listed,) = rows(parley("limits", "list", "--tenant", "acme", "--json"))
    assert listed["used"] is None
    for user, used in (("ann", 1), ("bob", 0)):
        shown = parley("limits", "show", "--tenant", "acme", limit["limit_id"], "--of", user, "--json")
        (facts,) = rows(shown)
        assert (facts["of"], facts["used"], facts["remaining"]) == (user, used, 4 - used)


def test_a_limit_in_shadow_says_how_often_it_would_have_refused(
    parley: Command, home: Path, redis_url: str, settings: Settings
):
    """It refuses nobody; an operator sees what enforcing it would do."""
    shadow = ("--scope", "tenant", "--dimension", "concurrency", "--limit", "0", "--mode", "shadow")
    parley("limits", "set", "--tenant", "acme", *shadow)
    (tenant,) = rows(parley("tenants", "list", "--json"))
    for user in ("ann", "bob"):
        assert isinstance(admit(home, redis_url, settings, tenant["tenant"], user), Admitted)
    (listed,) = rows(parley("limits", "list", "--tenant", "acme", "--json"))
    assert (listed["mode"], listed["would_refuse"], listed["used"]) == ("shadow", 2, 2)
    assert "would_refuse" in parley("limits", "list", "--tenant", "acme").stdout


def test_a_project_and_a_key_are_named_as_elsewhere(parley: Command):
    """By name, id or prefix; the id is what is kept. What does not exist is told."""
    (key,) = rows(parley("keys", "create", "--tenant", "acme", "--json"))
    rate = ("--dimension", "tokens_per_minute", "--limit", "9", "--json")
    for scope, named, id in (("key", key["prefix"], key["key"]), ("project", "default", key["project"])):
        limit = parley("limits", "set", "--tenant", "acme", "--scope", scope, "--of", named, *rate)
        assert rows(limit)[0]["of"] == id
    for scope in ("key", "project"):
        refused = parley("limits", "set", "--tenant", "acme", "--scope", scope, "--of", "nobody", *rate)
        assert isinstance(refused.exception, StartupError)
        assert f"there is no {scope} 'nobody'" in str(refused.exception)
    assert "no limit 'x'" in str(parley("limits", "end", "--tenant", "acme", "x").exception)
    assert "there is no limit 'x'" in str(parley("limits", "show", "--tenant", "acme", "x").exception)


def test_a_limit_on_a_rotated_key_is_its_chain_s(
    parley: Command, home: Path, redis_url: str, settings: Settings
):
    """Any key of a chain names it; what is printed says that it holds for all of them, and `show --id` tells
    the same use for each."""
    (first,) = rows(parley("keys", "create", "--tenant", "acme", "--json"))
    (second,) = rows(parley("keys", "rotate", "--tenant", "acme", first["prefix"], "--json"))
    both = [first["prefix"], second["prefix"]]
    rate = ("--scope", "key", "--dimension", "requests_per_minute", "--limit", "5")
    for key in both:
        (limit,) = rows(parley("limits", "set", "--tenant", "acme", *rate, "--of", key, "--json"))
        assert (limit["of"], limit["holds_for"]) == (first["key"], both)
        assert "whole chain" in limit["note"]
    (listed,) = rows(parley("limits", "list", "--tenant", "acme", "--json"))
    assert (listed["of"], listed["used"]) == (first["key"], 0)
    (each,) = rows(parley("limits", "set", "--tenant", "acme", *rate, "--json"))
    for key in both:
        shown = parley("limits", "show", "--tenant", "acme", each["limit_id"], "--of", key, "--json")
        (facts,) = rows(shown)
        assert (facts["of"], facts["holds_for"]) == (first["key"], both)

"""Each process' own Redis user: whole answers run under them, and nobody reaches more than they need."""

import asyncio
import re
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pydantic import SecretStr
from redis.exceptions import NoPermissionError
from sqlmodel import select

from admin.status import read_status
from billing.api import Quota
from billing.people.tries import TRIES_MAX, SignInTries
from billing.posting.biller import main as biller_main
from billing.tables.refusals import RefusalMinute
from core.access.access_commands import acl_command
from core.access.processes import (
    ACKNOWLEDGED_COMMANDS,
    BILLER,
    CONSOLE,
    GATEWAY,
    OPERATOR,
    PROCESSES,
    SCRIPT_COMMANDS,
    SUPERVISOR,
    WORKER,
)
from core.access.redis_acl import acl_lines, set_commands, users
from core.configuration.settings import Settings
from core.errors import StartupError
from core.redis import one_time
from core.sql.database import Database
from core.tasks import cancel_tasks
from engine.api import PoolQueue, Reaper, explain_request
from engine.node.reports import PoolNodes, ReadyTime, WorkerProcessState
from tests.security.redis_users import billed, limited
from tests.server.site import Site, running_site
from tests.support.patience import wait_until
from tests.support.redis import Redis
from tests.support.users import assert_nothing_refused, client_of, make_user, url_of

ROOT = Path(__file__).parents[2]
TENANT = "{t:acme}"
FORBIDDEN_TO_A_WORKER = (
    ("SET", f"{TENANT}ticket:0", "x"),
    ("HSET", f"{TENANT}sess:0", "owner", "x"),
    ("ZADD", f"{TENANT}conns:k", 1, "x"),
    ("SADD", f"{TENANT}cancel:0", "x"),
    ("SET", "parley:code:0", "x"),
    ("GET", "parley:code:0"),
    ("SET", "parley:person:0", "x"),
    ("DEL", "parley:tries:0"),
    ("ZADD", "parley:tenants:open", 1, "x"),
    ("XADD", "{p:other}ended", "*", "e", "x"),
    ("XADD", "parley:refused", "*", "c", "x"),
    ("HSET", "{p:other}req:acme:0", "status", "x"),
    ("GET", "{p:other}in:acme:0"),
    ("HSET", "{p:default}ready", "x", "x"),
    ("SADD", "parley:pools", "x"),
    ("SREM", "parley:pools", "default"),
    ("PUBLISH", "parley:control", "x"),
    ("SUBSCRIBE", "parley:control"),
    ("SPUBLISH", "{p:other}gw:g", "x"),
    ("EVAL", "return 1", 0),
    ("SCRIPT", "LOAD", "return 1"),
    ("SCRIPT", "FLUSH"),
    ("KEYS", "*"),
    ("SCAN", 0),
    ("FLUSHALL",),
    ("CONFIG", "GET", "*"),
    ("ACL", "WHOAMI"),
    ("CLIENT", "KILL", "ID", 1),
    ("MONITOR",),
    ("EVAL_RO", "return 1", 0),
    ("FUNCTION", "LOAD", "x"),
)


@pytest.fixture
async def gateway(sqlite: Database, redis: Redis, settings: Settings) -> AsyncGenerator[Site]:
    """A gateway, under its own user."""
    async with running_site(settings, sqlite, redis) as site:
        yield site


@pytest.mark.parametrize("command", FORBIDDEN_TO_A_WORKER, ids=lambda command: " ".join(map(str, command)))
async def test_a_worker_reaches_nothing_but_its_work(redis: Redis, redis_url: str, command: tuple[Any, ...]):
    """No sign-ins, no other pool, no control channel, no scripts of its own."""
    client: Any = Redis.from_url(url_of(redis_url, await make_user(redis, WORKER)))
    with pytest.raises(NoPermissionError):
        await client.execute_command(*command)
    await client.aclose()


@pytest.mark.parametrize("process", [WORKER, SUPERVISOR, BILLER, CONSOLE], ids=lambda process: process.name)
async def test_only_gateways_and_operators_make_sign_ins(redis: Redis, redis_url: str, process: Any):
    """Whoever else is taken over mints none."""
    client: Any = Redis.from_url(url_of(redis_url, await make_user(redis, process)))
    for key in (f"{TENANT}ticket:0", f"{TENANT}sess:0", "parley:code:0"):
        with pytest.raises(NoPermissionError):
            await client.set(key, "x")
    await client.aclose()


async def test_a_console_signs_people_in_under_its_own_user(redis: Redis, redis_url: str):
    """It counts tries, forgets them, and uses up links."""
    async with client_of(redis, redis_url, CONSOLE) as console:
        tries = SignInTries(console)
        for number in range(TRIES_MAX + 1):
            await tries.at_account("ann@example.com", f"192.0.2.{number}", None)
        await tries.forget("ann@example.com", "192.0.2.0", None)
        assert await one_time.use_once(console, "parley:person:0", 1000)
        assert not await one_time.use_once(console, "parley:person:0", 1000)


async def test_a_paid_answer_from_end_to_end(
    gateway: Site, sqlite: Database, redis: Redis, redis_url: str, settings: Settings
):
    """Gateway, worker, supervisor and biller, each under its own user: admitted, answered, settled, billed;
    the console and the command line look at it."""
    stop = asyncio.Event()
    own = url_of(redis_url, await make_user(redis, BILLER))
    billing = settings.model_copy(update={"redis_url": SecretStr(own)})
    async with (
        client_of(redis, redis_url, SUPERVISOR) as supervisor,
        client_of(redis, redis_url, OPERATOR) as operator,
        client_of(redis, redis_url, CONSOLE) as console,
        gateway.answering("Good day."),
        gateway.welcomed() as peer,
    ):
        await limited(sqlite, operator, gateway.tenant)
        queue = PoolQueue(supervisor, "default", settings)
        reaper = Reaper(queue, Quota(supervisor, settings), settings.reap_interval_ms)
        reaping, biller = asyncio.create_task(reaper.run()), asyncio.create_task(biller_main(billing, stop))
        await gateway.crew_ended(id := await peer.send("Hello?"))
        await peer.send("Hello?", model="nobodys")
        told = await explain_request(sqlite, console, settings, id, None)
        await queue.refuse_late_enqueue("acme", ["0"])
        await reaper.sweep()
        await PoolNodes(queue).beat([ReadyTime("w0", WorkerProcessState.READY, 1, "cpu-0", "cpu")])
        await read_status(settings, console, sqlite)
        await wait_until(lambda: billed(sqlite))
        await wait_until(lambda: refused(sqlite))
        stop.set()
        await biller
        await cancel_tasks([reaping])
    await assert_nothing_refused(redis, "parley-biller")
    assert (told.tenant, told.unread) == (gateway.tenant, "")


async def refused(db: Database) -> bool:
    """What the gateway refused has been counted."""
    async with db.session() as session:
        return (await session.exec(select(RefusalMinute.code))).first() == "unknown_model"


def test_scripts_run_only_what_is_declared():
    """A script runs with its caller's rights: a command that is missing here fails under a user only."""
    called = {
        command.lower()
        for package in ("core", "billing", "engine", "server", "admin")
        for script in (ROOT / package).rglob("*.lua")
        for command in re.findall(r"call\('([A-Z]+)'", script.read_text())
    }
    keepers = set(ACKNOWLEDGED_COMMANDS.split())  # ends.lua, of who keeps journals
    assert called - set(SCRIPT_COMMANDS.split()) == {command.partition("|")[0] for command in keepers}
    for process in (GATEWAY, SUPERVISOR, WORKER):
        assert keepers <= set(" ".join(process.commands).split())
    assert not {"eval", "keys", "flushall", "config", "acl"} & set(SCRIPT_COMMANDS.split())


def test_every_kind_of_key_in_the_code_is_declared():
    """Those of tenants, and the installation's own."""
    found: set[str] = set()
    for package in ("core", "billing", "engine", "server", "admin"):
        for file in (ROOT / package).rglob("*.py"):
            text = file.read_text()
            found |= {f"T:{kind}" for kind in re.findall(r"\{\{t:\{[^}]*\}\}\}([a-z_]+:?)", text)}
            found |= {f"I:{kind}" for kind in re.findall(r"installation\}:([a-z]+:?)", text)}
            found |= set(re.findall(r"f?\"(parley:[a-z]+:(?:[a-z]+\")?)", text))
    declared = {kind for process in PROCESSES for kind in (*process.writes, *process.reads, *process.listens)}
    assert {kind.rstrip('"') for kind in found} - declared == set()


def test_nobody_is_given_whole_tenants(settings: Settings):
    """Rules list kinds."""
    for name, rules in users("parley", ["default", "big"]).items():
        assert not {"~*", "allkeys", "&*", "allchannels", "+@all", "~{t:*}", "~{t:*}*"} & set(rules), name
        if "worker" in name:
            pool = name.rpartition("-")[2]
            assert all("{p:" not in rule or f"{{p:{pool}}}" in rule for rule in rules)


def test_a_rule_is_for_this_installation_and_for_what_it_names():
    """A kind without a colon is one key, not all that begin like it."""
    for name, rules in users("mine", ["default"]).items():
        keys = [rule.partition("~")[2] for rule in rules if "~" in rule]
        assert rules[:3] == ["resetkeys", "resetchannels", "-@all"], name
        assert all(key.startswith(("{p:", "{t:*}", "mine:", "parley:")) for key in keys), name
        assert all(key.endswith(":*") or key[-1] not in "*:" for key in keys), name


@pytest.mark.parametrize("name", ["a ~*", "a\nuser b on nopass ~* +@all", "*", "", "a>b", "é"])
def test_a_pool_that_could_write_rules_is_refused(name: str):
    """Its name stands in them as it is."""
    for installation, pools in ((name, ["default"]), ("parley", ["default", name])):
        with pytest.raises(StartupError, match="cannot stand in a rule"):
            users(installation, pools)


def test_a_user_that_is_set_again_keeps_nothing_of_before():
    """What an older release was given is taken away."""
    of = users("parley", ["default"])
    *lines, last = set_commands(acl_lines(of, dict.fromkeys(of, "x")))
    assert len(lines) == len(of)
    assert all(
        re.match(r"ACL SETUSER parley-[a-z-]+ reset on #[0-9a-f]{64} resetkeys ", line) for line in lines
    )
    assert last.startswith("ACL SETUSER default off ")


def test_the_command_writes_users_and_keeps_passwords(home: Path):
    """The server's file has hashes only; a second run changes no password."""
    environment = {"PARLEY_HOME": str(home)}
    first = CliRunner().invoke(acl_command, ["--pool", "default"], env=environment)
    assert first.exit_code == 0, first.output
    folder = home / "access"
    password = (folder / "parley-worker-default.password").read_text()
    again = CliRunner().invoke(acl_command, ["--pool", "default", "--pool", "big"], env=environment)
    assert again.exit_code == 0, again.output
    written = (folder / "users.acl").read_text()
    assert "user parley-worker-big on #" in written
    assert written.startswith("user default off")
    assert (folder / "parley-worker-default.password").read_text() == password not in written
    assert all(path.stat().st_mode & 0o077 == 0 for path in folder.glob("*.password"))
    passwords = [path.read_text() for path in folder.glob("*.password")]
    assert len(passwords) == len(set(passwords)) > 6
    assert all(re.fullmatch("[0-9a-f]{64}", each) for each in passwords)
    printed = CliRunner().invoke(acl_command, ["--set"], env=environment)
    assert printed.stdout.splitlines()[-1].startswith("ACL SETUSER default off")
    assert printed.stderr.startswith("next: run these on every node")


@pytest.mark.parametrize(
    ("url", "good"),
    [
        ("redis://redis.example:6379/0", True),
        ("rediss+cluster://[fd00::1]:6379", True),
        ("unix:///run/redis.sock", True),
        ("redis.example:6379", False),
        ("redis.example", False),
        ("redis://:6379/0", False),
        ("redis://redis.example:port", False),
        ("unix://", False),
        ("http://redis.example:6379", False),
    ],
)
def test_a_place_that_is_none_changes_no_file(home: Path, url: str, good: bool):
    """A URL without its scheme was written over good ones."""
    environment = {"PARLEY_HOME": str(home)}
    kept = home / "access" / "parley-gateway.url"
    kept.parent.mkdir()
    kept.write_text("good")
    done = CliRunner().invoke(acl_command, ["--url", url], env=environment)
    assert (done.exit_code == 0) is (kept.read_text() != "good") is good, done.output
    if good:
        assert f"PARLEY_REDIS_URL_FILE={kept}" in done.output
    else:
        assert "'--url'" in done.output
        assert "rediss://host:6379/0" in done.output
        assert list(kept.parent.iterdir()) == [kept]

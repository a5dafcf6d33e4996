"""`parley workers`, `parley requests` and `parley queue` as operators call them, on a real Valkey."""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from billing.api import create_tenant
from billing.pools import PoolRow, create_pool, drain_pool
from core.cli import parley as cli
from core.configuration.settings import Settings
from core.errors import StartupError
from core.sql.database import Database
from engine.api import Control
from engine.main import model_of
from engine.models.registry import ModelRecord, list_models, save
from engine.node.reports import NodeReport, PoolNodes, WorkerProcessState, WorkerReport
from tests.engine.builders import FINGERPRINT, TENANT, Pool, append_to, request
from tests.support.home import settings_in
from tests.support.patience import soon
from tests.support.processes import finished
from tests.support.processes import parley as command_line
from tests.support.redis import Redis

FAR_MS = 4_000_000_000_000
SECRET = "what nobody but its reader may see"


@pytest.fixture
def pool(redis: Redis, settings: Settings) -> Pool:
    """The default pool, in real time, so that commands see what they are given."""
    return Pool(redis, settings, clock=None)  # pyright: ignore[reportArgumentType]


class Parley:
    """The `parley` command of an installation, in this process."""

    async def __call__(self, *arguments: str, code: int = 0) -> str:
        """What it prints; with `code` 1 the line that it fails with."""
        result = await asyncio.to_thread(CliRunner().invoke, cli, arguments)
        if code:
            assert isinstance(result.exception, StartupError), result.output
            return str(result.exception)
        assert result.exit_code == 0, (result.output, result.exception)
        assert not result.stderr  # how far it is, is for terminals
        return result.stdout

    async def rows(self, *arguments: str) -> list[dict[str, Any]]:
        """What it prints with --json."""
        return [json.loads(line) for line in (await self(*arguments, "--json")).splitlines()]


@pytest.fixture
def parley(home: Path, redis_url: str, sqlite_template: Path, monkeypatch: pytest.MonkeyPatch) -> Parley:
    """The command on the run's Valkey, and a database for what is recorded."""
    shutil.copy(sqlite_template, home / "parley.db")
    monkeypatch.setenv("PARLEY_HOME", str(home))
    monkeypatch.setenv("PARLEY_REDIS_URL", redis_url)
    return Parley()


async def test_requests_are_listed_and_shown_without_their_text(pool: Pool, parley: Parley, sqlite: Database):
    """Neither as text nor as JSON, in no command, is there a word of a prompt or an answer."""
    claim = await pool.running(gateway="g1", deadline_ms=4_000_000_000_000)
    await pool.queue.append("w1", [append_to(claim, ids=(1, 2), x=SECRET)])
    tenant = (await create_tenant(sqlite, "acme")).tenant_id
    waiting = request(tenant=tenant, deadline_ms=4_000_000_000_000)
    await pool.queue.enqueue(waiting)
    listed, shown = await parley("requests", "list"), await parley("requests", "show", claim.id)
    assert claim.id in listed
    assert waiting.id in listed
    assert "g1 reading" in shown
    (row,) = await parley.rows("requests", "list", "--tenant", tenant, "--status", "queued")
    assert (row["id"], row["status"], row["tenant_name"]) == (waiting.id, "queued", "acme")
    assert "acme" in listed
    assert tenant not in listed, "a name is shorter"
    assert "`parley requests find`" in await parley("requests", "list", "--status", "ended")
    (found,) = await parley.rows("requests", "show", claim.id)
    assert (found["worker"], found["tokens"], found["log_head"]) == ("w1", 2, 3)
    top = await parley("queue", "top")
    assert "1 waiting, 1 running" in top
    (snapshot,) = await parley.rows("queue", "top", "--once")
    assert snapshot["classes"][0]["waiting"] == 1
    for text in (listed, shown, top, json.dumps([row, found, snapshot])):
        assert SECRET not in text


async def test_a_waiting_request_is_cancelled_at_once(pool: Pool, parley: Parley):
    """It ends, its sender pays nothing, and a second cancel says that it had ended."""
    waiting = request(deadline_ms=4_000_000_000_000)
    await pool.queue.enqueue(waiting)
    assert "was queued and has ended" in await parley("requests", "cancel", waiting.id)
    view = await pool.queue.view(TENANT, waiting.id)
    assert view is not None
    assert view.ended
    assert "had ended before" in await parley("requests", "cancel", waiting.id)
    assert "cancelled" in await parley("requests", "list", "--status", "ended")


async def test_a_running_request_is_its_workers_to_end(pool: Pool, parley: Parley):
    """It is marked, and a worker that does not obey shows in the line that follows."""
    claim = await pool.running()
    line = await parley("requests", "cancel", claim.id, code=1)
    assert "its worker has not ended it yet" in line
    view = await pool.queue.view(TENANT, claim.id)
    assert view is not None
    assert view.control == Control.CANCEL


async def test_a_damaged_request_is_told_to_be_so(pool: Pool, parley: Parley):
    """Whoever cancels or moves one whose record a worker damaged reads a line, no traceback."""
    e = request(deadline_ms=4_000_000_000_000)
    await pool.queue.enqueue(e)
    await pool.redis.hset(pool.key(f"req:{TENANT}:{e.id}"), mapping={"visible": b"\xff", "hop": "x"})
    said = await parley("requests", "cancel", e.id, code=1)
    assert "the record cannot be read" in said
    await Pool(pool.redis, pool.settings, "b", clock=None).worker("wb")  # pyright: ignore[reportArgumentType]
    assert e.id in await parley("requests", "migrate", "--to", "b", e.id)


async def test_a_tenant_is_known_by_its_name_as_by_its_id(
    pool: Pool, parley: Parley, sqlite: Database, home: Path
):
    """To every command on requests; a mistyped one is named, and not taken for one that has none. While the
    database is away an id will do."""
    there = Pool(pool.redis, pool.settings, "b", clock=None)  # pyright: ignore[reportArgumentType]
    await there.worker("wb")
    acme = (await create_tenant(sqlite, "acme")).tenant_id
    ids: list[str] = []
    for each in [request(deadline_ms=FAR_MS, tenant=acme) for _ in range(3)]:
        await pool.queue.enqueue(each)
        ids.append(each.id)
    await pool.queue.enqueue(request(deadline_ms=FAR_MS, tenant="another"))
    for named in ("acme", acme):
        listed = await parley.rows("requests", "list", "--tenant", named)
        assert {row["id"] for row in listed} == set(ids)
        assert acme in await parley("requests", "show", ids[0], "--tenant", named)
    move = ("requests", "migrate", "--to", "b", "--tenant", "acme")
    assert "moved" in await parley(*move, ids[0])
    assert "2 are moved to b" in await parley(*move, "--all")
    assert "has ended" in await parley("requests", "cancel", ids[0], "--tenant", "acme")
    for wrong in (
        ("list", "--tenant", "acne"),
        ("show", ids[0], "--tenant", "acne"),
        ("cancel", ids[0], "--tenant", "acne"),
        ("migrate", "--to", "b", "--tenant", "acne", ids[0]),
        ("migrate", "--to", "b", "--tenant", "acne", "--all"),
    ):
        said = await parley("requests", *wrong, code=1)
        assert said == "there is no tenant 'acne': see `parley tenants list`"
    (home / "parley.db").unlink()
    assert len(await parley.rows("requests", "list", "--tenant", acme, "--pool", "b")) == 2


async def test_requests_are_moved_one_by_one_and_all(pool: Pool, parley: Parley):
    """`show` says where one went, `cancel` finds it there, `--all` leaves nothing behind."""
    there = Pool(pool.redis, pool.settings, "b", clock=None)  # pyright: ignore[reportArgumentType]
    await there.worker("wb")
    claim = await pool.running(deadline_ms=FAR_MS, accepted_ms=1)
    waiting = [request(deadline_ms=FAR_MS, tenant=f"t{at}") for at in range(40)]
    for each in waiting:
        await pool.queue.enqueue(each)
    move = ("requests", "migrate", "--to", "b")
    assert await parley(*move, claim.id) == f"{claim.id} moved from pool default to b\n"
    shown = await parley("requests", "show", claim.id)
    assert "b, moved there from default" in shown
    assert "in line" in shown
    (row,) = await parley.rows("requests", "show", waiting[0].id)
    assert (row["pool"], row["came_from"]) == ("default", [])
    (outcome,) = await parley.rows(*move, waiting[0].id)
    assert (outcome["moved"], outcome["source"], outcome["to"]) == (True, "default", "b")
    assert "has ended" in await parley("requests", "cancel", waiting[0].id)
    assert "no requests any more: 39 are moved to b" in await parley(*move, "--all")
    assert await parley("requests", "list") == "No request is open.\n"
    assert len(await parley.rows("requests", "list", "--pool", "b")) == 40


async def test_what_cannot_move_says_why(pool: Pool, parley: Parley):
    """In words, and with a code for scripts; nothing of it has left its place."""
    waiting = request(deadline_ms=FAR_MS)
    await pool.queue.enqueue(waiting)
    await Pool(pool.redis, pool.settings, "b").worker(fingerprint="another@1")
    result = await asyncio.to_thread(
        CliRunner().invoke, cli, ["requests", "migrate", "--to", "b", "--json", waiting.id]
    )
    assert result.exit_code == 1
    assert json.loads(result.stdout)["reason"] == "no_worker"
    assert "1 stay in pool default" in await parley("requests", "migrate", "--to", "b", "--all", code=1)
    assert await pool.places(TENANT, waiting.id) == {"line:interactive", "ids:interactive"}


async def test_a_model_that_no_pool_serves_says_so(parley: Parley, sqlite: Database):
    """And how to make one; a pool that drains serves nobody new."""
    await save(sqlite, ModelRecord("tiny", "1", FINGERPRINT, Path("/nonexistent"), 2048), {}, 1)
    unserved = "no pool serves tiny, so its requests are refused: parley pools create POOL --model tiny"
    assert (await parley("models", "list")).splitlines()[-1] == unserved
    for pool, using in (("b", ["b"]), ("c", ["b", "c"])):
        row = PoolRow(pool=pool, model="tiny", version="1", workers=1, labels={}, made_ms=1)
        await create_pool(sqlite, row)
        assert unserved not in await parley("models", "list")
        assert [row["pools"] for row in await parley.rows("models", "list")] == [using]
        await drain_pool(sqlite, pool)
    assert unserved in await parley("models", "list")


async def test_the_length_of_a_models_answers_is_set(parley: Parley, sqlite: Database):
    """And taken back."""
    await save(sqlite, ModelRecord("tiny", "1", FINGERPRINT, Path("/nonexistent"), 2048), {}, 1)
    said = await parley("models", "answers", "tiny", "--tokens", "500")
    assert said == "answers of tiny have at most 500 tokens\n"
    assert [record.answer_tokens for record in await list_models(sqlite)] == [500]
    said = await parley("models", "answers", "tiny")
    assert said == "answers of tiny have the length that PARLEY_ANSWER_TOKENS says, before 500\n"
    assert "there is no model 'big'" in await parley("models", "answers", "big", code=1)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["requests", "show", "nobody-knows"], "pool default knows no request 'nobody-knows'"),
        (["requests", "show", "*", "--tenant", "t1"], "there is no tenant 't1': see `parley tenants list`"),
        (["requests", "cancel", "nobody-knows"], "pool default knows no request 'nobody-knows'"),
        (["workers", "drain", "w9"], "there is no worker 'w9' in pool default: see `parley workers list`"),
        (["workers", "kill", "w9"], "there is no worker 'w9' in pool default: see `parley workers list`"),
    ],
)
async def test_what_does_not_exist_is_one_line(arguments: list[str], line: str, pool: Pool, parley: Parley):
    """A StartupError, which the command line prints as one line before it exits with code 1."""
    await pool.worker("w1")
    assert await parley(*arguments, code=1) == line


async def test_empty_pools_say_so(parley: Parley, redis: Redis):
    """No table of nothing; JSON is empty."""
    assert await parley("workers", "list") == "There is no worker.\n"
    assert await parley("requests", "list") == "No request is open.\n"
    assert await parley.rows("workers", "list") == []
    assert await parley.rows("requests", "list", "--pool", "default") == []
    told = await parley("requests", "list", "--pool", "another", code=1)
    assert told == "there is no pool 'another': see `parley pools list`"


def test_a_redis_that_is_away_is_one_line(home: Path):
    """With where it was looked for, on stderr, and exit code 1."""
    run = finished(command_line("workers", "list"), os.environ | {"PARLEY_HOME": str(home)})
    assert run.returncode == 1
    assert run.stderr.startswith(f"parley: Redis does not answer at unix://{home}/redis/redis.sock")
    assert len(run.stderr.splitlines()) == 1
    for arguments in (["workers", "list"], ["requests", "show", "x"], ["queue", "top", "--once"]):
        run = finished(command_line(*arguments, "--json"), os.environ | {"PARLEY_HOME": str(home)})
        assert (run.returncode, list(json.loads(run.stdout))) == (1, ["error"])


def test_models_are_listed_for_scripts(home: Path, parley: Parley):
    """One JSON object a line; nothing where there is none."""
    assert asyncio.run(parley.rows("models", "list")) == []
    db = Database(f"sqlite+aiosqlite:///{home / 'parley.db'}")
    record = ModelRecord("tiny", "1", "f1", home / "models", 4096)

    async def add() -> None:
        await save(db, record, {}, 1)
        await db.close()

    asyncio.run(add())
    (row,) = asyncio.run(parley.rows("models", "list"))
    assert (row["name"], row["version"], row["fingerprint"], row["folder"]) == (
        "tiny",
        "1",
        "f1",
        str(home / "models"),
    )


async def test_a_worker_without_a_supervisor_is_not_killed(pool: Pool, parley: Parley):
    """Nobody is there to obey; the line says what to do."""
    await pool.worker("w1")
    assert "no supervisor runs w1" in await parley("workers", "kill", "w1", code=1)
    slot = WorkerReport(0, "w2", 12, WorkerProcessState.STARTING)
    await PoolNodes(pool.queue).report(NodeReport("s1", "n1", 1, [slot]))
    assert "w2 is starting" in await parley("workers", "drain", "w2", code=1)


async def test_top_is_live_until_it_is_interrupted(pool: Pool, parley: Parley):
    """As JSON, a line each interval; Ctrl-C ends it in order."""
    await pool.worker("w1")
    argv = [sys.executable, "-m", "core.cli", "queue", "top", "--json", "--interval", "0.2"]
    pipe = subprocess.PIPE
    # What a shell runs in the background ignores Ctrl-C, and so would a command that it starts.
    obeying = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    process = await asyncio.create_subprocess_exec(*argv, stdout=pipe, stderr=pipe, preexec_fn=obeying)
    assert process.stdout is not None
    lines = [json.loads(await process.stdout.readline()) for _ in range(2)]
    assert lines[1]["at_ms"] > lines[0]["at_ms"]
    process.send_signal(signal.SIGINT)
    _, said = await soon(process.communicate())
    assert said == b""
    assert process.returncode == 0


async def test_a_worker_without_a_home_says_what_to_start(home: Path):
    """In its own line alone: no driver's thread is left behind to crash."""
    before = set(threading.enumerate())
    with pytest.raises(StartupError, match="no tables yet: start with `parley up`"):
        await model_of(settings_in(home / "none"))
    assert set(threading.enumerate()) <= before
    assert not (home / "none").exists()

"""What operators order of workers, requests and models stands in the audit log, before it is done."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner

from billing.api import PLATFORM
from billing.audit.log import list_rows
from billing.audit.verify import verify_log
from core.cli import parley as cli
from core.clock import now_ms
from core.configuration.settings import Settings
from core.errors import StartupError
from core.sql.database import Database
from engine.models.registry import ModelRecord, limit_answers, save
from engine.node.reports import NodeReport, PoolNodes, WorkerProcessState, WorkerReport
from engine.operations import workers
from tests.engine.builders import FINGERPRINT, TENANT, Pool, request
from tests.support.redis import Redis

FAR_MS = 4_000_000_000_000


class OrdersDesk:
    """Where an operator types, and what is found in the log afterwards."""

    def __init__(self, pool: Pool, database: Database) -> None:
        self.pool = pool
        self.db = database

    async def run(self, *arguments: str) -> None:
        """Type a command, whatever becomes of it."""
        result = await asyncio.to_thread(CliRunner().invoke, cli, ["--author", "Ann", *arguments])
        assert result.exit_code == 0 or isinstance(result.exception, StartupError | SystemExit), result.output

    async def rows(self, tenant: str = PLATFORM) -> Sequence[tuple[str, str]]:
        """Action and target of a chain's rows, oldest first; all by Ann, and whole."""
        told = await list_rows(self.db, tenant)
        found = [row for row in told if row.source != "migration"][::-1]
        assert all(row.author.startswith("Ann") and row.source == "command" for row in found)
        assert (await verify_log(self.db, tenant)).faults == []
        return [(row.action, row.target) for row in found]


@pytest.fixture
async def desk(
    redis: Redis,
    settings: Settings,
    sqlite: Database,
    home: Path,
    redis_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> OrdersDesk:
    """An operator's, who is patient for a moment only."""
    monkeypatch.setenv("PARLEY_HOME", str(home))
    monkeypatch.setenv("PARLEY_REDIS_URL", redis_url)
    monkeypatch.setattr(workers, "DRAIN_SECONDS_MAX", 0.05)
    monkeypatch.setattr(workers, "KILL_SECONDS_MAX", 0.05)
    return OrdersDesk(Pool(redis, settings, clock=None), sqlite)  # pyright: ignore[reportArgumentType]


async def test_orders_to_workers(desk: OrdersDesk):
    """Also one that is not obeyed; none where there is nobody to give it to."""
    await desk.pool.worker("w1")
    await PoolNodes(desk.pool.queue).report(
        NodeReport("s1", "n1", 1, [WorkerReport(0, "w1", 12, WorkerProcessState.STARTING)])
    )
    await desk.run("workers", "drain", "w1")
    await desk.run("workers", "kill", "w1")
    await desk.run("workers", "kill", "w9")
    await desk.run("workers", "list")
    assert await desk.rows() == [("worker.drain", "w1"), ("worker.kill", "w1")]


async def test_orders_to_requests(desk: OrdersDesk):
    """In the chain of the tenant whose request it is; a pool that is emptied in the platform's."""
    there = Pool(desk.pool.redis, desk.pool.settings, "b", clock=None)  # pyright: ignore[reportArgumentType]
    await there.worker("wb")
    first, second = request(deadline_ms=FAR_MS), request(deadline_ms=FAR_MS)
    for each in (first, second):
        await desk.pool.queue.enqueue(each)
    await desk.run("requests", "migrate", "--to", "b", first.id)
    await desk.run("requests", "cancel", second.id)
    await desk.run("requests", "cancel", second.id)
    await desk.run("requests", "show", second.id)
    await desk.run("requests", "migrate", "--to", "b", "--all")
    assert await desk.rows(TENANT) == [("request.migrate", first.id), ("request.cancel", second.id)]
    assert await desk.rows() == [("request.migrate_all", "default")]


async def test_a_model_is_recorded_once(sqlite: Database):
    """When it is new, changed or limited; `parley up` says at each start what is known."""
    model = ModelRecord("tiny", "1", FINGERPRINT, Path("/nonexistent"), 2048)
    for _ in range(2):
        await save(sqlite, model, {"files": {}}, now_ms())
    await limit_answers(sqlite, "tiny", 512)
    rows = list(await list_rows(sqlite, PLATFORM))[-2::-1]  # without the seal
    assert [(row.action, row.target, row.after) for row in rows] == [
        ("model.add", "tiny 1", rows[0].after),
        ("model.answers", "tiny", '{"1":512}'),
    ]


@pytest.mark.parametrize(
    "database", ["sqlite+aiosqlite:///empty.db", "postgresql+asyncpg://nobody@127.0.0.1:1/x"]
)
async def test_no_order_is_given_that_cannot_be_recorded(
    desk: OrdersDesk, home: Path, monkeypatch: pytest.MonkeyPatch, database: str
):
    """The database is away, or not ours: nothing is done, and the line says why."""
    waiting = request(deadline_ms=FAR_MS)
    await desk.pool.queue.enqueue(waiting)
    monkeypatch.setenv("PARLEY_DATABASE_URL", database.replace("empty", f"{home}/empty"))
    result = await asyncio.to_thread(CliRunner().invoke, cli, ["requests", "cancel", waiting.id])
    assert isinstance(result.exception, StartupError), result.exception
    assert "nothing is done, since it cannot be recorded" in str(result.exception)
    assert await desk.pool.places(TENANT, waiting.id) == {"line:interactive", "ids:interactive"}

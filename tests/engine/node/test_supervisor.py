"""The supervisor with real worker processes (scripted engine): exits are seen at once, and nothing is left
behind."""

import asyncio
import json
import os
import re
import signal
import socket
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import psutil
import pytest
from click.testing import CliRunner
from structlog.testing import capture_logs

from billing.api import Quota
from core.cli import parley as cli
from core.clock import now_ms
from core.configuration.settings import Settings
from core.errors import StartupError
from core.redis.figure_minutes import read_figures
from core.tasks import cancel_tasks
from core.web.metrics import serving_metrics
from engine.api import PoolQueue
from engine.lifecycle.reaper import Reaper
from engine.models.known import KnownModel
from engine.node import supervised_worker
from engine.node.reports import WorkerProcessState
from engine.node.supervised_worker import BACKOFF_SECONDS_MAX, STABLE_SECONDS, Backoff
from engine.node.supervisor import Supervisor
from engine.operations.inspection import Inspection
from tests.engine.builders import FINGERPRINT, HOUR_MS, TENANT
from tests.engine.node.supervised import crew as crew
from tests.engine.node.supervised import supervised
from tests.engine.workers import PoolWorkers
from tests.support.patience import PROMPT_SECONDS, START_SECONDS, LivedTime, finished, soon, wait_until
from tests.support.ports import two_free_ports_in_a_row


async def test_an_answer_survives_the_death_of_its_worker(crew: PoolWorkers):
    """kill -9 mid-answer: another worker appends the next token at once, and the dead one is replaced."""
    async with supervised(crew, crew.settings, workers=2) as before:
        whole = await crew.send(max_tokens=150)
        await crew.ended(whole)
        id = await crew.send(max_tokens=150)
        await crew.reaches(id, 20)
        holder = next(worker for worker in await crew.queue.workers() if worker.claims)
        n = len(await crew.queue.tokens("t1", id)) // 4
        with LivedTime() as lived:
            os.kill(int(holder.info["pid"]), signal.SIGKILL)
            await crew.reaches(id, n + 10)
        assert lived.seconds < PROMPT_SECONDS
        await crew.ended(id)
        assert await crew.text(id) == await crew.text(whole)
        assert await crew.kinds(id) == ["queued", "running", "moved:lost", "end"]
        await wait_until(lambda: _replaced(crew, holder.worker, 2), START_SECONDS)
        assert holder.worker in {worker.worker for worker in before}


async def test_a_stopped_supervisor_drains_its_workers(crew: PoolWorkers):
    """Requests go back as drained, not lost, and run on under the next supervisor. What its workers counted
    is told before they end."""
    async with supervised(crew, crew.settings, workers=1):
        id = await crew.send(max_tokens=120)
        await crew.reaches(id, 10)
    assert (await crew.kinds(id))[-1] == "moved:drain"
    async with supervised(crew, crew.settings, workers=1):
        assert (await crew.ended(id))["reason"] == "length"
    figures = await read_figures(crew.redis, crew.settings)
    assert (sum(figures.ended({"length"})), figures.percentiles("first_token").count) == (1, 1)
    assert sum(minute.tokens["output_tokens"] for minute in figures.found) == 120
    assert oct((crew.settings.home / "logs" / "worker-0.log").stat().st_mode)[-3:] == "600"


async def test_an_operator_drains_a_worker(crew: PoolWorkers):
    """`workers drain` moves what it holds, ends it in order, and another takes its place at once."""
    async with supervised(crew, crew.settings, workers=2):
        id = await crew.send(max_tokens=150)
        await crew.reaches(id, 20)
        holder = next(worker.worker for worker in await crew.queue.workers() if worker.claims)
        assert f"{holder} is drained: 1 request moved\n" in await _parley("workers", "drain", holder)
        await crew.ended(id)
        assert await crew.kinds(id) == ["queued", "running", "moved:drain", "end"]
        await wait_until(lambda: _replaced(crew, holder, 2), START_SECONDS)


async def test_an_operator_kills_a_worker(crew: PoolWorkers):
    """`workers kill` ends it through its supervisor; its request goes on elsewhere."""
    async with supervised(crew, crew.settings, workers=2):

        async def reported() -> bool:
            listed = (await _parley("workers", "list", "--json")).splitlines()
            return [(row["state"], (row["memory_mib"] or 0) > 10) for row in map(json.loads, listed)] == [
                ("ready", True)
            ] * 2

        await wait_until(reported)
        id = await crew.send(max_tokens=150)
        await crew.reaches(id, 20)
        holder = next(worker.worker for worker in await crew.queue.workers() if worker.claims)
        assert f"{holder} is killed: 1 request given back\n" in await _parley("workers", "kill", holder)
        await crew.ended(id)
        assert await crew.kinds(id) == ["queued", "running", "moved:lost", "end"]
        await wait_until(lambda: _replaced(crew, holder, 2), START_SECONDS)


async def _parley(*arguments: str) -> str:
    result = await asyncio.to_thread(CliRunner().invoke, cli, arguments)
    assert result.exit_code == 0, (result.output, result.exception)
    return result.output  # this process's log lines among it


async def _replaced(crew: PoolWorkers, gone: str, count: int) -> bool:
    names = {worker.worker for worker in await crew.queue.workers()}
    return len(names) == count and gone not in names


async def test_a_stopped_worker_is_taken_out(crew: PoolWorkers, monkeypatch: pytest.MonkeyPatch):
    """SIGSTOP: others have its request when its lease is over, and it is replaced, by force."""
    monkeypatch.setattr(supervised_worker, "STOP_SECONDS_MAX", 0)
    async with supervised(crew, crew.settings, workers=1) as (worker,):
        id = await crew.send(max_tokens=60)
        await crew.reaches(id, 5)
        os.kill(int(worker.info["pid"]), signal.SIGSTOP)
        await wait_until(lambda: _lapsed(crew))
        with monkeypatch.context() as impatient:
            impatient.setattr(supervised_worker, "LAPSED_SECONDS_MAX", 0)
            await wait_until(lambda: not psutil.pid_exists(int(worker.info["pid"])))
        await wait_until(lambda: _replaced(crew, worker.worker, 1), START_SECONDS)
        await crew.ended(id)
        assert await crew.kinds(id) == ["queued", "running", "moved:lost", "end"]


async def _lapsed(crew: PoolWorkers) -> bool:
    return not any(view.alive for view in await crew.queue.workers())


async def test_a_model_that_does_not_load_is_an_alarm(crew: PoolWorkers, monkeypatch: pytest.MonkeyPatch):
    """After three retries; `workers list` says so, starting goes on, and success ends it."""
    monkeypatch.setattr(supervised_worker, "BACKOFF_SECONDS_MIN", 0.01)
    monkeypatch.setattr(supervised_worker, "BACKOFF_SECONDS_MAX", 0.1)
    tokenizer = crew.settings.home / "models" / "tiny" / "1" / "tokenizer.json"
    hidden = tokenizer.rename(tokenizer.with_suffix(".hidden"))
    stop = asyncio.Event()
    task = asyncio.create_task(Supervisor(crew.settings, crew.redis, 1).run(stop))
    seen = Inspection(crew.queue)
    try:

        async def state(wanted: str) -> str | None:
            rows = [row for row in await seen.workers() if row.state == wanted]
            return rows[0].why or "well" if rows else None

        async def well() -> bool:
            return await state("ready") == "well"

        why = await wait_until(lambda: state("alarm"), START_SECONDS)
        assert why == "its model has not loaded 4 times: see worker-0.log"
        seen_at, starts = await _seen_at(crew), (await seen.workers())[0].starts or 0

        async def tried_again() -> bool:
            return ((await seen.workers())[0].starts or 0) >= starts + 2

        await wait_until(tried_again, START_SECONDS)
        assert await _seen_at(crew) == seen_at, "no request waits for what does not load"
        hidden.rename(tokenizer)
        await wait_until(well, START_SECONDS)
    finally:
        stop.set()
        await soon(task)


async def _seen_at(crew: PoolWorkers) -> bytes | None:
    """When a worker of the model was last expected."""
    client: Any = crew.redis
    return await client.hget("{p:default}sys", f"seen:{FINGERPRINT}")


async def test_a_worker_that_does_not_get_ready_is_ended(crew: PoolWorkers, monkeypatch: pytest.MonkeyPatch):
    """The wait for a start has an end."""
    monkeypatch.setenv("PARLEY_TEST_STEP_MS", "60000")  # its self-test goes on and on
    hasty = crew.settings.model_copy(update={"worker_start_seconds_max": 0})
    stop = asyncio.Event()
    task = asyncio.create_task(Supervisor(hasty, crew.redis, 1).run(stop))
    seen = Inspection(crew.queue)

    async def why() -> bool:
        return any("not ready" in row.why for row in await seen.workers())

    try:
        await wait_until(why, START_SECONDS)
    finally:
        stop.set()
        await soon(task)


async def test_a_worker_that_fails_its_self_test_never_claims(
    crew: PoolWorkers, monkeypatch: pytest.MonkeyPatch
):
    """It ends with one line and code 1 before the pool has seen it; what waits, waits for another."""
    monkeypatch.setenv("PARLEY_TEST_UNSOUND", "1")
    id = await crew.send(max_tokens=5)
    argv = [sys.executable, "-m", "engine.main", "worker", "--name", "unsound"]
    run = await asyncio.to_thread(finished, argv)
    assert run.returncode == 1
    line = "parley worker: self-test failed: the engine gives different answers to the same greedy prompt"
    assert run.stderr.splitlines()[-1] == line
    assert await crew.kinds(id) == ["queued"]
    monkeypatch.delenv("PARLEY_TEST_UNSOUND")
    async with supervised(crew, crew.settings, workers=1):
        await crew.ended(id)
    started = (crew.settings.home / "logs" / "worker-0.log").read_text()
    for phase in ("python", "model", "imports", "load", "warm_up", "self_test", "total"):
        assert f"{phase}_ms=" in started


async def test_a_second_supervisor_is_refused(crew: PoolWorkers):
    """On the same node, pool and data folder; the first one does not notice."""
    async with supervised(crew, crew.settings, workers=1):
        with pytest.raises(
            StartupError, match="another supervisor runs pool default on node local"
        ) as refused:
            await Supervisor(crew.settings, crew.redis, 1).run(asyncio.Event())
        assert f"(process {os.getpid()})" in str(refused.value)
        assert len(await crew.queue.workers()) == 1


async def test_a_sick_gpu_is_taken_out_until_it_is_well(crew: PoolWorkers):
    """Its worker is drained in order, none is started there, and the place says why."""
    stop, changed = asyncio.Event(), asyncio.Event()
    place = supervised_worker.SupervisedWorker(
        crew.settings, crew.queue, 0, 1, changed.set, KnownModel(crew.settings).read
    )
    task = asyncio.create_task(place.keep(stop))

    async def looked(state: WorkerProcessState) -> bool:
        views = {view.worker: view for view in await crew.queue.workers()}
        place.look(views.get(place.worker))
        return place.report().state is state

    try:
        await wait_until(lambda: looked(WorkerProcessState.READY), START_SECONDS)
        id = await crew.send(max_tokens=120)
        await crew.reaches(id, 5)
        place.judge("GPU 0: Xid 79")
        await wait_until(lambda: looked(WorkerProcessState.SICK), START_SECONDS)
        assert place.report().why == "GPU 0: Xid 79"
        assert (await crew.kinds(id))[-1] == "moved:drain"
        place.judge("")
        await crew.ended(id, START_SECONDS)
    finally:
        stop.set()
        await soon(task)


MEASURED = {
    f"parley_worker_{name}"
    for name in (
        *(
            "running",
            "waiting",
            "requests",
            "kv_usage",
            "claim_margin",
            "step_age_seconds",
            "step_seconds_bucket",
        ),
        *("prefill_tokens_total", "cached_tokens_total", "sampled_tokens_total", "flush_seconds_bucket"),
        *("claims_total", "requests_ended_total", "appends_total"),
    )
}


async def test_workers_and_supervisors_say_what_they_measure(crew: PoolWorkers):
    """On ports of their own where that is wanted; no page has the id of a tenant or a request."""
    port = two_free_ports_in_a_row()
    settings = crew.settings.model_copy(update={"metrics_port": port})
    async with supervised(crew, settings, workers=1), httpx.AsyncClient() as client:
        at, worker_at = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{port + 1}"
        id = await crew.send(max_tokens=150)
        await crew.ended(id)

        async def measured() -> dict[str, str]:
            page = (await client.get(f"{worker_at}/metrics")).text
            assert id not in page
            assert f'"{TENANT}"' not in page
            values = dict(re.findall(r"^(parley_\w+)(?:{[^}]*})? (\S+)$", page, re.MULTILINE))
            return values if values.keys() >= MEASURED else {}

        values = await wait_until(measured)
        assert float(values["parley_worker_sampled_tokens_total"]) >= 150
        assert float(values["parley_worker_prefill_tokens_total"]) >= 8
        statuses = [
            (await client.get(worker_at + path)).status_code for path in ("/healthz", "/readyz", "/x")
        ]
        assert statuses == [200, 200, 404]
        assert (await client.get(f"{at}/metrics")).status_code == 200


async def test_a_taken_port_costs_the_metrics_only(crew: PoolWorkers):
    """The process says so and works without."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        settings = crew.settings.model_copy(update={"metrics_port": port})
        with capture_logs() as lines, serving_metrics(settings, 0, str):
            pass
    assert [(line["event"], line["port"]) for line in lines] == [("metrics.serve_failed", port)]


async def test_the_reaper_ends_what_nobody_can_run(crew: PoolWorkers):
    """No worker for longer than the limit: `engine_lost`; past the deadline: `deadline`. Both cost 0."""
    impatient = crew.settings.model_copy(update={"no_worker_seconds_max": 0})
    async with _reaping(crew, impatient):
        end = await crew.ended(await crew.send())
        assert (end["reason"], end["code"]) == ("error", "engine_lost")
    async with _reaping(crew, crew.settings):
        id = await crew.send(deadline_ms=HOUR_MS)
    async with _reaping(crew, crew.settings, HOUR_MS):
        end = await crew.ended(id)
        assert (end["reason"], end["usage"]["total"]) == ("deadline", 0)


@asynccontextmanager
async def _reaping(crew: PoolWorkers, settings: Settings, later_ms: int = 0) -> AsyncGenerator[None]:
    queue = PoolQueue(crew.redis, crew.pool, settings, lambda: now_ms() + later_ms)
    task = asyncio.create_task(Reaper(queue, Quota(crew.redis, settings), 10).run())
    yield
    await cancel_tasks([task])


def test_restarts_back_off_only_while_they_fail():
    """At once after a long run, then twice as long each time, up to a bound."""
    backoff = Backoff().after_exit(STABLE_SECONDS)
    assert backoff.seconds == 0
    waits: list[float] = []
    for _ in range(10):
        backoff = backoff.after_exit(1.0)
        waits.append(backoff.seconds)
    assert waits[:3] == [0.5, 1.0, 2.0]
    assert waits[-1] == BACKOFF_SECONDS_MAX
    assert backoff.after_exit(STABLE_SECONDS).seconds == 0

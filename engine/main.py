"""The commands `parley worker` and `parley supervisor`."""

import asyncio
import gc
import logging
import os
import secrets
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

import click
import psutil
from redis.exceptions import NoPermissionError, RedisError
from tokenizers import Tokenizer

from core.cli import in_one_line
from core.configuration.settings import Settings
from core.errors import StartupError
from core.observability.error_facts import error_facts, kind
from core.observability.telemetry import RepeatedWarning, logger
from core.redis.client import RedisClient, connect
from core.redis.figure_minutes import FigureWriter
from core.redis.pools import announce_pool
from core.runtime import hooks
from core.runtime.service import run
from core.sql.database import database_url, require_folder
from core.tasks import cancel_tasks
from core.web.metrics import serving_metrics
from engine.backends.base import Engine, EngineDeadError
from engine.backends.environment import has_gpu, restarted_with
from engine.journal.journal import make_journal
from engine.journal.keeper import JournalKeeper
from engine.models.known import RECORD, record_of, registered
from engine.models.registry import ModelRecord
from engine.models.unchanged import check_runnable
from engine.models.vocabulary import load_tokenizer, stop_ids
from engine.node import cpu_share
from engine.node.reports import WORKERS_MAX, PoolNodes, WorkerOrderKind, counts_of
from engine.node.supervised_worker import ENGINE_DEAD
from engine.node.supervisor import Supervisor
from engine.queue.client import PoolQueue
from engine.queue.types import Claim
from engine.safety.documents import DEFAULT_POLICY
from engine.scheduling.capacity import capacity_of
from engine.scheduling.step_size import FIRST_ON_CPU, FIRST_ON_GPU, StepSizes
from engine.trials.server import TrialServer, can_try
from engine.worker import self_test
from engine.worker.claimed_request import ClaimedRequest
from engine.worker.continuation import ModelLimits
from engine.worker.core import WorkerCore
from engine.worker.policy_cache import PolicyCache
from engine.worker.startup_phases import StartupPhases
from engine.worker.worker import Worker

log = logger(__name__)
repeated = RepeatedWarning(log)

ORDER_WAIT_SECONDS = 1.0
ANNOUNCE_SECONDS = 10.0

MakeEngine = Callable[[Tokenizer], Engine]


pool_option = click.option("--pool", help="The pool to work in. By default PARLEY_POOL.")


@click.group()
def engine() -> None:
    """The engine's processes."""


@engine.command("worker")
@click.option("--name", hidden=True, help="This process's name in the pool.")
@click.option(
    "--after-failed-starts",
    "unsure",
    is_flag=True,
    hidden=True,
    help="Its last starts failed: no request waits for it.",
)
@click.option(
    "--model-record",
    "record",
    type=click.Path(exists=True, path_type=Path),
    help="A file with the model's line of `parley models list --json`: it then asks no database.",
)
@pool_option
def worker_command(name: str | None, unsure: bool, record: Path | None, pool: str | None) -> None:
    """Run one vLLM engine that takes work from the pool."""
    if record is not None:
        os.environ[RECORD] = record.read_text()
    settings = _settings(pool)
    other = hooks.other_engine() if hooks.other_engine else None
    if other is None:
        restarted_with(settings)
    supervised = name is not None
    name = name or f"{settings.node}-{os.getpid()}-{secrets.token_hex(4)}"
    outcome: list[int] = []

    async def main(settings: Settings, stop: asyncio.Event) -> None:
        outcome.append(await _work(settings, stop, name, other, not unsure, supervised))

    try:
        run(settings, "worker", main)
    except SystemExit as ended:  # it could not start, or was ended: its engine ends with it
        outcome = [ended.code if isinstance(ended.code, int) else 1]
    _leave(outcome[0] if outcome else 1)


@engine.command("supervisor")
@click.option(
    "--workers", default=1, show_default=True, type=click.IntRange(0, WORKERS_MAX), help="How many to run."
)
@click.option("--counts", hidden=True, help="How many of each version, in JSON, as an order says it.")
@pool_option
def supervisor_command(workers: int, counts: str | None, pool: str | None) -> None:
    """Keep this node's workers running and the pool tidy. A second pool is a second supervisor.

    Requests come to a pool that serves their model (`parley pools create`), or because they are moved there
    (`parley requests migrate`).
    """

    async def main(settings: Settings, stop: asyncio.Event) -> None:
        redis = connect(settings)
        try:
            await Supervisor(settings, redis, counts_of(counts or "") or workers).run(stop)
        finally:
            await redis.aclose()

    run(_settings(pool), "supervisor", main)


def _settings(pool: str | None) -> Settings:
    return Settings(pool=pool) if pool else Settings()


async def _work(
    settings: Settings,
    stop: asyncio.Event,
    name: str,
    other: MakeEngine | None,
    announced: bool,
    supervised: bool,
) -> int:
    """Run one worker. Returns its exit code. `other`: makes an engine in place of vLLM. Connections come
    after the engine's start, which forks."""
    phases = StartupPhases()
    phases.ended("python")
    record = await model_of(settings)
    await asyncio.to_thread(check_runnable, record, settings)
    if announced:
        await _announce(settings, record)
    tokenizer = load_tokenizer(record.folder)
    phases.ended("model")
    length = min(record.max_model_len, settings.worker_max_model_len or record.max_model_len)
    limits = ModelLimits(stop_ids(record.folder, tokenizer), length)
    sizes = None if other or settings.worker_batched_tokens else _step_sizes(settings, record)
    chosen = sizes.chosen() if sizes else FIRST_ON_CPU
    tokens = settings.worker_batched_tokens or max(settings.worker_slots, chosen)  # vLLM takes no fewer
    settings = settings.model_copy(update={"worker_batched_tokens": tokens})
    engine = other(tokenizer) if other else _vllm(settings, record, length)
    phases.ended("imports")
    phases.ended("load", await engine.start())
    cpu_share.restore_cpu_share()  # what follows is measured, or serves requests
    await _prove(engine, settings, tokenizer, sizes, phases)
    gc.collect()
    gc.freeze()  # what the libraries made stays; collecting it again and again would stop the decode path
    phases.log(name, record.name, engine.kv_tokens, tokens)

    policies = PolicyCache()
    policies.compiled(DEFAULT_POLICY)  # before the first claim waits for it

    def open_answer(claim: Claim) -> ClaimedRequest:
        return ClaimedRequest(claim, tokenizer, limits, settings.entry_bytes_max, policies)

    capacity = capacity_of(settings, engine.kv_tokens)
    chunk = settings.chunk_tokens
    workload = WorkerCore(settings.pool, record.fingerprint, capacity, open_answer, limits, chunk)
    redis = connect(settings)
    journal = make_journal(settings, settings.pool, name)
    worker = Worker(settings, redis, engine, record, workload, name, policies, journal)
    figures = FigureWriter(redis, settings)
    obeying = _obey(PoolNodes(PoolQueue(redis, settings.pool, settings)), name, stop)
    beside = [asyncio.create_task(loop) for loop in (obeying, figures.run())]
    if journal is not None:
        beside.append(asyncio.create_task(journal.run()))
        if not supervised:
            beside.append(
                asyncio.create_task(JournalKeeper(PoolQueue(redis, settings.pool, settings), journal).run())
            )
    if not supervised:
        beside.append(asyncio.create_task(announce_alone(redis, settings)))
        if can_try():
            beside.append(asyncio.create_task(TrialServer(settings, redis, record).run()))
    try:
        with serving_metrics(settings, 0, worker.missing):
            await worker.run(stop)
        return 0
    except EngineDeadError as error:
        log.error("engine.died", worker=name, **error_facts(error))
        await worker.abandon()
        return ENGINE_DEAD
    finally:
        try:
            await cancel_tasks(beside)
            await figures.flush()
        finally:
            await redis.aclose()


async def _prove(
    engine: Engine, settings: Settings, tokenizer: Tokenizer, sizes: StepSizes | None, phases: StartupPhases
) -> None:
    """Test the engine before anything is claimed. Raises StartupError where it is not sound. `sizes`:
    collects measurements for the next start's step size."""
    text = tokenizer.encode(self_test.TEXT, add_special_tokens=False).ids or [0]
    tokens = settings.worker_batched_tokens
    await self_test.warm_up(engine, text, tokens)
    phases.ended("warm_up")
    await self_test.check(engine, text, tokenizer.get_vocab_size())
    phases.ended("self_test")
    if sizes is not None and not sizes.known(tokens):
        if took := await self_test.full_step(engine, text, tokens):
            sizes.learn(tokens, took)
            log.info(
                "engine.full_step_measured", tokens=tokens, ms=round(took * 1000), next_start=sizes.chosen()
            )
        phases.ended("full_step")


def _step_sizes(settings: Settings, record: ModelRecord) -> StepSizes:
    return StepSizes(settings.home, record.fingerprint, FIRST_ON_GPU if has_gpu() else FIRST_ON_CPU)


async def _obey(nodes: PoolNodes, name: str, stop: asyncio.Event) -> None:
    """Drain at an operator's order (`parley workers drain`)."""
    while not stop.is_set():
        try:
            order = await nodes.next_order(name, ORDER_WAIT_SECONDS)
        except (RedisError, OSError):
            await asyncio.sleep(ORDER_WAIT_SECONDS)
            continue
        if order is not None and order.kind is WorkerOrderKind.DRAIN:
            log.info("worker.drain_ordered", worker=name)
            stop.set()


async def model_of(settings: Settings) -> ModelRecord:
    """The model to run: from its supervisor or --model-record, else from SQL."""
    told = os.environ.get(RECORD)
    if not told:
        require_folder(database_url(settings.database_endpoint))  # its thread would outlive the loop
    return record_of(told) if told else await registered(settings)


async def announce_alone(redis: RedisClient, settings: Settings) -> None:
    """Announce the pool again and again, for a worker without a supervisor, where its Redis user may, as in
    development: a worker's own user may not."""
    while True:
        try:
            await announce_pool(redis, settings, settings.pool)
        except NoPermissionError:
            log.warning("worker.announce_denied", hint="a gateway, a supervisor or a migration has to")
            return
        except (RedisError, OSError) as error:
            repeated.warning("worker.announce_failed", error=kind(error))
        await asyncio.sleep(ANNOUNCE_SECONDS)


async def _announce(settings: Settings, record: ModelRecord) -> None:
    """Announce a starting worker, so that requests wait for it instead of ending `engine_lost`."""
    redis = connect(settings)
    try:
        await PoolQueue(redis, settings.pool, settings).starting(record.fingerprint)
    finally:
        await redis.aclose()


def _vllm(settings: Settings, record: ModelRecord, length: int) -> Engine:
    if find_spec("vllm") is None:
        raise StartupError("a worker needs vLLM: install requirements/cpu.txt or requirements/gpu.txt")
    from engine.backends.vllm import VllmEngine  # imports torch: only here, and only in a worker

    logging.getLogger("vllm").setLevel(logging.WARNING)
    return VllmEngine(settings, record.folder, length)


def _leave(code: int) -> NoReturn:
    """Exit at once, the engine's processes with us: an engine that died or hangs would not shut down in
    order, and a drained one has nothing to save."""
    logging.getLogger("vllm").setLevel(logging.CRITICAL)  # it would complain of this exit
    sys.stdout.flush()
    sys.stderr.flush()
    with suppress(psutil.Error):
        for child in psutil.Process().children(recursive=True):
            child.kill()
    os._exit(code)


if __name__ == "__main__":
    in_one_line(engine)

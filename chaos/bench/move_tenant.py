"""`python -m chaos bench move-tenant`: what readers notice while their tenant moves to another pool."""

import asyncio
import gc
import json
import time
from collections import Counter
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import click
import uvloop

from billing.pools import PoolRow, create_pool
from billing.usage import decode
from chaos.bench.engine_testbed import BenchEngine, BenchInstallation, bench_installation
from chaos.bench.session.drain import DrainReader
from chaos.figures.figures import Figure, json_option, progress, show
from chaos.figures.samples import percentile
from chaos.installation.testbed import MODEL as BYTES
from core.redis.pools import announce_pool
from core.sql.database import Database
from engine.api import resolve_model
from parley_client import Client

GOAL_SECONDS = 1.5
OTHER = "other"
ANSWERS_PER_CLIENT = 8
SPARE_SLOTS = 8  # those that come meanwhile
LATE = 4
BEFORE_SECONDS = 2.0
BEGIN_SECONDS_MAX = 120.0
END_SECONDS_MAX = 300.0


@dataclass(frozen=True)
class MeasuredMove:
    """One move. `pauses`: seconds, each answer's longest gap from the move on, less its ordinary one; `told`:
    what the command answered; `whole`: answers whose text's hash is the server's; `twice`, `never`: would
    be billed twice, or not at all; `seconds`: of the command."""

    pauses: list[float]
    control: list[float]
    told: dict[str, Any]
    whole: int
    twice: int
    never: int
    seconds: float
    late: int
    late_whole: int

    def figures(self, engine: BenchEngine) -> list[Figure]:
        """What is printed."""
        longest_ms = self.told["longest_pause_ms"] or 0
        goal = GOAL_SECONDS if engine is BenchEngine.SCRIPTED else None
        return [
            Figure("live answers that moved", self.told["streams_moved"], "", least=len(self.pauses)),
            Figure("lost or not whole", len(self.pauses) - self.whole + self.told["lost"], "", most=0),
            Figure("doubled", self.twice + self.told["doubled"], "", most=0),
            Figure("not to be billed", self.never, "", most=0),
            Figure("pause p50", percentile(self.pauses, 0.5), "s"),
            Figure("pause p99", percentile(self.pauses, 0.99), "s", most=goal),
            Figure("longest pause", max(self.pauses), "s"),
            Figure("longest pause as the command tells it", longest_ms / 1000, "s"),
            Figure("the same gaps before the move, p99", percentile(self.control, 0.99), "s"),
            Figure("answers that began meanwhile", self.late, ""),
            Figure("of these lost or not whole", self.late - self.late_whole, "", most=0),
            Figure("the command", self.seconds, "s"),
        ]


@click.command("move-tenant")
@click.option("--streams", default=100, show_default=True, help="Live answers of the tenant.")
@click.option("--tokens", default=400, show_default=True, help="Of each answer.")
@click.option("--step-ms", default=50.0, show_default=True, help="The scripted engine's step.")
@click.option("--vllm", is_flag=True, help="smollm2 on this CPU; without a goal for the pause.")
@json_option
def move_tenant(streams: int, tokens: int, step_ms: float, vllm: bool, as_json: bool) -> None:
    """Pause of readers while their tenant moves (goal: p99 < 1.5 s; 0 lost, 0 doubled).

    Two pools with a worker each. `parley pools move` moves the tenant while all its answers stream; some more
    begin meanwhile. A reader's pause is its longest gap between two deltas from the command on, less its
    ordinary gap. Every answer's text is checked by its hash, and that one pool would bill it, once.
    """
    engine = BenchEngine.VLLM if vllm else BenchEngine.SCRIPTED
    show("move-tenant", uvloop.run(_measure(engine, streams, tokens, step_ms)).figures(engine), as_json)


async def _measure(engine: BenchEngine, streams: int, tokens: int, step_ms: float) -> MeasuredMove:
    async with (
        bench_installation(engine, streams + SPARE_SLOTS, step_ms=step_ms) as made,
        AsyncExitStack() as stack,
    ):
        await _two_pools(made)
        clients = [
            await stack.enter_async_context(Client(made.gateway.url, made.site.key))
            for _ in range(-(-streams // ANSWERS_PER_CLIENT))
        ]
        readers = [await _asked(clients[at % len(clients)], tokens) for at in range(streams)]
        tasks = [asyncio.create_task(reader.read()) for reader in readers]
        async with asyncio.timeout(BEGIN_SECONDS_MAX):
            while not all(reader.arrivals for reader in readers):  # noqa: ASYNC110  (not measured)
                await asyncio.sleep(0.05)
        progress(f"{streams} answers stream from the first of two pools")
        gc.collect()
        gc.freeze()  # a full collection of everything imported would stop all readers at once
        began = time.monotonic()
        await asyncio.sleep(BEFORE_SECONDS)
        moved_at = time.monotonic()
        moving = asyncio.create_task(_move(made))
        late = [await _asked(clients[at % len(clients)], tokens // 4, 0.3) for at in range(LATE)]
        tasks += [asyncio.create_task(reader.read()) for reader in late]
        told = await moving
        finished = time.monotonic()
        progress(f"moved in {finished - moved_at:.1f} s")
        async with asyncio.timeout(END_SECONDS_MAX):
            await asyncio.gather(*tasks)
        billed = await _billed(made, [*readers, *late])
        return MeasuredMove(
            pauses=[reader.pause(moved_at, finished) for reader in readers],
            control=[reader.pause(began, moved_at) for reader in readers],
            told=told,
            whole=_whole(readers),
            twice=sum(number > 1 for number in billed),
            never=sum(not number for number in billed),
            seconds=finished - moved_at,
            late=len(late),
            late_whole=_whole(late),
        )


async def _two_pools(made: BenchInstallation) -> None:
    """The first is shared; the other is another tenant's, and has a worker too."""
    database = Database(made.site.settings.database_endpoint)
    try:
        model = await resolve_model(database, made.given.get("model", BYTES))
        assert model is not None, "the testbed registers it"
        await made.asker("owner")
        row = PoolRow(
            pool=OTHER,
            model=model.name,
            version=model.version,
            workers=1,
            labels={},
            tenant_id=made.tenants["owner"],
            made_ms=1,
        )
        await create_pool(database, row)
    finally:
        await database.close()
    await made.worker_in(OTHER)
    await announce_pool(made.redis, made.site.settings, OTHER)


async def _asked(client: Client, tokens: int, after_seconds: float = 0.0) -> DrainReader:
    await asyncio.sleep(after_seconds)
    options = {"max_tokens": tokens, "min_tokens": tokens, "temperature": 1.0}
    return DrainReader(client, await client.send("Tell me a story.", options=options))


async def _move(made: BenchInstallation) -> dict[str, Any]:
    """Give the command, as an operator; its answer."""
    names = [made.queue.pool, "--tenant", "bench", "--to", OTHER]
    argv = ["-m", "core.cli", "pools", "move", *names, "--reason", "a benchmark", "--json"]
    running = await made.site.start(argv, **made.given)
    code = await running.process.wait()
    said = running.log.read_text()
    answers = [line for line in said.splitlines() if line.startswith('{"pool"')]
    if code or not answers:
        raise RuntimeError(f"the tenant did not move: {said[-2000:]}")
    return json.loads(answers[-1])


def _whole(readers: list[DrainReader]) -> int:
    return sum(reader.ended is not None and reader.ended.verified for reader in readers)


async def _billed(made: BenchInstallation, readers: list[DrainReader]) -> list[int]:
    """Usage events of each answer, in both pools."""
    events = Counter[str]()
    for pool in (made.queue.pool, OTHER):
        rows = await made.redis.xrange(f"{{p:{pool}}}ended")
        events.update(decode(fields[b"e"]).request for _, fields in rows)
    return [events[reader.answer.id] for reader in readers]

"""What is counted of answers: each of them once, whoever dies in between, and in the class that it ran in."""

from collections import Counter
from collections.abc import Generator

import pytest

from billing.api import Quota
from chaos.injected.scripted import ScriptedEngine
from core.access.processes import CONSOLE, GATEWAY, SUPERVISOR, WORKER
from core.configuration.settings import Settings
from core.observability.request_figures import FIGURES
from core.redis.figure_minutes import FigureWriter, read_figures
from engine.api import EndReason, PriorityClass, TenantTerms, end_unclaimed
from tests.engine.builders import TENANT
from tests.engine.workers import PROMPT, PoolWorkers, paused_at, saying
from tests.support.patience import wait_until
from tests.support.redis import Redis
from tests.support.users import client_of

TEXT = "Twenty-two letters, say."
TOKENS = len(TEXT) + 1


@pytest.fixture
def crew(redis: Redis, settings: Settings) -> Generator[PoolWorkers]:
    """Workers of an empty pool, and nothing counted yet."""
    FIGURES.take()
    yield PoolWorkers(redis, settings, as_worker=True)
    FIGURES.take()


def fast() -> ScriptedEngine:
    """An engine that says the text at once."""
    return ScriptedEngine(saying(TEXT), step_seconds=0)


def counted() -> Counter[str]:
    """What was counted since the last call: buckets summed by metric and class, all else by its field."""
    found = Counter[str]()
    for name, count in FIGURES.take().items():
        metric, _, rest = name.partition(":")
        found[name if metric == "ended" else f"{metric}:{rest.partition(':')[0]}"] += count
    return found


async def test_an_answer_is_counted(crew: PoolWorkers):
    """Its wait, its first token, a gap for each further one, its end, and all tokens, under its class."""
    async with crew.worker(fast()):
        await crew.ended(await crew.send(priority=PriorityClass.BULK))
    assert counted() == {
        **{"queue_wait:bulk": 1, "first_token:bulk": 1, "between_tokens:bulk": TOKENS - 1},
        **{"duration:bulk": 1, "ended:bulk:stop": 1},
        **{"input_tokens:": len(PROMPT), "output_tokens:": TOKENS},
    }


async def test_the_class_is_that_of_the_line(crew: PoolWorkers):
    """A tenant whose requests are bulk at most waits as bulk, whatever it asked for."""
    await crew.queue.set_tenant(TENANT, TenantTerms(highest=PriorityClass.BULK))
    async with crew.worker(fast()):
        await crew.ended(await crew.send(priority=PriorityClass.INTERACTIVE))
    assert {name for name in counted() if name.count(":") and not name.endswith(":")} == {
        *("queue_wait:bulk", "first_token:bulk", "between_tokens:bulk", "duration:bulk", "ended:bulk:stop")
    }


@pytest.mark.parametrize("n", [0, 1, 9])
async def test_an_answer_that_moved_is_counted_once(crew: PoolWorkers, n: int):
    """Killed before its first token is in the log, or once that is counted: one wait, one first token, one
    end. Tokens are those in the log; the gap of the takeover is nobody's."""
    firsts = FIGURES.series("first_token", "interactive")
    before = sum(firsts.counts)
    engine = paused_at(n, TEXT) if n else ScriptedEngine(saying(TEXT), hangs_at=lambda _: True)
    async with crew.worker(engine) as first:
        id = await crew.send()
        await wait_until(lambda: sum(firsts.counts) > before if n else crew.queue.claimed(first.name))
    await crew.lose(first.name)
    async with crew.worker(fast()):
        await crew.ended(id)
    found = counted()
    assert {name: found[name] for name in ("queue_wait:interactive", "first_token:interactive")} == {
        "queue_wait:interactive": 1,
        "first_token:interactive": 1,
    }
    assert (found["ended:interactive:stop"], found["duration:interactive"]) == (1, 1)
    assert found["input_tokens:"] == len(PROMPT)
    assert found["output_tokens:"] <= TOKENS  # the killed one had not counted its last flush
    assert found["between_tokens:interactive"] < TOKENS


async def test_who_was_never_claimed_has_waited_until_its_end(crew: PoolWorkers):
    """Else percentiles of waits would leave out those that waited in vain."""
    id = await crew.send(priority=PriorityClass.STANDARD)
    quota = Quota(crew.redis, crew.settings)
    at = (crew.queue, quota, TENANT, id)
    assert [await end_unclaimed(*at, EndReason.CANCELLED) for _ in range(2)] == [True, False]
    assert counted() == {"queue_wait:standard": 1, "duration:standard": 1, "ended:standard:cancelled": 1}


async def test_processes_may_write_figures_and_the_console_reads_them(
    crew: PoolWorkers, redis: Redis, redis_url: str, settings: Settings
):
    """Under the Redis users of their kinds."""
    for kind in (WORKER, SUPERVISOR, GATEWAY):
        FIGURES.add("output_tokens", 7)
        async with client_of(redis, redis_url, kind) as client:
            await FigureWriter(client, settings).flush()
    async with client_of(redis, redis_url, CONSOLE) as client:
        read = await read_figures(client, settings)
    assert sum(minute.tokens["output_tokens"] for minute in read.found) == 21

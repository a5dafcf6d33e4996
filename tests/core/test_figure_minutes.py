"""Figures in Redis, by the minute: written by many processes, read by the console."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from structlog.testing import capture_logs

from core.clock import clock_from
from core.configuration.settings import Settings
from core.observability.recent_figures import MINUTE_MS
from core.observability.request_figures import RequestFigures
from core.redis.client import RedisClient
from core.redis.figure_minutes import (
    FIELDS_MAX,
    KEEP_SECONDS,
    FigureWriter,
    figures_key,
    read_figures,
    repeated,
    server_ms,
)
from core.redis.redis_connections import connect_url
from tests.support.cluster import cluster as cluster  # the fixtures
from tests.support.cluster import cluster_url as cluster_url
from tests.support.redis import Redis
from tests.support.valkey import running_valkey


def process(redis: RedisClient, settings: Settings) -> tuple[RequestFigures, FigureWriter]:
    """What one process counts, and its writer."""
    figures = RequestFigures()
    return figures, FigureWriter(redis, settings, figures)


@contextmanager
def warned() -> Generator[list[str]]:
    """The warnings of the block."""
    repeated._said.clear()
    events = list[str]()
    with capture_logs() as lines:
        yield events
    events += [line["event"] for line in lines if line["log_level"] == "warning"]


async def test_processes_add_to_the_same_minute(redis: Redis, settings: Settings):
    """What two of them counted is there in sum, by Redis' clock, for three hours."""
    (ours, our_writer), (others, their_writer) = process(redis, settings), process(redis, settings)
    for figures in (ours, others):
        figures.series("first_token", "interactive").observe(80)
        figures.ended("interactive", "stop", 900)
        figures.add("output_tokens", 30)
    await our_writer.flush()
    await their_writer.flush()
    await our_writer.flush()  # with nothing
    read = await read_figures(redis, settings, 5)
    assert read.percentiles("first_token").count == 2
    assert sum(read.ended({"stop"})) == 2
    assert sum(minute.tokens["output_tokens"] for minute in read.found) == 60
    assert read.minutes == tuple(range(read.minutes[-1] - 4 * MINUTE_MS, read.minutes[-1] + 1, MINUTE_MS))
    for key in await redis.keys("*"):
        assert KEEP_SECONDS - 60 < await redis.ttl(key) <= KEEP_SECONDS


class LateClock:
    """A machine's clock that is some minutes behind, and stands."""

    def __init__(self, now: int) -> None:
        self._behind_ns = (now - 5 * MINUTE_MS) * 1_000_000

    def time_ns(self) -> int:
        """See core.clock."""
        return self._behind_ns

    def monotonic(self) -> float:
        """See core.clock."""
        return 0.0


async def test_a_wrong_clock_moves_no_figure(redis: Redis, settings: Settings):
    """A process whose machine shows another minute adds to that of Redis, and reads it, as all others do."""
    figures, writer = process(redis, settings)
    figures.add("output_tokens", 1)
    with clock_from(LateClock(await server_ms(redis))):
        await writer.flush()
        read = await read_figures(redis, settings, 2)
    assert sum(minute.tokens["output_tokens"] for minute in read.found) == 1
    (key,) = await redis.keys("*")
    now = await server_ms(redis)
    assert key.decode() in (figures_key("parley", now), figures_key("parley", now - MINUTE_MS))


async def test_while_redis_is_away_figures_are_lost(tmp_path: Path, settings: Settings):
    """A flush fails no one, and what it had is not added later, to a minute in which it did not happen."""
    with running_valkey(tmp_path) as url:
        redis = connect_url(url)
        figures, writer = process(redis, settings)
        figures.add("output_tokens", 1)
        await writer.flush()
    figures.add("output_tokens", 10)
    with warned() as events:
        await writer.flush()
    assert events == ["figures.flush_failed"]
    with running_valkey(tmp_path):
        figures.add("output_tokens", 100)
        await writer.flush()
        read = await read_figures(redis, settings, 2)
        assert [minute.tokens["output_tokens"] for minute in read.found][-1] == 100
        await redis.aclose()


async def test_a_minute_that_is_none_is_passed_over(redis: Redis, settings: Settings):
    """A key of another type, and a hash of more fields than ours have, as a worker may write both: neither
    fails a flush or a reading, nor costs it more than the others."""
    figures, writer = process(redis, settings)
    now = await server_ms(redis)
    for at in (now, now + MINUTE_MS):  # the minute may end meanwhile
        await redis.set(figures_key("parley", at), "x")
    crowded = figures_key("parley", now - 2 * MINUTE_MS)
    await redis.hset(crowded, mapping={f"ended:bulk:{at}": 1 for at in range(FIELDS_MAX + 1)})
    figures.add("output_tokens", 10)
    with warned() as events:
        await writer.flush()
    assert events == ["figures.flush_failed"]
    read = await read_figures(redis, settings)
    assert sum(read.ended()) == 0
    assert read.rate("output_tokens") == [0.0] * 60


async def test_a_minute_that_is_over_is_read_once(redis: Redis, settings: Settings):
    """A page that asks every two seconds costs the last two minutes; what is lost later was seen before."""
    figures, writer = process(redis, settings)
    now = await server_ms(redis)
    over, going_on = figures_key("parley", now - 5 * MINUTE_MS), figures_key("parley", now)
    await redis.hset(over, mapping={"ended:bulk:stop": 3})
    await redis.hset(going_on, mapping={"ended:bulk:length": 1})
    before = await read_figures(redis, settings)
    await redis.delete(over)
    figures.ended("bulk", "length", 100)
    await writer.flush()
    after = await read_figures(redis, settings)
    assert (sum(before.ended({"stop"})), sum(before.ended({"length"}))) == (3, 1)
    assert (sum(after.ended({"stop"})), sum(after.ended({"length"}))) == (3, 2)


async def test_a_cluster_has_them_too(cluster: RedisClient, settings: Settings):
    """Written and read on one of its nodes, by the clock of any."""
    figures, writer = process(cluster, settings)
    figures.series("between_tokens", "bulk").observe(17)
    await writer.flush()
    assert (await read_figures(cluster, settings)).percentiles("between_tokens").count == 1

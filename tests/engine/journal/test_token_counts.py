"""Engines' counts by the hour: what came out, what was aborted, and where an hour ends."""

from typing import Any

import msgspec

from billing.usage import EngineCounts, engine_hours
from engine.backends.base import EngineCounters, Generation, StepOutput
from engine.journal.token_counts import EngineTokenCounts, publish
from tests.support.redis import Redis

HOUR_MS = 3_600_000


def a_generation(id: str, prompt: int, tail: int = 0) -> Generation:
    """With a prompt of so many ids."""
    return Generation(id=id, prompt=[1] * prompt, max_tokens=9, stop_ids=(), tail_tokens=tail)


def output(id: str, tokens: int) -> StepOutput:
    """A step's output."""
    return StepOutput(id, [1] * tokens, None, 0)


def test_each_token_is_in_one_class() -> None:
    """Tests, new and continued prompts, taken and dropped ids add up to what the engine counted."""
    counted = EngineTokenCounts(EngineCounters(100, 20))
    counted.submitted(a_generation("a", 10))
    counted.submitted(a_generation("b", 7, tail=1))
    counted.stepped([output("a", 1), output("b", 2)], EngineCounters(117, 23))
    counted.stepped([output("a", 1)], EngineCounters(117, 24))
    counted.took(3)
    (hour,) = counted.hours(HOUR_MS * 5 + 1).values()
    assert (hour.prompt_test, hour.prompt_new, hour.prompt_again) == (100, 10, 7)
    assert (hour.output_test, hour.output_taken, hour.output_dropped) == (20, 3, 1)
    assert (hour.engine_prompt, hour.engine_output) == (117, 24)


def test_what_was_aborted_may_have_been_counted_unseen() -> None:
    """Its prompt where no token of it came, and a few ids."""
    counted = EngineTokenCounts(EngineCounters())
    counted.submitted(a_generation("a", 10))
    counted.submitted(a_generation("b", 20))
    counted.stepped([output("a", 1)], EngineCounters(10, 1))
    counted.aborted(["a", "b"])
    (hour,) = counted.hours(HOUR_MS).values()
    assert (hour.prompt_unseen_max, hour.output_unseen_max) == (20, 2 * 64)


def test_an_hour_ends_with_what_was_counted_until_then() -> None:
    """Each hour has its own counts; the last of the old one is told again with the first of the new."""
    counted = EngineTokenCounts(EngineCounters())
    counted.stepped([output("a", 5)], EngineCounters(0, 5))
    counted.took(5)
    assert counted.hours(HOUR_MS)[HOUR_MS].output_taken == 5
    counted.stepped([output("a", 2)], EngineCounters(0, 7))
    counted.took(2)
    both = counted.hours(2 * HOUR_MS + 1)
    assert both[HOUR_MS].output_taken == 5
    assert (both[2 * HOUR_MS].output_taken, both[2 * HOUR_MS].engine_output) == (2, 2)


def test_the_last_millisecond_of_an_hour_is_its_own() -> None:
    """Before the first look nothing is told of an hour that nobody counted in."""
    counted = EngineTokenCounts(EngineCounters())
    counted.took(1)
    assert list(counted.hours(2 * HOUR_MS - 1)) == [HOUR_MS]
    counted.took(2)
    both = counted.hours(2 * HOUR_MS)
    assert {hour: counts.output_taken for hour, counts in both.items()} == {HOUR_MS: 1, 2 * HOUR_MS: 2}


async def test_the_biller_is_told_by_worker_and_hour(redis: Redis) -> None:
    """Again and again the same."""
    counts = EngineCounts(output_taken=3)
    for _ in range(2):
        await publish(redis, "default", "w1", {HOUR_MS: counts})
    client: Any = redis
    assert await client.hgetall(engine_hours("default")) == {b"w1:3600000": msgspec.msgpack.encode(counts)}

"""The figures of a load: what they count, and that a load refuses to flatter."""

from collections.abc import AsyncIterator

import pytest

from chaos.bench import load
from chaos.figures.samples import Figures, Sample, figures, interval, median, percentile


def test_an_arrival_of_several_tokens_counts_each():
    """Three tokens 0.3 s after the first are three gaps of 0.1 s, not one of 0.3 and two of nothing."""
    sample = Sample(10.0, ((10.5, 1), (10.8, 3)))
    assert sample.tokens == 4
    assert sample.ttft_seconds == pytest.approx(0.5)
    assert sample.gaps_seconds() == pytest.approx([0.1, 0.1, 0.1])


def test_throughput_is_over_the_whole_run():
    """From the first request sent to the last token received, waits included."""
    got = figures([Sample(0.0, ((1.0, 1), (2.0, 9))), Sample(0.0, ((3.0, 10),))])
    assert got.tokens_per_second == pytest.approx(20 / 3)
    assert (got.ttft_p50_ms, got.ttft_p99_ms) == (1000.0, 3000.0)


def test_percentiles_are_nearest_rank():
    """The smallest value that so many do not exceed, whatever their order: the p99 of 1 to 100 is 99, that of
    few the largest; of none it is 0."""
    values = [float(n) for n in range(100, 0, -1)]
    for share in range(1, 101):
        assert percentile(values, share / 100) == share
    assert [percentile([3.0, 1.0, 4.0, 2.0], share) for share in (0, 0.5, 0.51, 0.99)] == [1.0, 2.0, 3.0, 4.0]
    assert percentile(values[:20], 0.95) == 99.0
    assert percentile([], 0.5) == 0.0


def test_the_median_is_taken_figure_by_figure():
    """One slow round does not decide."""
    rounds = [Figures(1, 10, 10, 10, 10), Figures(2, 20, 20, 20, 20), Figures(90, 3, 3, 3, 3)]
    assert median(rounds) == Figures(2, 10, 10, 10, 10)


@pytest.mark.parametrize(("count", "low", "high"), [(1, 0, 0), (3, 0, 2), (7, 0, 6), (9, 1, 7), (15, 3, 11)])
def test_the_interval_of_a_median_needs_no_distribution(count: int, low: int, high: int):
    """By the order alone: of nine values the second and the eighth hold it at 96 %."""
    assert interval([float(number) for number in range(count)]) == (low, high)


async def test_a_short_answer_is_not_counted_as_a_fast_one():
    """A target that ends early fails the run instead of looking quick."""

    async def short(_prompt: str, max_tokens: int) -> AsyncIterator[int]:
        yield max_tokens - 1

    with pytest.raises(ExceptionGroup) as failed:
        await load.run(short, concurrency=1, requests=1, max_tokens=8)
    assert failed.group_contains(RuntimeError, match="7 tokens instead of 8")


async def test_every_request_is_sent_once():
    """Four callers share ten requests."""
    asked: list[str] = []

    async def answer(prompt: str, max_tokens: int) -> AsyncIterator[int]:
        asked.append(prompt)
        yield max_tokens

    samples = await load.run(answer, concurrency=4, requests=10, max_tokens=8, first=100)
    assert sorted(asked) == sorted(load.prompt(n) for n in range(100, 110))
    assert len(samples) == 10

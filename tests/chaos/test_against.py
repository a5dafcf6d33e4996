"""What comparing a benchmark with another checkout's makes of what both print."""

from typing import Any

import pytest

from chaos.bench.against import compare


def printed(**values: float) -> dict[str, Any]:
    """What a run prints: a rate that has a goal, a time that has none, and a count that nobody rates."""
    goals = {"rate": {"unit": "tokens/s", "least": 1.0}, "wait": {"unit": "ms"}, "count": {"unit": ""}}
    return {"figures": [{"name": name, "value": value, **goals[name]} for name, value in values.items()]}


@pytest.mark.parametrize(("name", "worst", "worse"), [("rate", 97.1, 97), ("wait", 103, 103.1)])
def test_up_to_three_percent_are_not_worse(name: str, worst: float, worse: float):
    """Less of what is to be large, more of what is to be small. The better end of the interval counts."""
    others = [printed(**{name: 100.0})] * 7
    [just] = compare([printed(**{name: worst})] * 7, others)
    [over] = compare([printed(**{name: worse})] * 7, others)
    assert (just.not_worse, over.not_worse) == (True, False)
    [mixed] = compare([printed(**{name: value}) for value in (100, 100, worst, 500, 1, 500, 1)], others)
    assert mixed.not_worse


def test_a_ratio_is_of_a_pair_and_not_of_the_medians():
    """Where what else the machine does slows a whole pair, both sides have it."""
    [wait] = compare([printed(wait=v) for v in (1, 40, 3)], [printed(wait=v) for v in (1, 20, 1)])
    assert (wait.this, wait.other, wait.ratio, wait.low, wait.high) == (3, 1, 2, 1, 3)


def test_what_only_one_side_prints_is_left_out():
    """Another checkout may not have it yet; of 0 there is no ratio; what has no direction is not judged."""
    found = compare([printed(rate=2, wait=1, count=4)], [printed(wait=0, count=2)])
    assert [(each.name, each.ratio, each.not_worse) for each in found] == [("count", 2, None)]


def test_numbers_without_rows_are_named_by_their_path():
    """As `bench stream` prints them: by level and target."""
    this = [{"8": {"raw": {"tokens_per_second": 9.0, "ttft_p50_ms": 8.0}}}]
    other = [{"8": {"raw": {"tokens_per_second": 10.0, "ttft_p50_ms": 8.0}}}]
    found = {each.name: each.not_worse for each in compare(this, other)}
    assert found == {"8 raw tokens_per_second": False, "8 raw ttft_p50_ms": True}

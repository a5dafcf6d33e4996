"""What the benchmark of silent sockets makes of its pairs."""

import pytest

from chaos.figures.samples import interval


@pytest.mark.parametrize(("count", "low", "high"), [(1, 0, 0), (3, 0, 2), (7, 0, 6), (9, 1, 7), (15, 3, 11)])
def test_the_interval_of_a_median_needs_no_distribution(count: int, low: int, high: int):
    """By the order alone: of nine values the second and the eighth hold it at 96 %."""
    assert interval([float(number) for number in range(count)]) == (low, high)

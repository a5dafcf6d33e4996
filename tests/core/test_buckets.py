"""Token buckets: what they let through, and that they hold no more than they may."""

from hypothesis import given
from hypothesis import strategies as st

from core.network.buckets import Rate, TokenBuckets
from tests.core.bucket_clock import BucketClock


def test_what_is_saved_up_goes_at_once_and_then_so_many_a_second():
    clock = BucketClock()
    buckets = TokenBuckets(Rate(2, 3), clock=clock)
    assert [buckets.take("a") for _ in range(4)] == [0, 0, 0, 500]
    assert buckets.take("b") == 0, "a name of its own"
    clock.now += 0.499
    assert buckets.take("a") == 1
    clock.now += 0.001
    assert [buckets.take("a"), buckets.take("a")] == [0, 500]
    clock.now += 3600
    assert [buckets.take("a") for _ in range(4)] == [0, 0, 0, 500]


def test_what_costs_more_than_a_whole_bucket_waits_for_a_whole_one():
    clock = BucketClock()
    buckets = TokenBuckets(Rate(10, 100), clock=clock)
    assert buckets.take("a", 1_000_000) == 0
    assert buckets.take("a", 1) == 100
    assert buckets.take("a", 1_000_000) == 10_000


def test_nothing_a_second_is_no_limit():
    buckets = TokenBuckets(Rate.a_second(0))
    assert {buckets.take("a") for _ in range(100)} == {0}
    assert len(buckets) == 0


def test_a_caller_of_many_names_costs_no_memory():
    buckets = TokenBuckets(Rate(1, 1), names_max=10, clock=BucketClock())
    for number in range(1000):
        buckets.take(f"name {number}")
    assert len(buckets) == 10


def test_who_was_unused_longest_is_forgotten():
    """Whoever asks on and on is not let off by a crowd of new names, nor are those of the crowd."""
    buckets = TokenBuckets(Rate(1, 2), names_max=2, clock=BucketClock())
    assert [buckets.take(name) for name in ("a", "b", "a", "c", "c")] == [0] * 5
    assert buckets.take("a") > 0
    assert buckets.take("c") > 0
    assert [buckets.take("b"), buckets.take("b")] == [0, 0]


def test_a_rate_is_by_the_second_or_the_minute():
    """And lets one through at least."""
    assert Rate.a_second(3) == Rate(3, 30)
    assert Rate.a_second(0.05) == Rate(0.05, 1)
    assert Rate.a_minute(120) == Rate(2, 120)
    assert Rate.a_minute(0.6) == Rate(0.01, 1)


@given(
    st.floats(0.1, 100),
    st.floats(1, 50),
    st.lists(st.tuples(st.floats(0, 5), st.floats(0.1, 20)), max_size=60),
)
def test_no_more_passes_than_was_saved_and_came_in(
    per_second: float, burst: float, asked: list[tuple[float, float]]
):
    clock = BucketClock()
    buckets = TokenBuckets(Rate(per_second, burst), clock=clock)
    began, passed = clock.now, 0.0
    for waited, cost in asked:
        clock.now += waited
        after_ms = buckets.take("a", cost)
        if not after_ms:
            passed += min(cost, burst)
        else:
            clock.now += after_ms / 1000
            assert buckets.take("a", cost) == 0, "after what it said, it is there"
            passed += min(cost, burst)
        assert passed <= burst + per_second * (clock.now - began) + 1e-3

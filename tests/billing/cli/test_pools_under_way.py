"""What is under way in a pool, as `parley pools list` and `show` say it."""

from typing import Any

import msgspec

from billing.cli.desired_pools import under_way, versions_in_words
from billing.operations.pool_facts import ObservedPool, PoolFacts, VersionInPool
from tests.billing.cli.made_pools import pool

AT = "2026-11-26T14:30:00+00:00"


def seen(*versions: tuple[str, int, int, int, str | None], **facts: Any) -> PoolFacts:
    """A pool of two workers in v1, of which the fleet sees these versions."""
    names = ("version", "workers", "ready", "requests", "until")
    told = [msgspec.convert(dict(zip(names, each, strict=True)), VersionInPool) for each in versions]
    sight: dict[str, Any] = {"ready": 2, "as_desired": True, "why": "", "since": None, "seen": None}
    return pool(observed=ObservedPool(**sight, versions=told), **facts)


def test_a_pool_in_which_nothing_is_under_way_names_its_version_alone():
    """A next version of which nobody sees workers is named."""
    assert (versions_in_words(seen(("v1", 2, 2, 0, None))), under_way(pool())) == ("v1", [])
    assert versions_in_words(pool(next_version="v2")) == "v1, next v2"


def test_the_next_version_says_how_many_of_its_workers_are_ready():
    """Of those that the pool should have, also before the first is begun."""
    begun = seen(("v1", 2, 2, 0, None), ("v2", 1, 1, 0, None), next_version="v2")
    assert versions_in_words(begun) == "v1; next v2, 1 of 2 ready"
    assert under_way(seen(("v1", 2, 2, 0, None), next_version="v2")) == ["next v2, 0 of 2 ready"]


def test_an_old_version_says_what_needs_it_and_until_when():
    """Without requests: the workers that still run."""
    old = seen(("v1", 2, 2, 0, None), ("v0", 1, 1, 3, AT), ("v9", 1, 0, 0, None))
    assert under_way(old) == [f"old v0, 3 requests, at most until {AT}", "old v9, 1 worker"]

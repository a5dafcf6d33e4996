"""How often a gateway stores a policy that it enqueues under."""

from types import SimpleNamespace
from typing import Any

import pytest
from redis.exceptions import ConnectionError as RedisConnectionError

from engine.api import PinnedPolicy
from server.requests import stored_policies
from server.requests.stored_policies import StoredPolicies
from tests.support.watch import StubClock


class PolicyPool:
    """A pool that notes what is stored there."""

    def __init__(self, name: str = "default") -> None:
        self.stored = list[str]()
        self.away = False
        self.queue: Any = SimpleNamespace(pool=name, store_policy=self.store_policy)

    async def store_policy(self, policy: PinnedPolicy) -> None:
        """See PoolQueue."""
        if self.away:
            raise RedisConnectionError
        self.stored.append(policy.hash)


async def test_a_policy_is_stored_once_a_minute_and_pool(watch: StubClock):
    """So one that is damaged there is mended within a minute; a built-in one never is."""
    stored, pool, other = StoredPolicies(), PolicyPool(), PolicyPool("other")
    policy = PinnedPolicy("a", b"{}")
    await stored.store(pool.queue, None)
    for passed_ms, count in ((0, 1), (59_999, 1), (1, 2), (0, 2)):
        watch.ms += passed_ms
        await stored.store(pool.queue, policy)
        assert pool.stored == ["a"] * count
    await stored.store(other.queue, policy)
    await stored.store(pool.queue, PinnedPolicy("b", b"{}"))
    assert (pool.stored, other.stored) == (["a", "a", "b"], ["a"])


async def test_a_pool_that_is_away_fails_the_send(watch: StubClock):
    """The next one's enqueue stores it, where it is not there."""
    stored, pool = StoredPolicies(), PolicyPool()
    pool.away = True
    with pytest.raises(RedisConnectionError):
        await stored.store(pool.queue, PinnedPolicy("a", b"{}"))


async def test_what_was_stored_is_remembered_within_bounds(watch: StubClock, monkeypatch: pytest.MonkeyPatch):
    """The latest."""
    monkeypatch.setattr(stored_policies, "STORED_MAX", 2)
    stored, pool = StoredPolicies(), PolicyPool()
    for hash in ("a", "b", "c", "c", "b", "a"):
        await stored.store(pool.queue, PinnedPolicy(hash, b"{}"))
    assert pool.stored == ["a", "b", "c", "a"]

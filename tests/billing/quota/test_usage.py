"""How much of a tenant's limits is used, as it is read from what Redis counts. Pure."""

from typing import Any

import pytest

from billing.limits import (
    WALLET_MODULUS_NANO,
    Dimension,
    MoneyLimit,
    RequestLimits,
    Scope,
    UnitLimit,
    wallet_limit,
)
from billing.periods import PeriodWindow
from billing.quota import open_requests
from billing.quota.open_requests import OwnerFilter
from billing.quota.redis_keys import open_requests_key, rq_key
from billing.quota.types import LimitUse
from billing.quota.usage import use_of
from tests.support.redis import Redis

NOW = 1_000_000


class Replies:
    """What a Redis answers to a pipeline, in order."""

    def __init__(self, *replies: Any) -> None:
        self.asked: list[tuple[Any, ...]] = []
        self._replies = list(replies)

    def pipeline(self, transaction: bool) -> "Replies":
        assert not transaction
        return self

    def __getattr__(self, command: str) -> Any:
        return lambda *arguments: self.asked.append((command, *arguments))

    async def execute(self, raise_on_error: bool = True) -> list[Any]:
        return self._replies


async def one(limit: UnitLimit | MoneyLimit, reply: Any) -> LimitUse:
    """What is said of one limit."""
    limits = RequestLimits(money=(limit,)) if isinstance(limit, MoneyLimit) else RequestLimits((limit,))
    redis: Any = Replies(reply)
    (found,) = await use_of(redis, "{t:t1}", limits, NOW)
    assert [asked[1] for asked in redis.asked] == ["{t:t1}" + limit.key]
    return found


@pytest.mark.parametrize(
    ("value", "spent", "remaining", "resets_at_ms"),
    [
        (None, 0, 20, NOW),
        (b"300000:1000000:10", 5, 15, NOW + 30_000),
        (b"300000:999000:10", 5, 15, NOW + 29_000),  # of what flew back a part of one is one
        (b"240001:1000000:10", 5, 15, NOW + 24_001),
        (b"300000:1000500:10", 5, 15, NOW + 30_000),  # written by a clock that is ahead
        (b"300000:900000:10", 0, 20, NOW),
        (b"1800000:1000000:10", 30, 0, NOW + 180_000),
        (b"60000:1000000:0", 1, 19, NOW + 60_000),
    ],
)
async def test_a_rate_flows_back_and_says_when_it_is_whole(
    value: bytes | None, spent: int, remaining: int, resets_at_ms: int
) -> None:
    """Measured by what may come at once."""
    limit = UnitLimit(Scope.KEY, "k1", "*", Dimension.REQUESTS, limit=10, burst=20)
    found = await one(limit, value)
    assert (found.spent, found.remaining, found.resets_at_ms) == (spent, remaining, resets_at_ms)
    assert (found.limit, found.burst, found.held, found.hard, found.shadow) == (10, 20, 0, True, False)
    assert (found.scope, found.scope_id, found.model_glob) == ("key", "k1", "*")


async def test_what_is_open_at_once_has_no_time_at_which_it_is_free() -> None:
    """Nor a burst; of a limit of nothing nothing remains, also where more may come at once."""
    limit = UnitLimit(Scope.TENANT, "", "m*", Dimension.CONCURRENCY, 3, 9, shadow=True)
    found = await one(limit, b"2")
    assert (found.spent, found.remaining, found.resets_at_ms, found.burst) == (2, 1, None, None)
    assert (found.hard, found.shadow, found.dimension) == (False, True, "concurrency")
    assert (await one(limit, b"4")).remaining == 0
    assert (await one(UnitLimit(Scope.TENANT, "", "*", Dimension.REQUESTS, 0, 5), None)).remaining == 0


@pytest.mark.parametrize(
    ("values", "spent", "held", "remaining", "known"),
    [
        ([None, None, None, None], 0, 0, 100, False),
        ([b"0", b"10", b"20", b"30"], 30, 30, 40, True),
        ([b"7", b"10", b"-4", b"94"], 6, 94, 0, True),
        ([b"7", b"90", b"20", None], 110, 0, 0, True),
    ],
)
async def test_money_is_spent_held_or_left(
    values: list[bytes | None], spent: int, held: int, remaining: int, known: bool
) -> None:
    """Of what was booked, of what is not yet, and of what open answers may come to."""
    found = await one(MoneyLimit(Scope.USER, "u", "day", PeriodWindow(0, 5), 100), values)
    assert (found.spent, found.held, found.remaining, found.known) == (spent, held, remaining, known)
    assert (found.resets_at_ms, found.burst, found.model_glob, found.hard) == (5, None, "*", True)


@pytest.mark.parametrize(
    ("hard", "shadow", "is_hard"), [(True, False, True), (True, True, False), (False, False, False)]
)
async def test_what_only_counts_is_not_hard(hard: bool, shadow: bool, is_hard: bool) -> None:
    """A lifetime's budget and a wallet begin anew at no time; an override is the limit while it holds."""
    override = {"override_nano": 7, "override_until_ms": NOW + 1}
    budget = MoneyLimit(Scope.TENANT, "", "lifetime", PeriodWindow(0, 5), 1, hard, shadow, **override)
    found = await one(budget, [None] * 4)
    assert (found.hard, found.shadow, found.limit, found.resets_at_ms) == (is_hard, shadow, 7, None)
    wallet = await one(wallet_limit(WALLET_MODULUS_NANO + 3, 9), [None] * 4)
    assert (wallet.limit, wallet.resets_at_ms, wallet.dimension) == (WALLET_MODULUS_NANO + 3, None, "wallet")


async def test_without_limits_nothing_is_asked() -> None:
    """And with several each has its own answer, in their order."""
    redis: Any = Replies("nobody reads this")
    assert await use_of(redis, "{t:t1}", RequestLimits(), NOW) == []
    units = (
        UnitLimit(Scope.TENANT, "", "*", Dimension.CONCURRENCY, 3, 3),
        UnitLimit(Scope.TENANT, "", "*", Dimension.TOKENS, 3, 3),
    )
    money = (MoneyLimit(Scope.TENANT, "", "day", PeriodWindow(0, 5), 9),)
    redis = Replies(1, b"60000:1000000:1", [b"0", b"4", None, None])
    found = await use_of(redis, "{t:t1}", RequestLimits(units, money), NOW)
    assert [each.spent for each in found] == [1, 1, 4]
    assert [asked[0] for asked in redis.asked] == ["zcount", "get", "hmget"]
    assert redis.asked[0][2:] == (f"({NOW}", "+inf")


def test_a_wallet_as_scripts_count_it_goes_round() -> None:
    """A budget does not: it has a window."""
    assert wallet_limit(WALLET_MODULUS_NANO, 0).script_nano == 0
    assert wallet_limit(WALLET_MODULUS_NANO - 1, 0).script_nano == WALLET_MODULUS_NANO - 1
    assert (
        MoneyLimit(Scope.TENANT, "", "day", PeriodWindow(0, 5), WALLET_MODULUS_NANO).script_nano
        == WALLET_MODULUS_NANO
    )


@pytest.mark.parametrize(
    ("whose", "owns"),
    [
        (OwnerFilter("t"), True),
        (OwnerFilter("t", "p", "k", "u"), True),
        (OwnerFilter("t", project="q"), False),
        (OwnerFilter("t", "p", key="l"), False),
        (OwnerFilter("t", "p", user="v"), False),
        (OwnerFilter("t", user="u"), True),
    ],
)
def test_a_request_is_meant_where_all_that_was_named_made_it(whose: OwnerFilter, owns: bool) -> None:
    """What was not named is anybody's."""
    assert whose.owns("p", "k", "u") is owns


@pytest.mark.parametrize("at_once", [1, 2, 1_000])
async def test_all_open_requests_are_found_oldest_first(
    redis: Redis, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    """However many are read at once; what has ended, or says nothing, is not open."""
    monkeypatch.setattr(open_requests, "AT_ONCE", at_once)
    facts = {"state": "open", "pool": "b", "project": "p", "by": "k", "user": "u"}
    records: dict[str, dict[str, Any]] = {
        "r0": facts,
        "r1": facts | {"state": "ended"},
        "r2": facts | {"by": "other"},
        "r3": facts | {"user": b"\xff"},
        "r4": facts | {"pool": "a"},
    }
    client: Any = redis
    for at, (id, record) in enumerate(records.items()):
        await client.zadd(open_requests_key("t1"), {id: at})
        await client.hset(rq_key("t1", id), mapping=record)
    await redis.zadd(open_requests_key("t1"), {"gone": -1})
    assert await open_requests.open_of(redis, OwnerFilter("t1")) == [
        ("r0", "b"),
        ("r2", "b"),
        ("r3", "b"),
        ("r4", "a"),
    ]
    mine = [("r0", "b"), ("r4", "a")]
    assert await open_requests.open_of(redis, OwnerFilter("t1", "p", "k", "u")) == mine
    assert await open_requests.open_of(redis, OwnerFilter("t2")) == []

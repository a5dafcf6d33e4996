"""Of the operators' limits and those of a tenant's own admins, the stricter holds."""

from typing import Any
from zoneinfo import ZoneInfo

import pytest

from billing.limits import RequestFacts, RequestLimits, TenantRows, limits_of
from billing.tables.limits import Budget, QuotaPolicy

BERLIN = ZoneInfo("Europe/Berlin")
AT = 1_790_000_000_000
FACTS = RequestFacts("t1", "p1", "k1", "u1", "llama-8b")
A = {"tenant_id": "t1", "id": "a", "created_ms": 1}


def policy(scope: str = "tenant", limit: int = 60, **facts: object) -> QuotaPolicy:
    """An open row."""
    of = {"dimension": "requests_per_minute", "scope": scope, "limit_units": limit, **A}
    return QuotaPolicy(**{**of, **facts})  # type: ignore[arg-type]


def budget(scope: str = "tenant", limit: int = 10, **facts: object) -> Budget:
    """An open row."""
    of = {"scope": scope, "period": "month", "limit_nano": limit, "thresholds": [], **A}
    return Budget(**{**of, **facts})  # type: ignore[arg-type]


def held(policies: list[QuotaPolicy], budgets: list[Budget]) -> RequestLimits:
    """What holds for FACTS under these rows."""
    return limits_of(TenantRows("t1", BERLIN, policies, budgets), FACTS, AT)


@pytest.mark.parametrize(("own", "least"), [(20, 20), (90, 60)])
def test_of_the_operators_limit_and_the_admins_own_the_stricter_one_holds(own: int, least: int) -> None:
    """As one limit of the count, not as two that both count; also where the admins' names whom it is for and
    the operators' is for each."""
    for whose in ({}, {"scope": "user", "scope_id": ""}):
        named = {"scope_id": "u1"} if whose else {}
        theirs, ours = policy(limit=60, **whose), policy(limit=own, by_tenant=True, **{**whose, **named})
        (unit,) = held([theirs, ours], []).units
        assert (unit.limit, unit.burst) == (least, least)


@pytest.mark.parametrize(
    ("theirs", "ours", "expected"),
    [
        ({"limit": 10}, {"limit": 4}, (4, True)),
        ({"limit": 10}, {"limit": 40}, (10, True)),
        ({"limit": 10}, {"limit": 4, "hard": False}, (10, True)),
        ({"limit": 10, "hard": False}, {"limit": 40}, (40, True)),
        ({"limit": 10, "override_nano": 50, "override_until_ms": AT + 5}, {"limit": 20}, (20, True)),
        ({"limit": 10, "override_nano": 5, "override_until_ms": AT + 5}, {"limit": 20}, (5, True)),
    ],
)
def test_of_two_budgets_on_one_count_the_stricter_refuses(
    theirs: dict[str, Any], ours: dict[str, Any], expected: tuple[int, bool]
) -> None:
    """One that only alerts never takes the place of one that refuses; an override is part of its budget, and
    the other one's limit is back with its end. An edit of either is newer than both were."""
    rows = [budget(**theirs), budget(**ours, by_tenant=True, created_ms=7)]
    (limit,) = held([], rows).money
    assert (limit.limit_at(AT), limit.hard, limit.revision) == (*expected, 7)
    if "override_nano" in theirs:
        assert limit.limit_at(AT + 5) == 10

"""Every script of the tenant slot on a two-node cluster: one that left its slot would fail here."""

from collections.abc import AsyncGenerator, Generator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from redis.crc import key_slot

from billing.quotas import quota as quota_module
from billing.quotas.limit_push import _LIMITS
from billing.quotas.limits import Dimension, Limits, Scope
from billing.quotas.quota import Quota
from billing.quotas.quota_money import _SEED, MoneyCounts
from billing.quotas.quota_types import Admitted, Canceller
from core.redis import Client, connect_url
from core.scripts import Script
from core.settings import Settings
from tests.billing.limited import Tenant, a_budget, a_rate, places
from tests.support.cluster import SLOTS, running_cluster
from tests.support.home import settings_in, short_folder


def tenant_on(node: int) -> str:
    """A tenant whose slot is on that node."""
    names = (f"tenant{at}" for at in range(100))
    return next(name for name in names if key_slot(name.encode()) // (SLOTS // 2) == node)


TENANTS = [tenant_on(0), tenant_on(1)]
LIMITS = Limits(
    (
        a_rate(Dimension.REQUESTS, 60),
        a_rate(Dimension.TOKENS, 9_000, scope=Scope.USER, scope_id="u:1"),
        places(9),
    ),
    (a_budget(1 << 40), a_budget(1 << 40, scope=Scope.KEY, scope_id="k1")),
)


@pytest.fixture(scope="module")
def cluster_url() -> Generator[str]:
    """A running two-node cluster."""
    with short_folder("cluster") as folder, running_cluster(folder) as url:
        yield url


@pytest.fixture
async def cluster(cluster_url: str) -> AsyncGenerator[Client]:
    """A client of an empty cluster."""
    client: Any = connect_url(cluster_url)
    await client.flushall(target_nodes="primaries")
    yield client
    await client.aclose()


@pytest.mark.parametrize("tenant", TENANTS)
async def test_every_script_runs_in_one_slot(
    cluster: Client, home: Path, cluster_url: str, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On either node; and no script is left out."""
    ran = set[str]()
    original = Script.__call__

    async def noted(self: Script, *arguments: Any) -> Any:
        ran.add(self.name)
        return await original(self, *arguments)

    monkeypatch.setattr(Script, "__call__", noted)
    await a_day(cluster, settings_in(home, redis_url=cluster_url), tenant)
    await _LIMITS(cluster, [f"{{t:{tenant}}}{LIMITS.money[0].key}"], [1, 0, 0, 1, 5])
    known = {script.name for script in vars(quota_module).values() if isinstance(script, Script)}
    assert ran >= known | {_SEED.name, _LIMITS.name}


async def a_day(redis: Any, settings: Settings, tenant: str) -> None:
    """Everything that a tenant's slot is asked."""
    quota, counts = Quota(redis, settings), MoneyCounts(redis)
    builder = Tenant(redis, settings)
    seeds = [(limit, 7, 0) for limit in LIMITS.money]
    assert await counts.put(tenant, seeds, anew=False)
    for id in "abc":
        answer = await quota.admit(replace(builder.admission(id), tenant=tenant, limits=LIMITS))
        assert isinstance(answer, Admitted)
    assert (await quota.extend(tenant, "a", 512)).granted == 512
    assert await quota.rebind(tenant, "a", "B", 1) == "B"
    assert await quota.mark_cancel(tenant, "z", Canceller()) is None
    assert await quota.settle(builder.event("a", output=9, tenant=tenant)) == "settled"
    assert await quota.settle(builder.event("a", output=9, tenant=tenant), 3) == "dup"
    assert await quota.release(tenant, "b")
    assert await counts.put(tenant, [(limit, 125, 3) for limit in LIMITS.money], anew=True)
    assert [hold.id for hold in await quota.holds(tenant)] == ["c"]
    assert await quota.open_tenants() == {tenant}
    assert {each.posted_nano for each in await quota.budget_sums(tenant)} == {125}
    assert len(await quota.use(tenant, LIMITS)) == 5

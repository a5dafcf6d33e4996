"""Where a request goes: the tenant's own pool, one that lets it in, the shared one, or nowhere."""

from typing import Any

import pytest

from billing.dedicated_pools.pools import create_pool, drain_pool
from billing.dedicated_pools.routes import UNSEEN_MS, PoolRoute, PoolRoutes, pools_begun, read_routes
from billing.tables.pools import PoolAdmission, PoolRow, PoolState
from billing.tenants.tenancy import create_tenant
from core.sql.database import Database


def a_row(pool: str, tenant: str = "", model: str = "m", state: str = "active") -> PoolRow:
    """A pool whose version has its name."""
    facts: dict[str, Any] = {"workers": 1, "labels": {}, "made_ms": 1}
    return PoolRow(pool=pool, model=model, version=f"of {pool}", tenant_id=tenant, state=state, **facts)


def lets_in(pool: str, tenant: str) -> PoolAdmission:
    """The tenant is let into the pool."""
    return PoolAdmission(pool=pool, tenant_id=tenant, created_ms=1)


@pytest.mark.parametrize(
    ("pools", "let_in", "goes"),
    [
        ([], [], None),
        ([a_row("all")], [], "all"),
        ([a_row("all"), a_row("own", "t")], [], "own"),
        ([a_row("all"), a_row("own", "t", state="draining")], [], "all"),
        ([a_row("all"), a_row("own", "t", model="n")], [], "all"),
        ([a_row("all"), a_row("theirs", "u")], [], "all"),
        ([a_row("theirs", "u")], [], None),
        ([a_row("theirs", "u"), a_row("all")], [lets_in("theirs", "t")], "theirs"),
        ([a_row("theirs", "u"), a_row("own", "t")], [lets_in("theirs", "t")], "own"),
        ([a_row("a", "u"), a_row("b", "v")], [lets_in("a", "t"), lets_in("b", "t")], "a"),
        ([a_row("a", "u", state="draining"), a_row("all")], [lets_in("a", "t")], "all"),
        ([a_row("all", state="draining")], [], None),
    ],
)
def test_a_request_goes_by_its_tenant_first(
    pools: list[PoolRow], let_in: list[PoolAdmission], goes: str | None
) -> None:
    """Then by its model. A pool that drains takes nothing new, and strangers are refused."""
    routes = PoolRoutes(pools, let_in)
    assert routes.of("t", "m") == (PoolRoute(goes, f"of {goes}") if goes else None)
    assert routes.models == {row.pool: row.model for row in pools}


@pytest.mark.parametrize(
    ("begun", "goes"),
    [
        (None, "own"),
        (["all"], "all"),
        (["all", "theirs"], "theirs"),
        (["all", "own"], "own"),
        ([], "own"),
    ],
)
def test_a_pool_takes_its_tenants_requests_once_a_worker_was_ready(
    begun: list[str] | None, goes: str
) -> None:
    """Before it they go on where they went, if anything serves there; nobody knows where no fleet runs."""
    pools = [a_row("all"), a_row("own", "t"), a_row("theirs", "u")]
    route = PoolRoutes(pools, [lets_in("theirs", "t")], begun).of("t", "m")
    assert route == PoolRoute(goes, f"of {goes}")


def test_which_pools_have_begun_is_what_a_fleet_that_runs_says() -> None:
    """What it said a minute ago is no news."""
    told: dict[str, Any] = {"generation": 1, "workers": 1, "running": 1, "elsewhere": 0, "as_desired": True}
    told |= {"step": "", "why": "", "node": "n", "controller": "c", "since_ms": 0, "observed_ms": 100_000}
    states = [
        PoolState(pool="a", ready=0, served_ms=9, **told),
        PoolState(pool="b", ready=0, served_ms=0, **told),
    ]
    assert pools_begun(states, 100_000) == {"a"}
    assert pools_begun(states, 100_000 + UNSEEN_MS) is None
    assert pools_begun([], 0) is None


async def test_routes_are_those_of_the_pools_in_sql(database: Database) -> None:
    """A change of a pool changes them."""
    acme, other, third = [(await create_tenant(database, name)).tenant_id for name in ("a", "b", "c")]
    await create_pool(database, a_row("all"))
    await create_pool(database, a_row("own", acme), [other])
    routes = await read_routes(database)
    assert [routes.of(each, "m") for each in (acme, other, third)] == [
        PoolRoute("own", "of own"),
        PoolRoute("own", "of own"),
        PoolRoute("all", "of all"),
    ]
    await drain_pool(database, "own")
    assert (await read_routes(database)).of(acme, "m") == PoolRoute("all", "of all")

"""Routing of a tenant that moves: into which pools it is let, and what is refused with what to do."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pytest

from billing.audit.compare import compare_states
from billing.audit.log import record
from billing.dedicated_pools.pools import create_pool
from billing.dedicated_pools.route_moves import RouteMove, read_route_move, route_move, write_route_move
from billing.dedicated_pools.routes import read_routes
from billing.tables.pools import DRAINING, PoolRow
from billing.tables.tenants import PLATFORM
from billing.tenants.tenancy import create_tenant
from core.errors import Refused
from core.sql.database import Database

LetIn = Mapping[str, Collection[str]]


def a_pool(pool: str, tenant: str = "", **columns: Any) -> PoolRow:
    """A pool of m."""
    facts: dict[str, Any] = {"model": "m", "version": "v1", "workers": 2, "labels": {}, "made_ms": 1}
    return PoolRow(pool=pool, tenant_id=tenant, **(facts | columns))


SHARED_POOL, BIG, ACME = a_pool("all"), a_pool("big", "initech"), a_pool("acme-1", "acme")


@pytest.mark.parametrize(
    ("source", "dest", "let_in", "expected"),
    [
        ("all", "big", {}, RouteMove((), True, "initech")),
        ("all", "big", {"big": ["acme"]}, RouteMove((), False, "initech")),
        ("big", "all", {"big": ["acme", "hooli"]}, RouteMove(("big",), False)),
        ("big", "huge", {"big": ["acme"]}, RouteMove(("big",), True, "hooli")),
        ("all", "huge", {"big": ["acme"]}, RouteMove(("big",), True, "hooli")),  # `big` would come first
        ("all", "huge", {"old": ["acme"]}, RouteMove((), True, "hooli")),  # it takes nothing new
        ("old", "all", {"old": ["acme"]}, RouteMove(("old",), False)),
    ],
)
def test_a_tenant_is_let_in_there_and_nowhere_that_comes_first(
    source: str, dest: str, let_in: LetIn, expected: RouteMove
) -> None:
    """A shared destination needs nothing; pools of other models are left alone."""
    pools = [SHARED_POOL, BIG, a_pool("huge", "hooli"), a_pool("old", "umbra", state=DRAINING)]
    pools.append(a_pool("other", "umbra", model="n"))
    assert route_move("acme", source, dest, pools, {"other": ["acme"], **let_in}) == expected


def test_into_its_own_pool_a_tenant_needs_no_permission() -> None:
    """Its requests go there already: what is left elsewhere follows."""
    pools = [SHARED_POOL, ACME, BIG]
    assert route_move("acme", "all", "acme-1", pools, {}) == RouteMove((), False, "acme")
    assert route_move("acme", "big", "acme-1", pools, {"big": ["acme"]}).leaves == ("big",)


@pytest.mark.parametrize(
    ("source", "dest", "pools", "field", "told"),
    [
        ("none", "big", [SHARED_POOL, BIG], "pool", "no pool 'none'"),
        ("all", "none", [SHARED_POOL, BIG], "to", "no pool 'none'"),
        ("all", "all", [SHARED_POOL], "to", "name another"),
        ("all", "n", [SHARED_POOL, a_pool("n", "x", model="n")], "to", "runs n v1, not m v1"),
        ("all", "v2", [SHARED_POOL, a_pool("v2", "x", version="v2")], "to", "runs m v2"),
        ("all", "old", [SHARED_POOL, a_pool("old", "x", state=DRAINING)], "to", "drains"),
        ("acme-1", "all", [SHARED_POOL, ACME], "tenant", "drain it, or edit who pays"),
        ("all", "big", [SHARED_POOL, BIG, ACME], "to", "its own pool 'acme-1'"),
    ],
)
def test_what_cannot_be_names_its_field_and_what_to_do(
    source: str, dest: str, pools: Sequence[PoolRow], field: str, told: str
) -> None:
    """Before anything is written."""
    with pytest.raises(Refused, match=told) as refused:
        route_move("acme", source, dest, pools, {})
    assert refused.value.refusal.field == field


async def test_requests_are_routed_there_once_it_is_written(database: Database) -> None:
    """Both pools are another version of themselves, so that a stale edit is told; others stay in."""
    acme, hooli, initech = [
        (await create_tenant(database, name)).tenant_id for name in ("acme", "hooli", "initech")
    ]
    await create_pool(database, a_pool("all"))
    await create_pool(database, a_pool("big", initech), [acme, hooli])
    await create_pool(database, a_pool("huge", hooli))
    assert route(await read_routes(database), acme) == "big"
    async with database.session() as session:
        planned = await read_route_move(session, acme, "big", "huge")
    for expected in (planned, RouteMove((), False, hooli)):  # the second time nothing is left to change
        async with database.transaction() as session:
            assert await write_route_move(session, acme, "big", "huge") == expected
            await record(session, PLATFORM, "pool.move", "big", None, {"tenant": acme})
    routes = await read_routes(database)
    assert (route(routes, acme), route(routes, hooli)) == ("huge", "huge")
    async with database.session() as session:
        generations = [(await session.get_one(PoolRow, pool)).generation for pool in ("all", "big", "huge")]
    assert generations == [1, 2, 2]
    assert (await compare_states(database, PLATFORM)).faults == []


def route(routes: Any, tenant: str) -> str | None:
    """The pool of a tenant's requests for m."""
    found = routes.of(tenant, "m")
    return found and found.pool

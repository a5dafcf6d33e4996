"""Public interface of this package for who runs pools: what each one should be, and who changes that."""

from billing.dedicated_pools.desired import DesiredPool, read_pools
from billing.dedicated_pools.first_fill import fill_pool
from billing.dedicated_pools.observed import FRESH_MS as FLEET_FRESH_MS
from billing.dedicated_pools.observed import PoolSight, VersionSight, read_sights
from billing.dedicated_pools.pools import create_pool, delete_pool, drain_pool, edit_pool, let_in_by_pool
from billing.dedicated_pools.route_moves import RouteMove, read_route_move, write_route_move
from billing.dedicated_pools.routes import KEPT_SECONDS as ROUTES_KEPT_SECONDS
from billing.dedicated_pools.routes import PoolRoute, PoolRoutes, read_routes, tenants_let_in
from billing.dedicated_pools.versions import (
    WantedVersion,
    abandon_version,
    switch_version,
    tell_routes,
    use_version,
)
from billing.tables.pools import ACTIVE, DRAINING, SHARED, FleetNode, PoolRow, PoolState

__all__ = [
    "ACTIVE",
    "DRAINING",
    "FLEET_FRESH_MS",
    "ROUTES_KEPT_SECONDS",
    "SHARED",
    "DesiredPool",
    "FleetNode",
    "PoolRoute",
    "PoolRoutes",
    "PoolRow",
    "PoolSight",
    "PoolState",
    "RouteMove",
    "VersionSight",
    "WantedVersion",
    "abandon_version",
    "create_pool",
    "delete_pool",
    "drain_pool",
    "edit_pool",
    "fill_pool",
    "let_in_by_pool",
    "read_pools",
    "read_route_move",
    "read_routes",
    "read_sights",
    "switch_version",
    "tell_routes",
    "tenants_let_in",
    "use_version",
    "write_route_move",
]

"""Public interface of this package for who runs pools: what each one should be, and who changes that."""

from billing.dedicated_pools.desired import DesiredPool, read_pools
from billing.dedicated_pools.pools import create_pool, delete_pool, drain_pool, edit_pool, let_in_by_pool
from billing.dedicated_pools.routes import PoolRoute, PoolRoutes, read_routes
from billing.tables.pools import ACTIVE, DRAINING, SHARED, PoolRow

__all__ = [
    "ACTIVE",
    "DRAINING",
    "SHARED",
    "DesiredPool",
    "PoolRoute",
    "PoolRoutes",
    "PoolRow",
    "create_pool",
    "delete_pool",
    "drain_pool",
    "edit_pool",
    "let_in_by_pool",
    "read_pools",
    "read_routes",
]

"""The operations of this package, for the entry point `parley.operations`."""

from engine.operations import (
    connections,
    migrating,
    model_use,
    models,
    moving_tenants,
    pool_shares,
    requests,
    safety,
    safety_try,
    search,
    workers,
)

OPERATIONS = (
    *requests.OPERATIONS,
    *migrating.OPERATIONS,
    *moving_tenants.OPERATIONS,
    *models.OPERATIONS,
    *model_use.OPERATIONS,
    *search.OPERATIONS,
    *workers.OPERATIONS,
    *connections.OPERATIONS,
    *pool_shares.OPERATIONS,
    *safety.OPERATIONS,
    *safety_try.OPERATIONS,
)

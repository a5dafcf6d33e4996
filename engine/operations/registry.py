"""The operations of this package, for the entry point `parley.operations`."""

from engine.operations import (
    connections,
    migrating,
    moving_tenants,
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
    *search.OPERATIONS,
    *workers.OPERATIONS,
    *connections.OPERATIONS,
    *safety.OPERATIONS,
    *safety_try.OPERATIONS,
)

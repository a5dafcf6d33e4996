"""The operations of this package, for the entry point `parley.operations`."""

from billing.operations import keys, limits, tenants, users

OPERATIONS = (*keys.OPERATIONS, *limits.OPERATIONS, *tenants.OPERATIONS, *users.OPERATIONS)

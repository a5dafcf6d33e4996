"""The operations of this package, for the entry point `parley.operations`."""

from billing.operations import keys, tenants, users

OPERATIONS = (*keys.OPERATIONS, *tenants.OPERATIONS, *users.OPERATIONS)

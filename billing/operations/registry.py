"""The operations of this package, for the entry point `parley.operations`."""

from billing.operations import tenants

OPERATIONS = (*tenants.OPERATIONS,)

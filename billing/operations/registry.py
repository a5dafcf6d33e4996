"""The operations of this package, for the entry point `parley.operations`."""

from billing.operations import keys, limits, plans, projects, sessions, tenants, users

OPERATIONS = (
    *keys.OPERATIONS,
    *limits.OPERATIONS,
    *plans.OPERATIONS,
    *projects.OPERATIONS,
    *sessions.OPERATIONS,
    *tenants.OPERATIONS,
    *users.OPERATIONS,
)

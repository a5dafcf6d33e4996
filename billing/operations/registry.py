"""The operations of this package, for the entry point `parley.operations`."""

from billing.operations import (
    approvals,
    budgets,
    corrections,
    keys,
    limits,
    plans,
    projects,
    sessions,
    tenants,
    users,
    wallet_views,
    wallets,
)

OPERATIONS = (
    *approvals.OPERATIONS,
    *budgets.OPERATIONS,
    *corrections.OPERATIONS,
    *keys.OPERATIONS,
    *limits.OPERATIONS,
    *plans.OPERATIONS,
    *projects.OPERATIONS,
    *sessions.OPERATIONS,
    *tenants.OPERATIONS,
    *users.OPERATIONS,
    *wallet_views.OPERATIONS,
    *wallets.OPERATIONS,
)

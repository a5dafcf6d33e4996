"""The operations of this package, for the entry point `parley.operations`."""

from billing.operations import (
    approvals,
    budgets,
    corrections,
    keys,
    limits,
    own_account,
    people,
    plans,
    projects,
    sessions,
    tenants,
    tokens,
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
    *own_account.OPERATIONS,
    *people.OPERATIONS,
    *plans.OPERATIONS,
    *projects.OPERATIONS,
    *sessions.OPERATIONS,
    *tenants.OPERATIONS,
    *tokens.OPERATIONS,
    *users.OPERATIONS,
    *wallet_views.OPERATIONS,
    *wallets.OPERATIONS,
)

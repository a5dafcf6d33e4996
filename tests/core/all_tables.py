"""The tables of all packages."""

import billing.tables.approvals
import billing.tables.audit
import billing.tables.dedicated_pools
import billing.tables.ledger
import billing.tables.limits
import billing.tables.noisy
import billing.tables.people
import billing.tables.pools
import billing.tables.prices
import billing.tables.reconciliation
import billing.tables.refusals
import billing.tables.replies
import billing.tables.runs
import billing.tables.safety
import billing.tables.sessions
import billing.tables.tenants
import billing.tables.wallets
import engine.fleet.tables
import engine.models.tables
import server.conversations.tables

TABLES_OF_ALL_PACKAGES = (
    billing.tables.audit,
    billing.tables.ledger,
    billing.tables.limits,
    billing.tables.approvals,
    billing.tables.noisy,
    billing.tables.dedicated_pools,
    billing.tables.people,
    billing.tables.pools,
    billing.tables.prices,
    billing.tables.reconciliation,
    billing.tables.refusals,
    billing.tables.replies,
    billing.tables.runs,
    billing.tables.safety,
    billing.tables.sessions,
    billing.tables.tenants,
    billing.tables.wallets,
    engine.fleet.tables,
    engine.models.tables,
    server.conversations.tables,
)

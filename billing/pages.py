"""Public interface of this package for operators' pages that show the whole platform: what happened, what the
books said, what is not billed yet. Names that others need too stand in billing.api."""

from billing.audit.newest import newest_changes
from billing.audit.view import row_shown, users_in
from billing.dedicated_pools.owners import present_owners
from billing.reconciliation.last_run import LastRun, StoredCheck, StoredComparison, last_run
from billing.reconciliation.tenant_keys import EndedStreams, look_at_streams
from billing.reports.tenant_needs import TenantNeed, tenant_needs
from billing.requests.quarantined import count_quarantined
from billing.tables.audit import AuditLog
from billing.tenants.erasure import erased_tenants
from billing.tenants.shown_names import users_named
from billing.tenants.tenancy import tenant_names

__all__ = [
    "AuditLog",
    "EndedStreams",
    "LastRun",
    "StoredCheck",
    "StoredComparison",
    "TenantNeed",
    "count_quarantined",
    "erased_tenants",
    "last_run",
    "look_at_streams",
    "newest_changes",
    "present_owners",
    "row_shown",
    "tenant_names",
    "tenant_needs",
    "users_in",
    "users_named",
]

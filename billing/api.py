"""The door of this package: what the engine, the server and the console may import from billing (besides
billing.usage, which owns the usage event)."""

from billing.money import to_display, to_text
from billing.periods import Period, Window, window_at, zone_named
from billing.price_book import pinned_prices
from billing.prices import Counts, Line, Meter, counts_of, rate
from billing.quota import Admission, AdmissionState, Admitted, Canceller, Directory, Extension, Quota, Settled
from billing.reports import GroupBy, Usage, usage_in
from billing.tables import ApiKey, PoolTerms, Project, Tenant
from billing.tenancy import (
    CONTROL_CHANNEL,
    DEFAULT_PROJECT,
    DEFAULT_SCOPES,
    PRIORITIES,
    SCOPES,
    ControlNews,
    Principal,
    authenticate_key,
    create_key,
    create_project,
    create_tenant,
    find_project,
    find_tenant,
    list_keys,
    list_tenants,
    principal_of_key,
    revoke_key,
    rotate_key,
)
from billing.terms import TERMS_CHANGED, list_terms, set_terms
from billing.usage import PinnedPrices, UsageEvent, UsageOwner

__all__ = [
    "CONTROL_CHANNEL",
    "DEFAULT_PROJECT",
    "DEFAULT_SCOPES",
    "PRIORITIES",
    "SCOPES",
    "TERMS_CHANGED",
    "Admission",
    "AdmissionState",
    "Admitted",
    "ApiKey",
    "Canceller",
    "ControlNews",
    "Counts",
    "Directory",
    "Extension",
    "GroupBy",
    "Line",
    "Meter",
    "Period",
    "PinnedPrices",
    "PoolTerms",
    "Principal",
    "Project",
    "Quota",
    "Settled",
    "Tenant",
    "Usage",
    "UsageEvent",
    "UsageOwner",
    "Window",
    "authenticate_key",
    "counts_of",
    "create_key",
    "create_project",
    "create_tenant",
    "find_project",
    "find_tenant",
    "list_keys",
    "list_tenants",
    "list_terms",
    "pinned_prices",
    "principal_of_key",
    "rate",
    "revoke_key",
    "rotate_key",
    "set_terms",
    "to_display",
    "to_text",
    "usage_in",
    "window_at",
    "zone_named",
]

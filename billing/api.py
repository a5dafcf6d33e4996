"""The door of this package: what the engine, the server and the console may import from billing (besides
billing.usage, which owns the usage event)."""

from billing.books.reports import GroupBy, Usage, usage_in
from billing.marks import unsealed_until_ms
from billing.money import to_display, to_text
from billing.noisy.findings import in_force, list_findings
from billing.noisy.tables import NoisyFinding
from billing.periods import Calendar, Period, Window, window_at, zone_named
from billing.pools.hours import READY_GAP_MS_MAX, READY_INTERVALS_MAX
from billing.posting.admissions import Admissions, Asked, asked_of, seal
from billing.posting.admitted import admissions_of
from billing.prices.calendars import calendar_of
from billing.prices.price_book import offered_prices, pinned_prices
from billing.prices.rating import Counts, Line, Meter, counts_of, rate
from billing.quotas.bindings import Bindings
from billing.quotas.limit_book import LimitBook
from billing.quotas.limit_push import push_limits
from billing.quotas.limit_rows import (
    LIMITS_CHANGED,
    end_budget,
    end_policy,
    list_budgets,
    list_policies,
    override_budget,
    set_budget,
    set_policy,
)
from billing.quotas.limits import UNLIMITED, Dimension, Limits, Mode, Scope
from billing.quotas.owned import Whose, open_of
from billing.quotas.quota import Quota
from billing.quotas.quota_types import (
    Admission,
    AdmissionState,
    Admitted,
    Canceller,
    Directory,
    Extension,
    Hold,
    LimitUse,
    MoneySum,
    PostedSums,
    Remaining,
    Settled,
    Standing,
)
from billing.quotas.shadow_counts import count_shadowed
from billing.reconciliation.board import Reconciliation
from billing.reconciliation.compared import MEANING, Check, Compared, State
from billing.requests.explaining import Booked, HeldBack, booked_of, held_back_of, tenants_with
from billing.requests.holding import Held, held_of, holders_of
from billing.requests.refusal_stream import RefusalTally
from billing.requests.refusal_views import FoundRefusals, SoughtRefusals, find_refusals, refusals_of
from billing.tables import DIRECTORY_SEALED_SINCE, PLATFORM, ApiKey, PoolTerms, Project, Tenant
from billing.tenants.audit_log import note, record
from billing.tenants.erasing import held_events_of, requests_of
from billing.tenants.keys import (
    DEFAULT_SCOPES,
    KEY_REVOKED,
    SCOPES,
    Principal,
    authenticate_key,
    create_key,
    is_suspended_key,
    is_suspended_secret,
    key_for_link,
    list_keys,
    principal_of_key,
    revoke_key,
    rotate_key,
)
from billing.tenants.session_ends import SESSION_ENDED, clear_sessions, end_session, note_use, tell_ended
from billing.tenants.session_tables import BrowserSession
from billing.tenants.sessions import (
    is_own_session,
    is_suspended_session,
    is_suspended_token,
    open_operator_session,
    open_session,
    operator_of_session,
    principal_of_session,
    principal_of_session_id,
    sessions_of,
)
from billing.tenants.sign_in_links import SignInLink, make_link_code, read_link_code
from billing.tenants.tenancy import (
    ACCESS_CHANGED,
    CONTROL_CHANNEL,
    DEFAULT_PROJECT,
    PRICES_CHANGED,
    PRIORITIES,
    ControlNews,
    create_project,
    create_tenant,
    find_project,
    find_tenant,
    list_tenants,
    set_tenant,
    tenant_names,
)
from billing.tenants.terms import TERMS_CHANGED, list_terms, set_terms
from billing.tenants.users import user_id, user_is_closed, user_named, user_names
from billing.usage import PinnedPrices, PriceOffer, UsageEvent, UsageOwner
from billing.wallets.owed import owed_by_each

__all__ = [
    "ACCESS_CHANGED",
    "CONTROL_CHANNEL",
    "DEFAULT_PROJECT",
    "DEFAULT_SCOPES",
    "DIRECTORY_SEALED_SINCE",
    "KEY_REVOKED",
    "LIMITS_CHANGED",
    "MEANING",
    "PLATFORM",
    "PRICES_CHANGED",
    "PRIORITIES",
    "READY_GAP_MS_MAX",
    "READY_INTERVALS_MAX",
    "SCOPES",
    "SESSION_ENDED",
    "TERMS_CHANGED",
    "UNLIMITED",
    "Admission",
    "AdmissionState",
    "Admissions",
    "Admitted",
    "ApiKey",
    "Asked",
    "Bindings",
    "Booked",
    "BrowserSession",
    "Calendar",
    "Canceller",
    "Check",
    "Compared",
    "ControlNews",
    "Counts",
    "Dimension",
    "Directory",
    "Extension",
    "FoundRefusals",
    "GroupBy",
    "Held",
    "HeldBack",
    "Hold",
    "LimitBook",
    "LimitUse",
    "Limits",
    "Line",
    "Meter",
    "Mode",
    "MoneySum",
    "NoisyFinding",
    "Period",
    "PinnedPrices",
    "PoolTerms",
    "PostedSums",
    "PriceOffer",
    "Principal",
    "Project",
    "Quota",
    "Reconciliation",
    "RefusalTally",
    "Remaining",
    "Scope",
    "Settled",
    "SignInLink",
    "SoughtRefusals",
    "Standing",
    "State",
    "Tenant",
    "Usage",
    "UsageEvent",
    "UsageOwner",
    "Whose",
    "Window",
    "admissions_of",
    "asked_of",
    "authenticate_key",
    "booked_of",
    "calendar_of",
    "clear_sessions",
    "count_shadowed",
    "counts_of",
    "create_key",
    "create_project",
    "create_tenant",
    "end_budget",
    "end_policy",
    "end_session",
    "find_project",
    "find_refusals",
    "find_tenant",
    "held_back_of",
    "held_events_of",
    "held_of",
    "holders_of",
    "in_force",
    "is_own_session",
    "is_suspended_key",
    "is_suspended_secret",
    "is_suspended_session",
    "is_suspended_token",
    "key_for_link",
    "list_budgets",
    "list_findings",
    "list_keys",
    "list_policies",
    "list_tenants",
    "list_terms",
    "make_link_code",
    "note",
    "note_use",
    "offered_prices",
    "open_of",
    "open_operator_session",
    "open_session",
    "operator_of_session",
    "override_budget",
    "owed_by_each",
    "pinned_prices",
    "principal_of_key",
    "principal_of_session",
    "principal_of_session_id",
    "push_limits",
    "rate",
    "read_link_code",
    "record",
    "refusals_of",
    "requests_of",
    "revoke_key",
    "rotate_key",
    "seal",
    "sessions_of",
    "set_budget",
    "set_policy",
    "set_tenant",
    "set_terms",
    "tell_ended",
    "tenant_names",
    "tenants_with",
    "to_display",
    "to_text",
    "unsealed_until_ms",
    "usage_in",
    "user_id",
    "user_is_closed",
    "user_named",
    "user_names",
    "window_at",
    "zone_named",
]

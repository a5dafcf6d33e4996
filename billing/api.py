"""Public interface of this package: the names that engine, server and console may import from billing
(besides billing.usage, which owns the usage event)."""

from billing.approvals.proposals import WaitingMove, perform_or_propose
from billing.audit.log import record, record_separately
from billing.audit_heads.head_files import read_heads, require_heads
from billing.audit_heads.restore_log import record_restore
from billing.audit_heads.restores import Rollback, rollbacks_of
from billing.booking.admissions import Admissions, SealedAdmission, admissions_of, seal, sealed_admission_of
from billing.booking.recent_moves import MOVES
from billing.dedicated_pools.hours import READY_GAP_MS_MAX, READY_INTERVALS_MAX
from billing.enforcement.limit_cache import LimitCache
from billing.enforcement.limit_push import push_limits
from billing.enforcement.limit_settings import (
    LIMITS_CHANGED,
    end_budget,
    end_policy,
    list_budgets,
    list_policies,
    override_budget,
    set_budget,
    set_policy,
)
from billing.limits import UNLIMITED, Dimension, Mode, RequestLimits, Scope
from billing.money import UNITS, to_display, to_text
from billing.noisy.findings import is_throttling, list_findings
from billing.people.actors import actor_of_bearer, actor_of_session
from billing.people.first_owner import owner_url
from billing.people.known_browsers import KNOWN_SECONDS
from billing.people.links import make_person_code
from billing.people.people_names import people_named
from billing.people.person_sessions import (
    PERSON_SESSION_SECONDS,
    NewPersonSession,
    SignedInPerson,
    clear_person_sessions,
    end_person_session,
    find_person_session,
)
from billing.people.persons import ensure_owner
from billing.people.sign_in import SignIns
from billing.periods import Calendar, Period, PeriodWindow, duration_ms, month_number, window_at, zone_named
from billing.prices.book import offered_prices, pinned_prices
from billing.prices.rating import Counts, Meter, counts_of, rate
from billing.quota.bindings import Bindings
from billing.quota.client import Quota
from billing.quota.lapsed_requests import release_lapsed
from billing.quota.open_requests import OwnerFilter, keys_of_requests, open_of
from billing.quota.packing import SETTLED_KEEP_MS, UNLIMITED_TOKENS
from billing.quota.shadow_counts import count_shadowed
from billing.quota.types import (
    Admission,
    AdmissionState,
    Admitted,
    AllowanceExtension,
    Canceller,
    DirectoryEntry,
    Hold,
    LeastRemaining,
    LimitUse,
    MoneySum,
    Remaining,
)
from billing.quota.unposted_usage import unacknowledged as unacknowledged_events
from billing.reconciliation.comparison import MEANING, Check, Comparison, ComparisonState
from billing.reconciliation.run import Reconciliation
from billing.reports.random_months import comparison_remainders
from billing.reports.safety_verdicts import DAYS_MAX as SAFETY_DAYS_MAX
from billing.reports.safety_verdicts import SafetyDay, verdicts_by_day
from billing.reports.usage_names import NAMED, UsageTerms, named_id, names_in_audit_log, names_of, usage_terms
from billing.reports.usage_pages import UsageGroup, UsagePage, usage_page
from billing.reports.usage_questions import (
    BY_MAX,
    Facet,
    PagePosition,
    UsageBucket,
    UsageQuestion,
    check_question,
)
from billing.reports.usage_report import GroupBy, usage_in
from billing.requests.explain import (
    BookedLine,
    BookedRequest,
    HeldBack,
    booked_of,
    held_back_of,
    requests_shortened,
    tenants_with,
)
from billing.requests.find import billed_or_held, is_billed
from billing.requests.held_requests import HeldRequest, held_of, tenants_holding
from billing.requests.refusal_stream import RefusalTally
from billing.requests.refusal_views import (
    RefusalMatch,
    RefusalPage,
    RefusalSearch,
    find_refusals,
    refusals_of,
)
from billing.requests.request_owners import RequestOwner, owners_of_requests
from billing.requests.standing_limits import StandingLimit, standing_limits
from billing.tables.noisy import NoisyFinding
from billing.tables.safety import SafetyPolicy
from billing.tables.sessions import BrowserSession
from billing.tables.tenants import PLATFORM, ApiKey, PoolTerms, Project, Tenant
from billing.tenants.edits import lock_settings
from billing.tenants.erasure import held_events_of, is_erased, is_open, requests_of, wait_for_writers
from billing.tenants.key_ends import revoke_key
from billing.tenants.key_links import key_for_link
from billing.tenants.key_rights import SCOPES, TENANT_USAGE_SCOPE, USAGE_SCOPE, USAGE_SCOPES
from billing.tenants.keys import (
    KEY_REVOKED,
    Principal,
    authenticate_key,
    create_key,
    is_suspended_key,
    is_suspended_secret,
    list_keys,
    principal_of_key,
    rotate_key,
)
from billing.tenants.pool_terms import TERMS_CHANGED, list_terms, set_terms
from billing.tenants.search import NamedThing, ThingKind, things_beginning, things_named
from billing.tenants.session_ends import (
    SESSION_ENDED,
    clear_sessions,
    end_session,
    publish_session_end,
    touch_session,
)
from billing.tenants.sessions import (
    is_own_session,
    is_suspended_session,
    is_suspended_token,
    open_session,
    principal_of_session,
    principal_of_session_id,
    sessions_of,
)
from billing.tenants.shown_names import key_names, project_names
from billing.tenants.sign_in_links import make_link_code, read_link_code
from billing.tenants.tenancy import (
    ACCESS_CHANGED,
    CONTROL_CHANNEL,
    DEFAULT_PROJECT,
    PRICES_CHANGED,
    ROUTES_CHANGED,
    ControlNews,
    create_project,
    create_tenant,
    find_project,
    find_tenant,
    list_tenants,
    publish_news,
    set_tenant,
    tenant_names,
)
from billing.tenants.users import user_id, user_is_closed, user_named, user_names
from billing.unit_of_work.actors import OperationActor, local_actor
from billing.unit_of_work.change_stream import RecordedChange, read_changes
from billing.unit_of_work.listing import Limit, ListQuestion, listed_page
from billing.unit_of_work.perform import Performed, perform
from billing.unit_of_work.progress import OperationProgress, StartedRun
from billing.unit_of_work.replies import clear_replies
from billing.unit_of_work.run_rows import clear_runs
from billing.unit_of_work.runs import LongRuns
from billing.unit_of_work.units import Change, Look, Order, Stores, Terms
from billing.usage import PinnedPrices, PriceOffer, UsageEvent, UsageOwner
from billing.wallets.owed import owed_by_each

__all__ = [
    "ACCESS_CHANGED",
    "BY_MAX",
    "CONTROL_CHANNEL",
    "DEFAULT_PROJECT",
    "KEY_REVOKED",
    "KNOWN_SECONDS",
    "LIMITS_CHANGED",
    "MEANING",
    "MOVES",
    "NAMED",
    "PERSON_SESSION_SECONDS",
    "PLATFORM",
    "PRICES_CHANGED",
    "READY_GAP_MS_MAX",
    "READY_INTERVALS_MAX",
    "ROUTES_CHANGED",
    "SAFETY_DAYS_MAX",
    "SCOPES",
    "SESSION_ENDED",
    "SETTLED_KEEP_MS",
    "TENANT_USAGE_SCOPE",
    "TERMS_CHANGED",
    "UNITS",
    "UNLIMITED",
    "UNLIMITED_TOKENS",
    "USAGE_SCOPE",
    "USAGE_SCOPES",
    "Admission",
    "AdmissionState",
    "Admissions",
    "Admitted",
    "AllowanceExtension",
    "ApiKey",
    "Bindings",
    "BookedLine",
    "BookedRequest",
    "BrowserSession",
    "Calendar",
    "Canceller",
    "Change",
    "Check",
    "Comparison",
    "ComparisonState",
    "ControlNews",
    "Counts",
    "Dimension",
    "DirectoryEntry",
    "Facet",
    "GroupBy",
    "HeldBack",
    "HeldRequest",
    "Hold",
    "LeastRemaining",
    "Limit",
    "LimitCache",
    "LimitUse",
    "ListQuestion",
    "LongRuns",
    "Look",
    "Meter",
    "Mode",
    "MoneySum",
    "NamedThing",
    "NewPersonSession",
    "NoisyFinding",
    "OperationActor",
    "OperationProgress",
    "Order",
    "OwnerFilter",
    "PagePosition",
    "Performed",
    "Period",
    "PeriodWindow",
    "PinnedPrices",
    "PoolTerms",
    "PriceOffer",
    "Principal",
    "Project",
    "Quota",
    "Reconciliation",
    "RecordedChange",
    "RefusalMatch",
    "RefusalPage",
    "RefusalSearch",
    "RefusalTally",
    "Remaining",
    "RequestLimits",
    "RequestOwner",
    "Rollback",
    "SafetyDay",
    "SafetyPolicy",
    "Scope",
    "SealedAdmission",
    "SignIns",
    "SignedInPerson",
    "StandingLimit",
    "StartedRun",
    "Stores",
    "Tenant",
    "Terms",
    "ThingKind",
    "UsageBucket",
    "UsageEvent",
    "UsageGroup",
    "UsageOwner",
    "UsagePage",
    "UsageQuestion",
    "UsageTerms",
    "WaitingMove",
    "actor_of_bearer",
    "actor_of_session",
    "admissions_of",
    "authenticate_key",
    "billed_or_held",
    "booked_of",
    "check_question",
    "clear_person_sessions",
    "clear_replies",
    "clear_runs",
    "clear_sessions",
    "comparison_remainders",
    "count_shadowed",
    "counts_of",
    "create_key",
    "create_project",
    "create_tenant",
    "duration_ms",
    "end_budget",
    "end_person_session",
    "end_policy",
    "end_session",
    "ensure_owner",
    "find_person_session",
    "find_project",
    "find_refusals",
    "find_tenant",
    "held_back_of",
    "held_events_of",
    "held_of",
    "is_billed",
    "is_erased",
    "is_open",
    "is_own_session",
    "is_suspended_key",
    "is_suspended_secret",
    "is_suspended_session",
    "is_suspended_token",
    "is_throttling",
    "key_for_link",
    "key_names",
    "keys_of_requests",
    "list_budgets",
    "list_findings",
    "list_keys",
    "list_policies",
    "list_tenants",
    "list_terms",
    "listed_page",
    "local_actor",
    "lock_settings",
    "make_link_code",
    "make_person_code",
    "month_number",
    "named_id",
    "names_in_audit_log",
    "names_of",
    "offered_prices",
    "open_of",
    "open_session",
    "override_budget",
    "owed_by_each",
    "owner_url",
    "owners_of_requests",
    "people_named",
    "perform",
    "perform_or_propose",
    "pinned_prices",
    "principal_of_key",
    "principal_of_session",
    "principal_of_session_id",
    "project_names",
    "publish_news",
    "publish_session_end",
    "push_limits",
    "rate",
    "read_changes",
    "read_heads",
    "read_link_code",
    "record",
    "record_restore",
    "record_separately",
    "refusals_of",
    "release_lapsed",
    "requests_of",
    "requests_shortened",
    "require_heads",
    "revoke_key",
    "rollbacks_of",
    "rotate_key",
    "seal",
    "sealed_admission_of",
    "sessions_of",
    "set_budget",
    "set_policy",
    "set_tenant",
    "set_terms",
    "standing_limits",
    "tenant_names",
    "tenants_holding",
    "tenants_with",
    "things_beginning",
    "things_named",
    "to_display",
    "to_text",
    "touch_session",
    "unacknowledged_events",
    "usage_in",
    "usage_page",
    "usage_terms",
    "user_id",
    "user_is_closed",
    "user_named",
    "user_names",
    "verdicts_by_day",
    "wait_for_writers",
    "window_at",
    "zone_named",
]

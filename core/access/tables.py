"""Tables that each kind of process reads and writes. `parley db roles` makes Postgres' roles of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from core.access.processes import (
    BILLER,
    CONSOLE,
    FLEET,
    GATEWAY,
    MIGRATE,
    OPERATOR,
    PORTAL,
    SUPERVISOR,
    ProcessKind,
)
from core.access.row_rules import NEVER, RowRule

TERMS = "plan pool_terms"
TENANTS = f"tenant {TERMS} project tenant_user"
KEYS = "api_key"
KEY_CHAINS = {KEYS: "tenant_id id owner_key"}  # who counts by key needs no prefix, name or digest
READERS = {  # whom the biller tells that a report is there
    "membership": "tenant_id person_id role ended_ms",
    "person": "id email closed_ms",
}
PRICES = "price_book price_version price price_tier gpu_price period_commitment"
LIMITS = "quota_policy budget"
MODELS = "model_version"
POOLS = "pool pool_admission"
FLEET_SEEN = "pool_state fleet_node"
FLEET_STATE = f"fleet_lease {FLEET_SEEN}"
POLICIES = "safety_policy"
TEXTS = "conversation message"
SESSIONS = "browser_session"
ALERTS = "alert_target budget_alert outbox ledger_head"  # a budget that is spent already alerts at once
PROPOSALS = "proposal"
REPLIES = "kept_reply operation_run"  # of calls over the API
PEOPLE = "person membership invitation person_session service_token"
AUDIT = "audit_head audit_log audit_state"
RECONCILIATION = "recon_item recon_mark"
# Tables from which Redis' counts of money are seeded, and those that rule a tenant's requests.
SUMS = (
    "usage_event usage_line rollup_hour rollup_price ledger_head wallet wallet_grant wallet_use wallet_owed "
    "budget_spent budget_watermark budget_alert noisy_finding pool_owner"
)
REFUSALS = "refusal_minute refusal_hour refusal_mark"
BOOKS = (
    f"{SUMS} {RECONCILIATION} {REFUSALS} usage_quarantine ledger_txn ledger_entry cost_center "
    "project_cost_center alert_target outbox period_close charge pool_interval commitment gpu_cost "
    "engine_hour ended_hour rollup_tag tag_key report_schedule"
)
EVERYTHING = " ".join(
    (
        TENANTS,
        KEYS,
        PRICES,
        LIMITS,
        MODELS,
        POOLS,
        FLEET_STATE,
        POLICIES,
        TEXTS,
        SESSIONS,
        AUDIT,
        BOOKS,
        PROPOSALS,
        REPLIES,
        PEOPLE,
    )
)
# Whose requests run, without what anybody wrote.
RUNNING = {
    "conversation": "tenant_id id project_id",
    "message": "tenant_id conversation_id request_id owner_key user_id status created_ms",
}
POOL_NAMES = {"pool": "pool"}  # whether there is one
# Books that operations of each kind of console write and read.
BOOKED_BY_STAFF = (
    "ledger_head ledger_txn ledger_entry wallet wallet_grant wallet_use wallet_owed usage_line rollup_hour "
    "rollup_price rollup_tag budget_spent budget_watermark budget_alert alert_target outbox pool_owner "
    "commitment gpu_cost cost_center project_cost_center tag_key "
    "report_schedule"
)
READ_BY_STAFF = (
    f"{REFUSALS} usage_event usage_quarantine noisy_finding period_close charge pool_interval "
    "engine_hour ended_hour"
)
READ_BY_MEMBERS = (
    "usage_event usage_line usage_quarantine rollup_hour rollup_price rollup_tag ledger_head ledger_txn "
    "ledger_entry wallet wallet_grant wallet_use wallet_owed budget_spent budget_watermark refusal_minute "
    "refusal_hour period_close commitment charge pool_interval pool_owner"
)
# Rows that are a tenant's, and those that its own admins made. The platform's have an empty tenant.
OF_TENANTS = RowRule("{0}.tenant_id <> ''")
BY_TENANTS = RowRule(f"{OF_TENANTS.holds} AND {{0}}.by_tenant")
OWNED_BY_TENANTS = f"{POLICIES} {REPLIES} alert_target outbox membership invitation service_token"
NO_LINES = "NEW.txn_seq = 0 AND NEW.line_seq = 0 AND NEW.rolled_seq = 0 AND NEW.closed_ms = 0"
SESSION_STAYS = " AND ".join(
    f"NEW.{name} IS NOT DISTINCT FROM OLD.{name}"
    for name in ("id", "token_sha256", "person_id", "ends_ms", "second_factor_ms")
)
ENDS = f"({SESSION_STAYS} AND NEW.ended_ms IS NOT NULL)"
WRITTEN_BY_MEMBERS = {
    **dict.fromkeys(LIMITS.split(), BY_TENANTS),
    **dict.fromkeys(OWNED_BY_TENANTS.split(), OF_TENANTS),
    # The ends of books are made and locked, those of the audit log go on by a row. What people change of
    # their own account stands in the platform's audit log.
    "ledger_head": RowRule(OF_TENANTS.holds, f"{NO_LINES} AND NEW.sha256 = ''", NEVER, deleted=False),
    "audit_head": RowRule(
        added="NEW.seq = 0 AND NEW.sha256 = ''",
        changed="NEW.seq = OLD.seq + 1 AND NEW.sha256 <> OLD.sha256",
        deleted=False,
    ),
    # Who sets a password ends their other sessions, as staff too; none of staff is opened or prolonged.
    "person_session": RowRule(added="NEW.tenant_id <> ''", changed=f"(NEW.tenant_id <> '' OR {ENDS})"),
    "audit_log": RowRule("({0}.tenant_id <> '' OR starts_with({0}.action, 'person.'))"),
}
VERSION = "alembic_version"  # each process checks that the schema is its own


@dataclass(frozen=True)
class TableNames:
    """Names, separated by blanks. Written tables may be read too; of those in `columns` these columns
    alone. `locks`: tables that are read, and whose rows are locked while what belongs to them is changed.
    `rows`: of a written table only rows that meet this condition are (core/access/row_rules.py)."""

    reads: str = ""
    writes: str = ""
    locks: str = ""
    columns: Mapping[str, str] = field(default_factory=dict[str, str])
    rows: Mapping[str, RowRule] = field(default_factory=dict[str, RowRule])


# A process that is missing here has no database. The migrating user owns the tables.
TABLES: dict[ProcessKind, TableNames] = {
    GATEWAY: TableNames(
        reads=f"{TENANTS} {KEYS} {PRICES} {LIMITS} {MODELS} {POOLS} pool_state {POLICIES} {SUMS}",
        writes=f"{TEXTS} {SESSIONS} {AUDIT} tenant_user",
    ),
    SUPERVISOR: TableNames(reads=f"{MODELS} {POOLS}"),
    FLEET: TableNames(  # and for its supervisors; a switch to a pool's next version is recorded
        reads=f"{MODELS} {POOLS}", writes=f"{FLEET_STATE} pool {AUDIT}"
    ),
    BILLER: TableNames(
        reads=f"{TENANTS} {PRICES} {LIMITS} {MODELS} {POOLS}",
        writes=f"{BOOKS} {AUDIT}",
        columns={**KEY_CHAINS, **READERS},
    ),
    CONSOLE: TableNames(
        reads=f"{PRICES} {FLEET_SEEN} {READ_BY_STAFF}",
        writes=f"{TENANTS} {KEYS} {LIMITS} {MODELS} {POOLS} {POLICIES} {SESSIONS} {PROPOSALS} {PEOPLE} "
        f"{AUDIT} {REPLIES} {RECONCILIATION} {BOOKED_BY_STAFF}",
        columns=RUNNING,
    ),
    PORTAL: TableNames(
        reads=f"tenant {TERMS} {PRICES} {MODELS} {READ_BY_MEMBERS}",
        writes=f"{KEYS} {SESSIONS} {PEOPLE} {AUDIT} {REPLIES} {LIMITS} {POLICIES} {ALERTS} tenant_user "
        "project cost_center project_cost_center tag_key report_schedule",
        locks="tenant",
        columns={**RUNNING, **POOL_NAMES},
        rows=WRITTEN_BY_MEMBERS,
    ),
    OPERATOR: TableNames(writes=EVERYTHING),
}

assert MIGRATE not in TABLES

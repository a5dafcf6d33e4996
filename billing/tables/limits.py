"""Tables of tenants' limits: rates, concurrency and budgets. An edit ends one row and adds another, so that
the limits of any earlier time stay known. Of one count one row is open."""

from sqlalchemy import JSON, BigInteger, CheckConstraint, Index, text
from sqlmodel import Field

from core.sql.database import TableBase

_OPEN = text("ended_ms IS NULL")


class QuotaPolicy(TableBase, table=True):
    """A limit on a rate, on concurrency or on answers, for one scope. `tenant_id` PLATFORM: a plan's, named
    by `plan_id`.

    `scope`: tenant, project, key, user or model; `scope_id` empty: each of that kind has the limit for
    itself. `model_glob`: the models that are counted. `dimension`: requests_per_minute,
    input_tokens_per_minute, output_tokens_per_minute, tokens_per_minute, concurrency or answer_tokens.
    `burst_units` None: as much as the limit. `mode`: enforce or shadow (counted, never refused).
    `by_tenant`: set by the tenant's own admins: it holds beside the operators', the stricter counts."""

    __table_args__ = (
        CheckConstraint("limit_units >= 0", name="ck_quota_policy_limit"),
        CheckConstraint("burst_units IS NULL OR burst_units >= 1", name="ck_quota_policy_burst"),
        Index("ix_quota_policy_open", "tenant_id", "ended_ms"),
        Index(
            "uq_quota_policy_open",
            *("tenant_id", "plan_id", "scope", "scope_id", "model_glob", "dimension", "mode", "by_tenant"),
            unique=True,
            sqlite_where=_OPEN,
            postgresql_where=_OPEN,
        ),
    )

    tenant_id: str = Field(primary_key=True)
    id: str = Field(primary_key=True)
    plan_id: str = ""
    scope: str
    scope_id: str = ""
    model_glob: str = "*"
    dimension: str
    limit_units: int = Field(sa_type=BigInteger)
    burst_units: int | None = Field(default=None, sa_type=BigInteger)
    mode: str = "enforce"
    author: str = ""
    by_tenant: bool = False
    created_ms: int = Field(sa_type=BigInteger)
    ended_ms: int | None = Field(default=None, sa_type=BigInteger)


class Budget(TableBase, table=True):
    """A limit on money, for one scope and window. A request counts in the window in which it was accepted.

    `scope`, `scope_id` as in QuotaPolicy. `period`: day, week, month (in the tenant's time zone) or lifetime.
    `hard`: refuses, and ends answers, at the limit; else it only alerts. `thresholds`: per cents of the limit
    that alert. The override holds in place of the limit until its time. `by_tenant` as in QuotaPolicy."""

    __table_args__ = (
        CheckConstraint("limit_nano >= 0", name="ck_budget_limit"),
        CheckConstraint("override_nano IS NULL OR override_nano >= 0", name="ck_budget_override"),
        Index("ix_budget_open", "tenant_id", "ended_ms"),
        Index(
            "uq_budget_open",
            *("tenant_id", "scope", "scope_id", "period", "mode", "by_tenant"),
            unique=True,
            sqlite_where=_OPEN,
            postgresql_where=_OPEN,
        ),
    )

    tenant_id: str = Field(primary_key=True)
    id: str = Field(primary_key=True)
    scope: str
    scope_id: str = ""
    period: str
    limit_nano: int = Field(sa_type=BigInteger)
    hard: bool = True
    mode: str = "enforce"
    thresholds: list[int] = Field(sa_type=JSON)
    override_nano: int | None = Field(default=None, sa_type=BigInteger)
    override_until_ms: int | None = Field(default=None, sa_type=BigInteger)
    author: str = ""
    by_tenant: bool = False
    created_ms: int = Field(sa_type=BigInteger)
    ended_ms: int | None = Field(default=None, sa_type=BigInteger)

"""Tables of tenants, keys, prices and usage. Money is integer nano-USD; times are Unix milliseconds.

Usage rows hold no foreign keys: an ended request is posted whatever became of its tenant, project or key.
"""

from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    CheckConstraint,
    ForeignKeyConstraint,
    Index,
    UniqueConstraint,
    column,
    text,
)
from sqlmodel import Field

from core.sql.database import TableBase
from core.sql.lower_case import lower_case

HAS_VERDICTS = text("CAST(safety_verdicts AS TEXT) <> '{}'")  # of few rows, whose index stands in safety.py
ENDED_IN_ERROR = text(
    "reason IN ('blocked', 'budget', 'deadline', 'error', 'slow_reader')"
)  # index: refusals.py
PLATFORM = ""  # tenant_id of the platform's own rows, such as price books for all tenants


class Tenant(TableBase, table=True):
    """A customer. `tenant_id` is its own id, so that one filter serves every table. `time_zone`: IANA name of
    the zone in which its days, weeks and months begin. `regex`: answers may follow patterns. `plan_since_ms`:
    time of its last change of plan. `shows_costs`: its users are told what requests cost; `cache_by_owner`:
    nobody reads cache entries that another owner's prompt left."""

    __table_args__ = (
        UniqueConstraint("name", name="uq_tenant_name"),
        ForeignKeyConstraint(["price_book_id"], ["price_book.id"], name="fk_tenant_price_book"),
        ForeignKeyConstraint(["plan_id"], ["plan.id"], name="fk_tenant_plan"),
    )

    tenant_id: str = Field(primary_key=True)
    name: str
    price_book_id: str
    priority_max: str
    time_zone: str = "UTC"
    created_ms: int = Field(sa_type=BigInteger)
    closed_ms: int | None = Field(default=None, sa_type=BigInteger)
    shows_costs: bool = False
    cache_by_owner: bool = False
    plan_id: str | None = None
    plan_since_ms: int | None = Field(default=None, sa_type=BigInteger)
    regex: bool = True


class Plan(TableBase, table=True):
    """An offer to tenants: prices, priority, a place in the pools (as in PoolTerms; `weight` None: the plan
    says nothing of pools), and limits, which are rows of quota_policy that name the plan. Only its limits and
    its end change: another offer is another plan."""

    __table_args__ = (
        UniqueConstraint("name", name="uq_plan_name"),
        CheckConstraint("weight IS NULL OR weight > 0", name="ck_plan_weight"),
        CheckConstraint("reserve_tokens >= 0", name="ck_plan_reserve"),
        ForeignKeyConstraint(["price_book_id"], ["price_book.id"], name="fk_plan_price_book"),
    )

    id: str = Field(primary_key=True)
    tenant_id: str = PLATFORM
    name: str
    price_book_id: str
    priority_max: str
    weight: float | None = None
    slots_max: int | None = Field(default=None, sa_type=BigInteger)
    tokens_max: int | None = Field(default=None, sa_type=BigInteger)
    reserve_tokens: int = Field(default=0, sa_type=BigInteger)
    created_ms: int = Field(sa_type=BigInteger)
    ended_ms: int | None = Field(default=None, sa_type=BigInteger)


class PoolTerms(TableBase, table=True):
    """A tenant's place in every pool. `weight`: its share against other tenants with waiting work; caps on
    running requests and on KV tokens in flight (None: no cap); `reserve_tokens`: KV tokens that others leave
    free for it."""

    __table_args__ = (
        CheckConstraint("weight > 0", name="ck_pool_terms_weight"),
        CheckConstraint("reserve_tokens >= 0", name="ck_pool_terms_reserve"),
        ForeignKeyConstraint(["tenant_id"], ["tenant.tenant_id"], name="fk_pool_terms_tenant"),
    )

    tenant_id: str = Field(primary_key=True)
    weight: float = 1.0
    slots_max: int | None = Field(default=None, sa_type=BigInteger)
    tokens_max: int | None = Field(default=None, sa_type=BigInteger)
    reserve_tokens: int = Field(default=0, sa_type=BigInteger)
    updated_ms: int = Field(default=0, sa_type=BigInteger)


class Project(TableBase, table=True):
    """A tenant's unit of charging and of ownership."""

    __table_args__ = (
        UniqueConstraint("tenant_id", "name", name="uq_project_name"),
        ForeignKeyConstraint(["tenant_id"], ["tenant.tenant_id"], name="fk_project_tenant"),
    )

    tenant_id: str = Field(primary_key=True)
    id: str = Field(primary_key=True)
    name: str
    created_ms: int = Field(sa_type=BigInteger)
    closed_ms: int | None = Field(default=None, sa_type=BigInteger)


class TenantUser(TableBase, table=True):
    """A user of a tenant, and the only place of their name: every other table knows them by `id`. `name`
    None: erased."""

    __table_args__ = (
        UniqueConstraint("tenant_id", "name", name="uq_tenant_user_name"),
        ForeignKeyConstraint(["tenant_id"], ["tenant.tenant_id"], name="fk_tenant_user_tenant"),
        Index("ix_tenant_user_id", "id"),
        Index("ix_tenant_user_lower_name", lower_case(column("name"))),
    )

    tenant_id: str = Field(primary_key=True)
    id: str = Field(primary_key=True)
    name: str | None
    created_ms: int = Field(sa_type=BigInteger)
    closed_ms: int | None = Field(default=None, sa_type=BigInteger)
    erased_ms: int | None = Field(default=None, sa_type=BigInteger)


class ApiKey(TableBase, table=True):
    """A key. Only the SHA-256 of its secret is kept. `user_id` empty: a service key; `shared`: its tickets
    need not name a user. `owner_key`: the first key of its chain of rotations, which owns what belongs to any
    key of the chain. `origins`: of the web pages that may use it; None: anything may."""

    __table_args__ = (
        UniqueConstraint("prefix", name="uq_api_key_prefix"),
        UniqueConstraint("tenant_id", "rotated_from", name="uq_api_key_successor"),
        ForeignKeyConstraint(
            ["tenant_id", "project_id"], ["project.tenant_id", "project.id"], name="fk_api_key_project"
        ),
        ForeignKeyConstraint(
            ["tenant_id", "rotated_from"], ["api_key.tenant_id", "api_key.id"], name="fk_api_key_rotated"
        ),
        Index("ix_api_key_id", "id"),
        Index("ix_api_key_lower_name", lower_case(column("name"))),
    )

    tenant_id: str = Field(primary_key=True)
    id: str = Field(primary_key=True)
    project_id: str
    name: str
    prefix: str
    secret_sha256: str
    user_id: str = ""
    shared: bool = False
    owner_key: str
    scopes: list[str] = Field(sa_type=JSON)
    priority_max: str
    created_ms: int = Field(sa_type=BigInteger)
    expires_ms: int | None = Field(default=None, sa_type=BigInteger)
    revoked_ms: int | None = Field(default=None, sa_type=BigInteger)
    rotated_from: str | None = None
    origins: list[str] | None = Field(default=None, sa_type=JSON(none_as_null=True))


class PriceBook(TableBase, table=True):
    """A versioned list of prices, the platform's or made for one tenant. Prices that it lacks are looked up
    in its parent. Books are never deleted."""

    id: str = Field(primary_key=True)
    tenant_id: str = PLATFORM
    parent_id: str | None = None
    name: str
    currency: str = "usd"
    created_ms: int = Field(sa_type=BigInteger)


class PriceVersion(TableBase, table=True):
    """One version of a book, in force from `valid_from_ms` until the next one starts. Never changed; a
    version that was withdrawn, well before its start, is ignored."""

    __table_args__ = (
        CheckConstraint("version >= 1", name="ck_price_version_version"),
        ForeignKeyConstraint(["book_id"], ["price_book.id"], name="fk_price_version_book"),
    )

    book_id: str = Field(primary_key=True)
    version: int = Field(primary_key=True)
    tenant_id: str = PLATFORM
    valid_from_ms: int = Field(sa_type=BigInteger)
    created_ms: int = Field(sa_type=BigInteger)
    withdrawn_ms: int | None = Field(default=None, sa_type=BigInteger)


class Price(TableBase, table=True):
    """A model's flat prices in one version, in nano-USD per 1,000,000 units. Model `*`: all not named."""

    __table_args__ = (
        CheckConstraint("input_nano >= 0", name="ck_price_input"),
        CheckConstraint("cached_input_nano >= 0", name="ck_price_cached_input"),
        CheckConstraint("output_nano >= 0", name="ck_price_output"),
        CheckConstraint("request_nano >= 0", name="ck_price_request"),
        ForeignKeyConstraint(
            ["book_id", "version"],
            ["price_version.book_id", "price_version.version"],
            name="fk_price_version",
        ),
    )

    book_id: str = Field(primary_key=True)
    version: int = Field(primary_key=True)
    model: str = Field(primary_key=True)
    tenant_id: str = PLATFORM
    input_nano: int = Field(sa_type=BigInteger)
    cached_input_nano: int = Field(sa_type=BigInteger)
    output_nano: int = Field(sa_type=BigInteger)
    request_nano: int = Field(default=0, sa_type=BigInteger)


ENDED_HOUR = "(ended_ms / 3600000)"  # as the index of the dearest of an hour has it


class UsageRow(TableBase, table=True):
    """One ended request, posted once: the primary key makes a second delivery harmless. `words_proof`: of its
    erasable facts (billing/ledger/proofs.py). `safety_verdicts`: counts by category and action, of the policy
    `policy_sha256`; empty: no policy; `phases`: kind and beginning of each, ms since it was accepted."""

    __tablename__ = "usage_event"  # pyright: ignore[reportAssignmentType]  (SQLModel types it as its getter)
    __table_args__ = (
        CheckConstraint("input_uncached >= 0", name="ck_usage_event_input_uncached"),
        CheckConstraint("input_cached >= 0", name="ck_usage_event_input_cached"),
        CheckConstraint("output_text >= 0", name="ck_usage_event_output_text"),
        CheckConstraint("output_reasoning >= 0", name="ck_usage_event_output_reasoning"),
        CheckConstraint("cost_nano >= 0", name="ck_usage_event_cost"),
        Index("ix_usage_event_tenant_ended", "tenant_id", "ended_ms", "code"),
        Index("ix_usage_event_accepted", "tenant_id", "accepted_ms"),
        Index("ix_usage_event_ended", "ended_ms", "code"),
        Index("ix_usage_event_user", "tenant_id", "user_id", "ended_ms"),
        Index(
            "ix_usage_event_cost",
            *("tenant_id", "key_id", "model"),
            text(ENDED_HOUR),
            "cost_nano",
            "ended_ms",
        ),
    )

    tenant_id: str = Field(primary_key=True)
    request_id: str = Field(primary_key=True)
    pool: str
    model: str
    fingerprint: str
    project_id: str
    key_id: str
    user_id: str
    conversation_id: str
    accepted_ms: int = Field(sa_type=BigInteger)
    claimed_ms: int = Field(sa_type=BigInteger)
    first_token_ms: int = Field(sa_type=BigInteger)
    ended_ms: int = Field(sa_type=BigInteger)
    reason: str
    code: str
    input_uncached: int = Field(sa_type=BigInteger)
    input_cached: int = Field(sa_type=BigInteger)
    output_text: int = Field(sa_type=BigInteger)
    output_reasoning: int = Field(sa_type=BigInteger)
    price_book_id: str
    price_version: int
    currency: str
    cost_nano: int = Field(sa_type=BigInteger)
    claims: int
    recomputed_tokens: int = Field(sa_type=BigInteger)
    request_metadata: dict[str, Any] = Field(sa_type=JSON)
    event_sha256: str
    posted_ms: int = Field(sa_type=BigInteger)
    words_proof: str = ""
    policy_sha256: str = ""
    priority_class: str = ""
    trace_id: str = ""
    safety_verdicts: dict[str, dict[str, int]] = Field(default_factory=dict, sa_type=JSON)
    phases: list[tuple[str, int]] = Field(default_factory=list, sa_type=JSON)


class UsageQuarantine(TableBase, table=True):
    """An event that was not posted as it came. Kept whole until a person decides, and after. Never billed
    automatically."""

    __table_args__ = (Index("ix_usage_quarantine_tenant", "tenant_id", "created_ms"),)

    event_sha256: str = Field(primary_key=True)
    tenant_id: str
    request_id: str
    pool: str
    reason: str
    detail: str
    event: bytes
    created_ms: int = Field(sa_type=BigInteger)
    resolved_ms: int | None = Field(default=None, sa_type=BigInteger)
    resolution: str = ""

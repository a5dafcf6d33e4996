"""Tables of the books: usage lines, rollups, and the ledger. Rows are added, never changed or deleted, except
the head of a tenant's ledger, and the rollups, which can be made again from the lines."""

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    ForeignKeyConstraint,
    Index,
    PrimaryKeyConstraint,
    UniqueConstraint,
)
from sqlmodel import Field

from core.sql.database import TableBase

HASH_VERSION = 2  # 1 was before 0.1.0
PAYER = ("project_id", "cost_center_id", "user_id", "key_id", "model", "pool")
HOUR_SUMS = (
    *("requests", "errors"),
    *("input_uncached", "input_cached", "output_text", "output_reasoning"),
    "amount_nano",
)


class CostCenter(TableBase, table=True):
    """A payer inside a tenant. `code` is the tenant's own name for it."""

    __table_args__ = (
        UniqueConstraint("tenant_id", "code", name="uq_cost_center_code"),
        ForeignKeyConstraint(["tenant_id"], ["tenant.tenant_id"], name="fk_cost_center_tenant"),
    )

    tenant_id: str = Field(primary_key=True)
    id: str = Field(primary_key=True)
    code: str
    name: str
    created_ms: int = Field(sa_type=BigInteger)
    closed_ms: int | None = Field(default=None, sa_type=BigInteger)


class ProjectCostCenter(TableBase, table=True):
    """The cost center of a project from a time on, so that a move never changes what was charged before.
    Without one nobody pays from then on: what is used is the tenant's own."""

    __table_args__ = (
        ForeignKeyConstraint(
            ["tenant_id", "project_id"],
            ["project.tenant_id", "project.id"],
            name="fk_project_cost_center_project",
        ),
        ForeignKeyConstraint(
            ["tenant_id", "cost_center_id"],
            ["cost_center.tenant_id", "cost_center.id"],
            name="fk_project_cost_center_center",
        ),
    )

    tenant_id: str = Field(primary_key=True)
    project_id: str = Field(primary_key=True)
    valid_from_ms: int = Field(primary_key=True, sa_type=BigInteger)
    cost_center_id: str | None


class UsageLine(TableBase, table=True):
    """One priced quantity. `seq` counts a tenant's lines from 1 without a gap; `number` those of a request:
    line 0 stands for the request itself, whatever it used. `amount_nano` may be negative in an adjustment.
    `ended_ms`: the time in which the line counts: the end of its request or, where that month was closed
    before posting, the start of the first open month. `proof`: of its request or charge
    (billing/ledger/proofs.py)."""

    __table_args__ = (
        CheckConstraint("quantity >= 0 OR kind <> 'usage'", name="ck_usage_line_quantity"),
        CheckConstraint("price_nano >= 0", name="ck_usage_line_price"),
        UniqueConstraint("tenant_id", "request_id", "number", name="uq_usage_line_request"),
        Index("ix_usage_line_ended", "tenant_id", "ended_ms"),
    )

    tenant_id: str = Field(primary_key=True)
    seq: int = Field(primary_key=True, sa_type=BigInteger)
    request_id: str
    number: int
    kind: str
    meter: str
    quantity: int = Field(sa_type=BigInteger)
    price_nano: int = Field(sa_type=BigInteger)
    amount_nano: int = Field(sa_type=BigInteger)
    price_book_id: str
    price_version: int
    cost_center_id: str
    adjusts_seq: int | None = Field(default=None, sa_type=BigInteger)
    ended_ms: int = Field(sa_type=BigInteger)
    posted_ms: int = Field(sa_type=BigInteger)
    proof: str = ""


class RollupHour(TableBase, table=True):
    """Sums of a tenant's lines by hour (UTC, of the request's end) and payer. Postgres has the sums in the
    key's index too, where a month of a tenant lies side by side."""

    __table_args__ = (
        PrimaryKeyConstraint("tenant_id", "hour_ms", *PAYER, postgresql_include=HOUR_SUMS),
        Index("ix_rollup_hour_pool", "pool", "hour_ms"),
    )

    tenant_id: str = Field(primary_key=True)
    hour_ms: int = Field(primary_key=True, sa_type=BigInteger)
    project_id: str = Field(primary_key=True)
    cost_center_id: str = Field(primary_key=True)
    user_id: str = Field(primary_key=True)
    key_id: str = Field(primary_key=True)
    model: str = Field(primary_key=True)
    pool: str = Field(primary_key=True)
    requests: int = Field(sa_type=BigInteger)
    errors: int = Field(sa_type=BigInteger)
    input_uncached: int = Field(sa_type=BigInteger)
    input_cached: int = Field(sa_type=BigInteger)
    output_text: int = Field(sa_type=BigInteger)
    output_reasoning: int = Field(sa_type=BigInteger)
    amount_nano: int = Field(sa_type=BigInteger)


class RollupPrice(TableBase, table=True):
    """Sums of a tenant's lines by hour (as in RollupHour), model, meter, kind and the price version that
    priced them."""

    tenant_id: str = Field(primary_key=True)
    hour_ms: int = Field(primary_key=True, sa_type=BigInteger)
    model: str = Field(primary_key=True)
    meter: str = Field(primary_key=True)
    kind: str = Field(primary_key=True)
    price_book_id: str = Field(primary_key=True)
    price_version: int = Field(primary_key=True, sa_type=BigInteger)
    quantity: int = Field(sa_type=BigInteger)
    amount_nano: int = Field(sa_type=BigInteger)


class RollupTag(TableBase, table=True):
    """Sums of a tenant's lines as in RollupHour, of tagged requests alone. `tags`: a JSON object of their
    declared tags, in the order of keys."""

    tenant_id: str = Field(primary_key=True)
    hour_ms: int = Field(primary_key=True, sa_type=BigInteger)
    project_id: str = Field(primary_key=True)
    cost_center_id: str = Field(primary_key=True)
    user_id: str = Field(primary_key=True)
    key_id: str = Field(primary_key=True)
    model: str = Field(primary_key=True)
    pool: str = Field(primary_key=True)
    tags: str = Field(primary_key=True)
    amount_nano: int = Field(sa_type=BigInteger)


class TagKey(TableBase, table=True):
    """A key of requests' metadata that a tenant declared as a tag: it counts for requests that ended from
    `since_ms` on, before `until_ms` (None: it is not withdrawn)."""

    __table_args__ = (ForeignKeyConstraint(["tenant_id"], ["tenant.tenant_id"], name="fk_tag_key_tenant"),)

    tenant_id: str = Field(primary_key=True)
    key: str = Field(primary_key=True)
    since_ms: int = Field(primary_key=True, sa_type=BigInteger)
    until_ms: int | None = Field(default=None, sa_type=BigInteger)


class LedgerHead(TableBase, table=True):
    """The end of a tenant's books. Its row is the lock that every writer of them takes. `rolled_seq`: the
    last line that is in the rollups of both kinds; `closed_ms`: the end of the last closed month."""

    tenant_id: str = Field(primary_key=True)
    txn_seq: int = Field(default=0, sa_type=BigInteger)
    line_seq: int = Field(default=0, sa_type=BigInteger)
    rolled_seq: int = Field(default=0, sa_type=BigInteger)
    sha256: str = ""
    closed_ms: int = Field(default=0, sa_type=BigInteger)

    def counts_at(self, ended_ms: int) -> int:
        """The time in which usage that ended then counts when posted now: closed months do not change."""
        return max(ended_ms, self.closed_ms)


class LedgerTxn(TableBase, table=True):
    """One balanced transaction. `sha256` covers it, its entries, its lines and the transaction before it.

    `idempotency_key` is what made it: the same cause never books twice. `hash_version`: how `sha256` is made,
    HASH_VERSION."""

    __table_args__ = (UniqueConstraint("tenant_id", "idempotency_key", name="uq_ledger_txn_key"),)

    tenant_id: str = Field(primary_key=True)
    seq: int = Field(primary_key=True, sa_type=BigInteger)
    kind: str
    idempotency_key: str
    posted_ms: int = Field(sa_type=BigInteger)
    first_line_seq: int = Field(sa_type=BigInteger)
    last_line_seq: int = Field(sa_type=BigInteger)
    previous_sha256: str
    sha256: str
    hash_version: int = HASH_VERSION


class LedgerEntry(TableBase, table=True):
    """A debit (above zero) or credit (below) of one account. The entries of a transaction sum to zero."""

    __table_args__ = (
        ForeignKeyConstraint(
            ["tenant_id", "txn_seq"], ["ledger_txn.tenant_id", "ledger_txn.seq"], name="fk_ledger_entry_txn"
        ),
        Index("ix_ledger_entry_account", "tenant_id", "account"),
    )

    tenant_id: str = Field(primary_key=True)
    txn_seq: int = Field(primary_key=True, sa_type=BigInteger)
    number: int = Field(primary_key=True)
    account: str
    amount_nano: int = Field(sa_type=BigInteger)
    project_id: str
    cost_center_id: str

"""Rows of the books while they are built: plain values in the columns of billing/tables. (Objects of the
tables take ten times as long to make, and a request has half a dozen rows.)"""

from typing import Any

import msgspec

from billing.tables.ledger import HASH_VERSION
from billing.usage import Phase


class UsageEventRow(msgspec.Struct):
    """A row of usage_event."""

    tenant_id: str
    request_id: str
    pool: str
    model: str
    fingerprint: str
    project_id: str
    key_id: str
    user_id: str
    conversation_id: str
    accepted_ms: int
    claimed_ms: int
    first_token_ms: int
    ended_ms: int
    reason: str
    code: str
    input_uncached: int
    input_cached: int
    output_text: int
    output_reasoning: int
    price_book_id: str
    price_version: int
    currency: str
    cost_nano: int
    claims: int
    recomputed_tokens: int
    request_metadata: dict[str, Any]
    event_sha256: str
    posted_ms: int
    words_proof: str = ""
    policy_sha256: str = ""
    priority_class: str = ""
    trace_id: str = ""
    safety_verdicts: dict[str, dict[str, int]] = {}
    phases: list[Phase] = []


class LineRow(msgspec.Struct):
    """A row of usage_line."""

    tenant_id: str
    seq: int
    request_id: str
    number: int
    kind: str
    meter: str
    quantity: int
    price_nano: int
    amount_nano: int
    price_book_id: str
    price_version: int
    cost_center_id: str
    adjusts_seq: int | None
    ended_ms: int
    posted_ms: int
    proof: str = ""


class EntryRow(msgspec.Struct):
    """A row of ledger_entry."""

    tenant_id: str
    txn_seq: int
    number: int
    account: str
    amount_nano: int
    project_id: str
    cost_center_id: str


class TxnRow(msgspec.Struct):
    """A row of ledger_txn."""

    tenant_id: str
    seq: int
    kind: str
    idempotency_key: str
    posted_ms: int
    first_line_seq: int
    last_line_seq: int
    previous_sha256: str
    sha256: str
    hash_version: int = HASH_VERSION


class UseRow(msgspec.Struct):
    """A row of wallet_use."""

    tenant_id: str
    request_id: str
    txn_seq: int
    grant_id: str
    amount_nano: int


class RollupRow(msgspec.Struct):
    """A row of rollup_hour, or sums to add to it."""

    tenant_id: str
    hour_ms: int
    project_id: str
    cost_center_id: str
    user_id: str
    key_id: str
    model: str
    pool: str
    requests: int = 0
    errors: int = 0
    input_uncached: int = 0
    input_cached: int = 0
    output_text: int = 0
    output_reasoning: int = 0
    amount_nano: int = 0


class TagRollupRow(msgspec.Struct):
    """A row of rollup_tag, or a sum to add to it."""

    tenant_id: str
    hour_ms: int
    project_id: str
    cost_center_id: str
    user_id: str
    key_id: str
    model: str
    pool: str
    tags: str
    amount_nano: int = 0


class PriceRollupRow(msgspec.Struct):
    """A row of rollup_price, or sums to add to it."""

    tenant_id: str
    hour_ms: int
    model: str
    meter: str
    kind: str
    price_book_id: str
    price_version: int
    quantity: int = 0
    amount_nano: int = 0

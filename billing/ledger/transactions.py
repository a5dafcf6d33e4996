"""Turns new usage into a tenant's books: lines, one balanced transaction, rollup deltas. Pure.

Signs: a debit is above zero, a credit below. Usage debits the grants of a prepaid tenant's wallet
(`wallet:<kind>:<grant>`), the rest what the tenant owes (`receivable`), and credits `revenue:<meter>`. A
transaction's hash covers the one before it, so that no row can be changed unseen.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from operator import attrgetter

import msgspec

from billing.ledger.grant_spending import SpendableWallet
from billing.ledger.proofs import event_proof
from billing.ledger.rows import EntryRow, LineRow, PriceRollupRow, RollupRow, TxnRow, UsageEventRow
from billing.periods import HOUR_MS
from billing.prices.rating import Meter, PricedQuantity
from billing.tables.ledger import LedgerEntry, LedgerHead, LedgerTxn, UsageLine
from billing.tables.prices import Charge
from billing.tables.tenants import UsageRow

RECEIVABLE = "receivable"
REVENUE = "revenue:"
BREAKAGE = "breakage"

CostCenterOf = Callable[[str, int], str]  # project, Unix ms → cost center id, or empty


class LineKind(StrEnum):
    """Causes of a line."""

    USAGE = "usage"
    ADJUST = "adjust"
    TRUE_UP = "true_up"


class TxnKind(StrEnum):
    """Causes of a transaction."""

    USAGE = "usage"
    ADJUST = "adjust"
    GRANT = "grant"
    EXPIRE = "expire"
    TRUE_UP = "true_up"
    POOL = "pool"
    COMMITMENT = "commitment"
    REVIVE = "revive"
    SETTLE = "settle"
    VOID = "void"
    CLAW_BACK = "claw_back"
    PAY_OUT = "pay_out"


@dataclass(frozen=True)
class PricedUsage:
    """A posted request with its priced lines."""

    row: UsageEventRow
    lines: Sequence[PricedQuantity]


@dataclass
class Posting:
    """Rows to write for one tenant; `head` is the new end of its books, `wallet` its wallet after it."""

    head: LedgerHead
    lines: list[LineRow]
    txns: list[TxnRow] = field(default_factory=list[TxnRow])
    entries: list[EntryRow] = field(default_factory=list[EntryRow])
    wallet: SpendableWallet | None = None


def post_usage(
    head: LedgerHead,
    requests: Sequence[PricedUsage],
    cost_center_of: CostCenterOf,
    now_ms: int,
    wallet: SpendableWallet | None = None,
) -> Posting:
    """Post new requests to one tenant's books. The given head is not changed; a prepaid tenant's wallet
    is."""
    lines: list[LineRow] = []
    charged: dict[tuple[str, str, str], int] = {}
    paid: dict[tuple[str, str, str], int] = {}
    for request in requests:
        center = cost_center_of(request.row.project_id, request.row.ended_ms)
        counts_ms = head.counts_at(request.row.ended_ms)
        new = usage_lines(request, center, head.line_seq + len(lines) + 1, (counts_ms, now_ms))
        for line in new:
            key = (line.meter, request.row.project_id, center)
            charged[key] = charged.get(key, 0) + line.amount_nano
        if wallet is not None:
            cost = sum(line.amount_nano for line in new)
            asked_ms = request.row.accepted_ms
            for account, amount in wallet.charge(request.row.request_id, cost, asked_ms).items():
                key = (account, request.row.project_id, center)
                paid[key] = paid.get(key, 0) + amount
        lines += new
    name = f"usage:{requests[0].row.request_id}"
    before = restore_lapsed_grants(head, name, wallet, now_ms)
    posting = post(before.head, TxnKind.USAGE, name, lines, entries_of(charged, paid), now_ms)
    posting.txns[:0], posting.entries[:0] = before.txns, before.entries
    posting.wallet = wallet
    return posting


def restore_lapsed_grants(
    head: LedgerHead, name: str, wallet: SpendableWallet | None, now_ms: int
) -> Posting:
    """Post the return of lapsed money from breakage to the grants that pay after their end, before the
    transaction of this name. Returns a posting without rows where there is nothing to return."""
    revived = sorted(wallet.revived.items()) if wallet is not None else []
    if not revived:
        return Posting(head, [])
    back = [(account, -amount, "", "") for account, amount in revived]
    entries = [(BREAKAGE, -sum(entry[1] for entry in back), "", ""), *back]
    return post(head, TxnKind.REVIVE, f"revive:{name}", [], entries, now_ms)


def usage_lines(
    request: PricedUsage, cost_center: str, first_seq: int, times_ms: tuple[int, int]
) -> list[LineRow]:
    """Lines of a request: line 0 is the request itself, priced or not; then its meters. `times_ms`: the time
    in which they count, and now."""
    per_request = [line for line in request.lines if line.meter is Meter.REQUEST]
    used = [line for line in request.lines if line.meter is not Meter.REQUEST]
    ordered = [*(per_request or [PricedQuantity(Meter.REQUEST, 0, 0, 0)]), *used]
    return [
        LineRow(
            tenant_id=request.row.tenant_id,
            seq=first_seq + number,
            request_id=request.row.request_id,
            number=number,
            kind=LineKind.USAGE.value,
            meter=line.meter.value,
            quantity=line.quantity,
            price_nano=line.price_nano,
            amount_nano=line.amount_nano,
            price_book_id=request.row.price_book_id,
            price_version=request.row.price_version,
            cost_center_id=cost_center,
            adjusts_seq=None,
            ended_ms=times_ms[0],
            posted_ms=times_ms[1],
            proof="" if number else event_proof(request.row),
        )
        for number, line in enumerate(ordered)
    ]


def entries_of(
    charged: Mapping[tuple[str, str, str], int], paid: Mapping[tuple[str, str, str], int] | None = None
) -> list[tuple[str, int, str, str]]:
    """Entries, as (account, amount, project, cost center), of charges by (meter, project, cost center) and of
    what wallets paid of them by (account, project, cost center). The rest is owed."""
    owed: dict[tuple[str, str], int] = {}
    credits: list[tuple[str, int, str, str]] = []
    for (meter, project, center), amount in sorted(charged.items()):
        if amount:
            credits.append((REVENUE + meter, -amount, project, center))
            owed[project, center] = owed.get((project, center), 0) + amount
    debits: list[tuple[str, int, str, str]] = []
    for (account, project, center), amount in sorted((paid or {}).items()):
        debits.append((account, amount, project, center))
        owed[project, center] = owed.get((project, center), 0) - amount
    debits += [(RECEIVABLE, amount, project, center) for (project, center), amount in sorted(owed.items())]
    return [*(debit for debit in debits if debit[1]), *credits]


def post(
    head: LedgerHead,
    kind: TxnKind,
    key: str,
    lines: list[LineRow],
    entries: Sequence[tuple[str, int, str, str]],
    now_ms: int,
) -> Posting:
    """Make one transaction of these lines and entries after `head`. Entries that do not balance are a bug."""
    assert sum(entry[1] for entry in entries) == 0, "INV-24: a transaction sums to zero"
    tenant, seq = head.tenant_id, head.txn_seq + 1
    rows = [
        EntryRow(
            tenant_id=tenant,
            txn_seq=seq,
            number=number,
            account=account,
            amount_nano=amount,
            project_id=project,
            cost_center_id=center,
        )
        for number, (account, amount, project, center) in enumerate(entries)
    ]
    txn = TxnRow(
        tenant_id=tenant,
        seq=seq,
        kind=kind.value,
        idempotency_key=key,
        posted_ms=now_ms,
        first_line_seq=head.line_seq + 1,
        last_line_seq=head.line_seq + len(lines),
        previous_sha256=head.sha256,
        sha256="",
    )
    txn.sha256 = chain_hash(txn, rows, lines)
    current = head.rolled_seq == head.line_seq
    after = LedgerHead(
        tenant_id=tenant,
        txn_seq=seq,
        line_seq=txn.last_line_seq,
        rolled_seq=txn.last_line_seq if current else head.rolled_seq,
        sha256=txn.sha256,
        closed_ms=head.closed_ms,
    )
    return Posting(after, lines, [txn], rows)


BilledRequest = UsageEventRow | UsageRow
AnyRequest = BilledRequest | Charge
AnyTxn = TxnRow | LedgerTxn
AnyEntry = EntryRow | LedgerEntry
AnyLine = LineRow | UsageLine


def chain_hash(txn: AnyTxn, entries: Iterable[AnyEntry], lines: Iterable[AnyLine]) -> str:
    """SHA-256 over the transaction but for its own hash, its entries and lines, and so the hash before it.

    The columns of a row are taken in the order of their names. Another way of hashing is another
    HASH_VERSION."""
    rows = [_TXN(txn), *map(_ENTRY, entries), *map(_LINE, lines)]
    return hashlib.sha256(b"".join(map(_packed, rows))).hexdigest()


_packed = msgspec.msgpack.Encoder().encode
_TXN = attrgetter(*sorted(set(TxnRow.__struct_fields__) - {"sha256"}))
_ENTRY = attrgetter(*sorted(EntryRow.__struct_fields__))
_LINE = attrgetter(*sorted(LineRow.__struct_fields__))


def rollups(requests: Iterable[AnyRequest], lines: Iterable[AnyLine]) -> list[RollupRow]:
    """Sum these lines by hour and payer, to be added to existing rollups.

    `requests` holds the request of every line. Line 0 of a request counts it."""
    known = {row.request_id: row for row in requests}
    sums: dict[tuple[object, ...], RollupRow] = {}
    for line in lines:
        row = known[line.request_id]
        sum_of = _sum_for(row, line, sums)
        sum_of.amount_nano += line.amount_nano
        if line.number == 0:
            sum_of.requests += 1
            sum_of.errors += row.reason == "error"
        column = MEASURES.get(line.meter)
        if column:
            setattr(sum_of, column, getattr(sum_of, column) + line.quantity)
    return list(sums.values())


def price_rollups(requests: Iterable[AnyRequest], lines: Iterable[AnyLine]) -> list[PriceRollupRow]:
    """Sum these lines by hour, model, meter, kind and price version, as `rollups` by payer."""
    known = {row.request_id: row for row in requests}
    sums: dict[tuple[object, ...], PriceRollupRow] = {}
    for line in lines:
        row, hour = known[line.request_id], line.ended_ms - line.ended_ms % HOUR_MS
        facts = (line.meter, line.kind, line.price_book_id, line.price_version)
        key = (row.tenant_id, hour, row.model, *facts)
        sum_of = sums.setdefault(key, PriceRollupRow(row.tenant_id, hour, row.model, *facts))
        sum_of.quantity += line.quantity
        sum_of.amount_nano += line.amount_nano
    return list(sums.values())


MEASURES = {
    Meter.INPUT.value: "input_uncached",
    Meter.CACHED_INPUT.value: "input_cached",
    Meter.OUTPUT.value: "output_text",
    Meter.REASONING.value: "output_reasoning",
}


def _sum_for(row: AnyRequest, line: AnyLine, sums: dict[tuple[object, ...], RollupRow]) -> RollupRow:
    hour = line.ended_ms - line.ended_ms % HOUR_MS
    who = (row.project_id, line.cost_center_id, row.user_id, row.key_id, row.model, row.pool)
    key = (row.tenant_id, hour, *who)
    if key not in sums:
        sums[key] = RollupRow(row.tenant_id, hour, *who)
    return sums[key]

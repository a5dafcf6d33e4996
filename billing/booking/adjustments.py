"""Corrections of what was billed: new lines that point at old ones. Nothing in the books is changed.

A correction states the true quantity of a meter for one request; its line holds the difference to the books,
earlier corrections included. Repeating a correction books nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec
from sqlalchemy.exc import IntegrityError
from sqlmodel import col, select
from sqlmodel.ext.asyncio.session import AsyncSession

from billing.audit.log import record
from billing.booking.amount_bounds import MoveCheck
from billing.booking.models import check_tokens
from billing.booking.write import lock_heads, write
from billing.ledger.grant_rows import load_whole_wallet, uses_of
from billing.ledger.grant_spending import SpendableWallet
from billing.ledger.rows import LineRow
from billing.ledger.transactions import LineKind, Posting, TxnKind, entries_of, post, restore_lapsed_grants
from billing.money import UNITS, round_half_even
from billing.prices.book import ANY_MODEL
from billing.prices.rating import Meter
from billing.tables.ledger import LedgerHead, UsageLine
from billing.tables.tenants import Price, UsageRow
from core.clock import now_ms
from core.errors import bad_request, unknown
from core.names import checked_name
from core.sql.database import Database

QUANTITY_MAX = 1 << 53
TOKEN_METERS = (Meter.INPUT, Meter.CACHED_INPUT, Meter.OUTPUT, Meter.REASONING)


@dataclass(frozen=True)
class Correction:
    """The true quantities of a request, by meter; meters that are not named stay. `quantities` None refunds
    the whole request, including its price per request. `cause` is the caller's own name for this correction:
    the same cause is booked once."""

    request: str
    quantities: Mapping[Meter, int] | None
    cause: str


async def correct(
    db: Database, tenant_id: str, correction: Correction, check: MoveCheck | None = None
) -> list[LineRow]:
    """Book the difference and return the new lines; none where the books already say so. `check`
    looks at the money that it moves.

    Raises Refused where the request was never billed, a quantity is impossible, or `check`
    refuses."""
    _check(correction)
    try:
        return await _correct(db, tenant_id, correction, check)
    except IntegrityError as error:
        raise bad_request(f"the cause {correction.cause!r} was another correction of this request") from error


@dataclass(frozen=True)
class _Plan:
    request: UsageRow
    lines: Sequence[UsageLine]
    new: list[LineRow]


async def _plan(session: AsyncSession, head: LedgerHead, correction: Correction, now: int) -> _Plan:
    request = await session.get(UsageRow, (head.tenant_id, correction.request))
    lines = await _lines_of(session, head.tenant_id, correction.request)
    if request is None or not lines:
        raise unknown(f"there is no billed request {correction.request!r} of this tenant", field="request")
    quantities = correction.quantities
    if quantities is None:
        quantities = {Meter(line.meter): 0 for line in lines}
    prices = _prices(lines)
    ran = any(meter in prices for meter in TOKEN_METERS)
    if ran and any(quantity and meter not in prices for meter, quantity in quantities.items()):
        prices = await _version_prices(session, request) | prices
    new = differences(head, lines, quantities, prices, now)
    before = sum(line.quantity for line in lines if line.meter in TOKEN_METERS)
    wanted = before + sum(line.quantity for line in new if line.meter in TOKEN_METERS)
    await check_tokens(session, request.fingerprint, wanted, before)
    return _Plan(request, lines, new)


async def _correct(
    db: Database, tenant_id: str, correction: Correction, check: MoveCheck | None
) -> list[LineRow]:
    async with db.transaction() as session:
        head = (await lock_heads(session, [tenant_id]))[tenant_id]
        now = now_ms()
        plan = await _plan(session, head, correction, now)
        request, lines, new = plan.request, plan.lines, plan.new
        if new:
            if check is not None:
                await check(session, sum(line.amount_nano for line in new))
            wallet = await load_whole_wallet(session, tenant_id, now)
            used = await uses_of(session, tenant_id, request.request_id)
            prepaid = wallet if wallet is not None and lines[0].seq > wallet.opened_line_seq else None
            cost_nano = sum(line.amount_nano for line in lines)
            name = f"adjust:{correction.request}:{correction.cause}"
            posting = _post(head, name, request, new, PaidBefore(prepaid, cost_nano, used), now)
            session.expunge(request)
            await write(session, [posting], [request])
            action = "request.refund" if correction.quantities is None else "request.correct"
            facts = {"request": correction.request, "cause": correction.cause}
            changed = [msgspec.structs.asdict(line) for line in new]
            await record(session, tenant_id, action, request.request_id, None, {**facts, "lines": changed})
        return new


@dataclass(frozen=True)
class PaidBefore:
    """Payment of a request before its correction: `cost_nano` in all, of which grants of the wallet paid
    `used`. Without a wallet it is owed: the tenant has none, or the request was posted before it was
    opened."""

    wallet: SpendableWallet | None
    cost_nano: int
    used: Mapping[str, int]


def _post(
    head: LedgerHead, name: str, request: UsageRow, new: list[LineRow], paid: PaidBefore, now: int
) -> Posting:
    """Post the new lines: a lower cost returns to where it was paid from, a higher one is paid as new usage
    is. Pure."""
    charged: dict[tuple[str, str, str], int] = {}
    for line in new:
        key = (line.meter, request.project_id, line.cost_center_id)
        charged[key] = charged.get(key, 0) + line.amount_nano
    moved: dict[str, int] = {}
    difference = sum(line.amount_nano for line in new)
    if paid.wallet is not None and difference > 0:
        moved = paid.wallet.charge(request.request_id, difference)
    elif paid.wallet is not None:
        moved = paid.wallet.give_back(request.request_id, -difference, paid.cost_nano, paid.used)
    center = new[0].cost_center_id
    by_wallet = {(account, request.project_id, center): amount for account, amount in moved.items()}
    before = restore_lapsed_grants(head, name, paid.wallet, now)
    posting = post(before.head, TxnKind.ADJUST, name, new, entries_of(charged, by_wallet), now)
    posting.txns[:0], posting.entries[:0] = before.txns, before.entries
    posting.wallet = paid.wallet
    return posting


def differences(
    head: LedgerHead,
    lines: Sequence[UsageLine],
    quantities: Mapping[Meter, int],
    prices: Mapping[Meter, int],
    now: int,
) -> list[LineRow]:
    """The lines that bring a request's lines, in order, to these quantities. Pure.

    Raises Refused for a meter that has no price in this request."""
    new: list[LineRow] = []
    for meter, wanted in quantities.items():
        if meter not in prices and not wanted:
            continue
        if meter not in prices:
            raise bad_request(f"this request has no {meter.value} line whose price could be used")
        own = [line for line in lines if line.meter == meter]
        quantity = wanted - sum(line.quantity for line in own)
        amount = round_half_even(wanted * prices[meter], UNITS) - sum(line.amount_nano for line in own)
        if abs(amount) >= QUANTITY_MAX:
            raise bad_request(f"{wanted} {meter.value} tokens cost more than the books can hold")
        if quantity or amount:
            first = own[0] if own else lines[0]
            new.append(
                LineRow(
                    tenant_id=first.tenant_id,
                    seq=head.line_seq + len(new) + 1,
                    request_id=first.request_id,
                    number=lines[-1].number + len(new) + 1,
                    kind=LineKind.ADJUST.value,
                    meter=meter.value,
                    quantity=quantity,
                    price_nano=prices[meter],
                    amount_nano=amount,
                    price_book_id=first.price_book_id,
                    price_version=first.price_version,
                    cost_center_id=first.cost_center_id,
                    adjusts_seq=first.seq,
                    ended_ms=head.counts_at(first.ended_ms),
                    posted_ms=now,
                )
            )
    return new


async def _lines_of(session: AsyncSession, tenant_id: str, request_id: str) -> Sequence[UsageLine]:
    statement = select(UsageLine).where(
        col(UsageLine.tenant_id) == tenant_id, col(UsageLine.request_id) == request_id
    )
    return (await session.exec(statement.order_by(col(UsageLine.number)))).all()


def _prices(lines: Sequence[UsageLine]) -> dict[Meter, int]:
    """The prices that a request was billed by. Reasoning costs what output costs."""
    known = {Meter(line.meter): line.price_nano for line in lines}
    for one, other in ((Meter.OUTPUT, Meter.REASONING), (Meter.REASONING, Meter.OUTPUT)):
        if one not in known and other in known:
            known[one] = known[other]
    return known


async def _version_prices(session: AsyncSession, request: UsageRow) -> dict[Meter, int]:
    """Token prices of the version that a request was billed by, also for meters that it did not use."""
    statement = select(Price).where(
        col(Price.book_id) == request.price_book_id,
        col(Price.version) == request.price_version,
        col(Price.model).in_((request.model, ANY_MODEL)),
    )
    price = (await session.exec(statement.order_by(col(Price.model) == ANY_MODEL).limit(1))).first()
    if price is None:
        return {}
    return {
        Meter.INPUT: price.input_nano,
        Meter.CACHED_INPUT: price.cached_input_nano,
        Meter.OUTPUT: price.output_nano,
        Meter.REASONING: price.output_nano,
    }


def _check(correction: Correction) -> None:
    checked_name("cause", correction.cause)
    if correction.quantities is None:
        return
    if not correction.quantities:
        raise bad_request("say what it used in truth: input, cached input or output tokens", field="input")
    for meter, quantity in correction.quantities.items():
        if meter not in TOKEN_METERS:
            raise bad_request(f"{meter.value} cannot be corrected: only tokens can")
        if not 0 <= quantity < QUANTITY_MAX:
            raise bad_request(
                f"{meter.value}: expected from 0 to {QUANTITY_MAX - 1} tokens, in all, not a difference",
                field=meter.value,
            )

"""Operations that correct what was billed for a request: new lines, which say how much they move."""

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from billing.booking.adjustments import Correction, correct
from billing.enforcement.push_wallets import push_money_limits
from billing.ledger.rows import LineRow
from billing.operations.shared_fields import AUDIT, NameTenant
from billing.operations.wallets import BOOKS, COUNTED
from billing.prices.rating import Meter
from billing.unit_of_work.units import Change
from core.operations import MONEY, MoneyAmount, Uses, operation

READ = "tag_key tenant api_key quota_policy alert_target budget model_version price usage_event"
ROLLED = "usage_line rollup_hour rollup_price rollup_tag"
WRITTEN = f"{BOOKS} {ROLLED} wallet_use wallet_owed budget_spent budget_watermark {AUDIT}"

RequestId = Annotated[str, Meta(description="The request's id.")]


class CorrectRequest(NameTenant, frozen=True, kw_only=True):
    """What a request used in truth, in all. What is not named stays."""

    request: RequestId
    input: Annotated[int | UnsetType, Meta(description="Input tokens in truth, in all.")] = UNSET
    cached_input: Annotated[int | UnsetType, Meta(description="Of those, cached ones.")] = UNSET
    output: Annotated[int | UnsetType, Meta(description="Output tokens in truth, in all.")] = UNSET
    cause: Annotated[
        str,
        Meta(description="Your name for this correction, as a ticket's: said again, it is booked once."),
    ]


class RefundRequest(NameTenant, frozen=True, kw_only=True):
    """A request to refund whole."""

    request: RequestId
    cause: Annotated[
        str,
        Meta(description="Your name for this refund, as a ticket's: said again, it is booked once."),
    ]


class CorrectionLine(msgspec.Struct, frozen=True):
    """A new line: its number in the books, and of the line that it points at."""

    line: int
    adjusts: int | None
    meter: str
    quantity: int
    amount: MoneyAmount


class CorrectionMade(msgspec.Struct, frozen=True):
    """The new lines; none where the books say so already."""

    lines: list[CorrectionLine]
    amount: MoneyAmount


@operation(
    "usage.correct",
    "POST /tenants/{tenant}/requests/{request}/corrections",
    may=MONEY,
    audit="request.correct",
    reason=True,
    uses=Uses(reads=READ, writes=WRITTEN, keys=COUNTED),
)
async def correct_request(change: Change, ask: CorrectRequest) -> CorrectionMade:
    """Bring what was billed for a request to what it used in truth, at the price it was billed by."""
    given = {
        Meter.INPUT: ask.input,
        Meter.CACHED_INPUT: ask.cached_input,
        Meter.OUTPUT: ask.output,
    }
    named = {meter: units for meter, units in given.items() if units is not UNSET}
    return await _correct(change, ask.tenant, Correction(ask.request, named, ask.cause))


@operation(
    "usage.refund",
    "POST /tenants/{tenant}/requests/{request}/refund",
    may=MONEY,
    audit="request.refund",
    reason=True,
    uses=Uses(reads=READ, writes=WRITTEN, keys=COUNTED),
)
async def refund_request(change: Change, ask: RefundRequest) -> CorrectionMade:
    """Give back all that was billed for a request, its own price too, to what paid it."""
    return await _correct(change, ask.tenant, Correction(ask.request, None, ask.cause))


async def _correct(change: Change, tenant: str, correction: Correction) -> CorrectionMade:
    owner = (await change.tenant(tenant)).tenant_id
    lines = await correct(change.db, owner, correction)
    nano = sum(line.amount_nano for line in lines)
    if lines:
        await change.moves(owner, nano)
    change.after(push_money_limits, owner, correction.request)
    return CorrectionMade([_line(each) for each in lines], MoneyAmount.of(nano))


def _line(row: LineRow) -> CorrectionLine:
    amount = MoneyAmount.of(row.amount_nano)
    return CorrectionLine(row.seq, row.adjusts_seq, row.meter, row.quantity, amount)


OPERATIONS = (correct_request, refund_request)

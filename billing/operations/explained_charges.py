"""The operation that explains what one request was charged: each line, why its price, whose, what it held."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta
from sqlmodel import col, select

from billing.operations.shared_fields import AUDIT, NameTenant
from billing.prices.calendars import calendar_of
from billing.prices.files import FlatPrices
from billing.prices.rating import Counts
from billing.quota.packing import UNLIMITED_TOKENS
from billing.requests.explain import BookedRequest, HeldBack, booked_of, held_back_of
from billing.requests.held_requests import HeldRequest, held_of
from billing.requests.price_origins import PriceOrigin, cost_under, price_origin_of
from billing.requests.refusal_views import RefusalMatch, refusals_of
from billing.tables.ledger import CostCenter, UsageLine
from billing.tables.tenants import ApiKey, Project, Tenant, UsageRow
from billing.tenants.users import user_names
from billing.unit_of_work.units import Look
from core.errors import unknown
from core.operations import DEVELOPERS, PAYERS, STAFF, MoneyAmount, Uses, operation
from core.redis import redis_errors
from core.redis.unreadable import Unreadable

ID_CHARACTERS_MAX = 100


class AskCharge(NameTenant, frozen=True, kw_only=True):
    """Which request."""

    request: Annotated[str, Meta(min_length=1, max_length=ID_CHARACTERS_MAX, description="The request's id.")]


class ChargeState(StrEnum):
    """How far a request's charge is. OPEN: it runs or waits; ENDED: it is not in the books yet; RELEASED: no
    queue took it; HELD_BACK: somebody decides whether it is billed; DISMISSED: it is not."""

    BOOKED = "booked"
    OPEN = "open"
    ENDED = "ended"
    RELEASED = "released"
    HELD_BACK = "held_back"
    DISMISSED = "dismissed"
    REFUSED = "refused"


class ChargedTo(msgspec.Struct, frozen=True, kw_only=True):
    """Whose the request is. Names are those of now, ids where nobody knows one; `cost_center`: the code of
    the one that paid for its project then; `conversation`: its id."""

    project: str
    project_name: str
    cost_center: str
    cost_center_name: str
    user_id: str
    user: str
    key: str
    key_name: str
    key_prefix: str
    conversation: str


class ChargeHold(msgspec.Struct, frozen=True, kw_only=True):
    """What a request held of each budget and of the wallet; it is known for a few days. `granted`: output
    tokens that it was allowed; None: no money limits it, so it held none; `most`: what it held at the end of
    its answer; `now`: what it holds."""

    admitted_ms: int
    input_tokens: int
    granted: int | None
    most: MoneyAmount | None
    now: MoneyAmount


class ExplainedCharge(msgspec.Struct, frozen=True, kw_only=True):
    """What one request was charged. `day`: its day in the tenant's zone, in which its lines count; `unread`:
    what could not be read."""

    tenant: str
    request: str
    state: ChargeState
    time_zone: str
    day: str
    booked: BookedRequest | None
    origin: PriceOrigin | None
    whose: ChargedTo | None
    hold: ChargeHold | None
    held_back: list[HeldBack]
    refused: list[RefusalMatch]
    unread: str


@operation(
    "charges.explain",
    "GET /tenants/{tenant}/charges/requests/{request}",
    may=STAFF | PAYERS | DEVELOPERS,
    audit="request.explain",
    uses=Uses(
        reads="tenant tenant_user project cost_center api_key usage_event usage_line usage_quarantine "
        "refusal_minute period_close price_book price_version price price_tier wallet wallet_grant "
        "wallet_use wallet_owed ledger_txn",
        writes=AUDIT,
        keys=("T:rq:",),
    ),
)
async def explain_charge(look: Look, ask: AskCharge) -> ExplainedCharge:
    """Explain what a request was charged: its lines, the price and why it applied, whose it is, what it held
    while it ran, and what was corrected later. No text of it is read."""
    owner = await look.tenant(ask.tenant)
    id, tenant_id = ask.request, owner.tenant_id
    await look.watched(tenant_id, id)
    booked, back = await booked_of(look.db, tenant_id, id), await held_back_of(look.db, tenant_id, id)
    refused = await refusals_of(look.db, id, tenant_id)
    held, unread = await _held(look, tenant_id, id)
    if not (booked or back or held or refused):
        raise unknown(f"you have no request {id!r}{unread and f'; {unread}'}", field="request")
    origin, prices = (None, None) if booked is None else await price_origin_of(look.db, tenant_id, booked)
    zone, day = await _day(look, owner, booked)
    return ExplainedCharge(
        tenant=tenant_id,
        request=id,
        state=state_of(booked, back, held),
        time_zone=zone,
        day=day,
        booked=None if booked is None else msgspec.structs.replace(booked, policy="", verdicts={}),
        origin=origin,
        whose=await _whose(look, tenant_id, id, booked, held),
        hold=None if held is None else hold_of(held, prices),
        held_back=back,
        refused=refused,
        unread=unread,
    )


def state_of(booked: BookedRequest | None, back: list[HeldBack], held: HeldRequest | None) -> ChargeState:
    """How far the charge is, by what is known of it; with nothing of these it was refused. Pure."""
    if booked is not None:
        return ChargeState.BOOKED
    if any(not each.resolution for each in back):
        return ChargeState.HELD_BACK
    if back:
        return ChargeState.DISMISSED
    if held is not None:
        return ChargeState(held.state)
    return ChargeState.REFUSED


def hold_of(held: HeldRequest, prices: FlatPrices | None) -> ChargeHold:
    """What was held, of the record of its admission. Pure."""
    limited = held.granted < UNLIMITED_TOKENS
    most = None
    if limited and prices is not None:
        asked = Counts(input_uncached=held.input_tokens, output_text=held.granted)
        most = MoneyAmount.of(cost_under(asked, prices))
    return ChargeHold(
        admitted_ms=held.admitted_ms,
        input_tokens=held.input_tokens,
        granted=held.granted if limited else None,
        most=most,
        now=held.held,
    )


async def _held(look: Look, tenant_id: str, id: str) -> tuple[HeldRequest | None, str]:
    try:
        held = await held_of(look.redis, tenant_id, id)
    except (redis_errors.RedisError, OSError) as error:
        return None, f"Redis does not answer ({type(error).__name__}): what it held is not known"
    return (None, str(held)) if isinstance(held, Unreadable) else (held, "")


async def _day(look: Look, owner: Tenant, booked: BookedRequest | None) -> tuple[str, str]:
    """The zone of the day in which its lines count, and that day."""
    calendar = await calendar_of(look.db, owner)
    if booked is None or not booked.lines:
        return str(calendar.zone), ""
    counts_ms = booked.lines[0].counts_ms
    zone = calendar.zone_of(calendar.month_at(counts_ms))
    return str(zone), datetime.fromtimestamp(counts_ms / 1000, zone).date().isoformat()


async def _whose(
    look: Look, tenant_id: str, id: str, booked: BookedRequest | None, held: HeldRequest | None
) -> ChargedTo | None:
    facts = booked or held
    if facts is None:
        return None
    async with look.db.session() as session:
        row = await session.get(UsageRow, (tenant_id, id))
        project = await session.get(Project, (tenant_id, facts.project))
        key = await session.get(ApiKey, (tenant_id, facts.key))
        paid = select(CostCenter).where(
            col(CostCenter.tenant_id) == tenant_id,
            col(CostCenter.id).in_(
                select(UsageLine.cost_center_id).where(
                    col(UsageLine.tenant_id) == tenant_id,
                    col(UsageLine.request_id) == id,
                    col(UsageLine.number) == 0,
                )
            ),
        )
        center = (await session.exec(paid)).first() if booked is not None else None
    users = await user_names(look.db, tenant_id, [facts.user_id])
    return ChargedTo(
        project=facts.project,
        project_name=project.name if project is not None else facts.project,
        cost_center=center.code if center is not None else "",
        cost_center_name=center.name if center is not None else "",
        user_id=facts.user_id,
        user=users.get(facts.user_id, facts.user_id),
        key=facts.key,
        key_name=key.name if key is not None else facts.key,
        key_prefix=f"pk_{key.prefix}" if key is not None else "",
        conversation=row.conversation_id if row is not None else "",
    )


OPERATIONS = (explain_charge,)

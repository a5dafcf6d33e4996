"""The operation that shows which requests of a month ended in an error, and what they cost."""

from typing import Annotated

import msgspec
from msgspec import Meta

from billing.operations.known_times import known_month
from billing.operations.shared_fields import NameTenant
from billing.operations.spend_refusals import requests_ended
from billing.periods import month_text
from billing.prices.calendars import calendar_of
from billing.requests.ended_errors import EndedError, errors_in
from billing.unit_of_work.units import Look
from core.clock import iso_time
from core.operations import PAYERS, STAFF, MoneyAmount, Uses, operation

WAYS_MAX = 200


class AskErrors(NameTenant, frozen=True, kw_only=True):
    """Which month."""

    month: Annotated[
        str | None, Meta(description="As 2026-10, in the tenant's time zone; by default this one.")
    ] = None
    limit: Annotated[
        int, Meta(ge=1, le=WAYS_MAX, description="How many ways to end at most; the others are one sum.")
    ] = 20


class EndedErrors(msgspec.Struct, frozen=True, kw_only=True):
    """Requests that ended in one way. `reason`: blocked, budget, deadline, error or slow_reader; `code`: of
    an error; `cost`: what was billed of what they used, without later corrections; `last`: when the last
    one ended."""

    reason: str
    code: str
    requests: int
    cost: MoneyAmount
    last: str | None


class MonthErrors(msgspec.Struct, frozen=True, kw_only=True):
    """Requests of a month that ended in an error, by how, most first. `requests`: all that ended; `others`:
    errors of the `more` ways that are not listed."""

    tenant: str
    month: str
    start: str | None = msgspec.field(name="from")
    end: str | None = msgspec.field(name="to")
    time_zone: str
    requests: int
    errors: int
    cost: MoneyAmount
    ways: list[EndedErrors]
    more: int
    others: int


@operation(
    "spend.errors",
    "GET /tenants/{tenant}/spend/errors",
    may=STAFF | PAYERS,
    uses=Uses(reads="tenant period_close rollup_hour usage_line usage_event charge"),
)
async def show_errors(look: Look, ask: AskErrors) -> MonthErrors:
    """Show which requests of a month ended in an error, and what they cost: what a request used before it
    failed is billed. Refused requests, which cost nothing, are in `spend refusals`."""
    owner = await look.tenant(ask.tenant)
    calendar = await calendar_of(look.db, owner)
    window = await known_month(look, owner, calendar, ask.month)
    found = await errors_in(look.db, owner.tenant_id, window)
    listed = found[: ask.limit]
    errors = sum(each.number for each in found)
    return MonthErrors(
        tenant=owner.tenant_id,
        month=month_text(calendar.month_at(window.start_ms)),
        start=iso_time(window.start_ms),
        end=iso_time(window.end_ms),
        time_zone=str(calendar.zone_of(calendar.month_at(window.start_ms))),
        requests=await requests_ended(look, owner.tenant_id, window, calendar),
        errors=errors,
        cost=MoneyAmount.of(sum(each.cost_nano for each in found)),
        ways=[_facts(each) for each in listed],
        more=len(found) - len(listed),
        others=errors - sum(each.number for each in listed),
    )


def _facts(each: EndedError) -> EndedErrors:
    return EndedErrors(
        reason=each.reason,
        code=each.code,
        requests=each.number,
        cost=MoneyAmount.of(each.cost_nano),
        last=iso_time(each.last_ms),
    )


OPERATIONS = (show_errors,)

"""Charges in the FinOps Open Cost and Usage Specification (FOCUS 1.2, https://focus.finops.org): one row for
each hour, meter and payer. Pure, but for reading the lines.

Amounts and unit prices are exact decimals as text. ListCost and ContractedCost are unit price × quantity,
with all their digits. BilledCost and EffectiveCost are the booked amounts, rounded to the nano once for each
request and meter. x_RoundingCost is the difference BilledCost - ContractedCost: at most half a nano-USD for
each of the row's requests, and under a nano where it has one.
"""

import json
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import select
from sqlmodel import col, func

from billing.ledger.transactions import LineKind
from billing.money import to_text
from billing.periods import HOUR_MS, PeriodWindow
from billing.prices.rating import Meter
from billing.tables.ledger import CostCenter, UsageLine
from billing.tables.prices import Charge as OtherCharge
from billing.tables.tenants import Project, Tenant, UsageRow
from billing.tenants.users import all_user_names
from core.sql.database import Database

ROWS_AT_ONCE = 5_000
PUBLISHER = "Parley"
UNIT_DIGITS = 15  # digits of USD per unit, from nano-USD per million units
FINEST = 1_000_000  # parts of a nano-USD

MANDATORY = (
    "BilledCost",
    "BillingAccountId",
    "BillingAccountName",
    "BillingCurrency",
    "BillingPeriodEnd",
    "BillingPeriodStart",
    "ChargeCategory",
    "ChargeClass",
    "ChargeDescription",
    "ChargePeriodEnd",
    "ChargePeriodStart",
    "ContractedCost",
    "EffectiveCost",
    "InvoiceIssuerName",
    "ListCost",
    "PricingQuantity",
    "PricingUnit",
    "ProviderName",
    "PublisherName",
    "ServiceCategory",
    "ServiceName",
)
OTHER = (
    "BillingAccountType",
    "ChargeFrequency",
    "ConsumedQuantity",
    "ConsumedUnit",
    "ContractedUnitPrice",
    "ListUnitPrice",
    "PricingCategory",
    "ResourceId",
    "ResourceName",
    "ResourceType",
    "ServiceSubcategory",
    "SkuId",
    "SkuMeter",
    "SkuPriceDetails",
    "SkuPriceId",
    "SubAccountId",
    "SubAccountName",
    "SubAccountType",
    "Tags",
    "x_KeyId",
    "x_Model",
    "x_Pool",
    "x_RoundingCost",
    "x_UserId",
)
COLUMNS: tuple[str, ...] = (*MANDATORY, *OTHER)
OF_POOLS = (Meter.GPU_SECOND, Meter.RESERVED_GPU_SECOND)
UNITS = {Meter.REQUEST: "Requests", Meter.GPU_SECOND: "Seconds", Meter.RESERVED_GPU_SECOND: "Seconds"}
METERS = {
    Meter.INPUT: "input tokens",
    Meter.CACHED_INPUT: "cached input tokens",
    Meter.OUTPUT: "output tokens",
    Meter.REASONING: "reasoning tokens",
    Meter.REQUEST: "requests",
    Meter.GPU_SECOND: "ready GPU-seconds",
    Meter.RESERVED_GPU_SECOND: "reserved GPU-seconds",
    Meter.MINIMUM: "minimum",
}
NOTHING_USED = (
    "ConsumedQuantity",
    "ConsumedUnit",
    "ContractedUnitPrice",
    "ListUnitPrice",
    "PricingQuantity",
    "PricingUnit",
)


@dataclass(frozen=True)
class FocusCharge:
    """Sum of one hour's lines with the same price, meter and owner. The hour is in their billing period;
    `start_ms` to `end_ms` is the time charged for: a month for a true-up, and an hour of the closed month for
    usage that came after its close."""

    hour_ms: int
    start_ms: int
    end_ms: int
    project_id: str
    cost_center_id: str
    key_id: str
    user_id: str
    model: str
    pool: str
    kind: str
    meter: str
    price_book_id: str
    price_version: int
    price_nano: int
    currency: str
    quantity: int
    amount_nano: int


@dataclass(frozen=True)
class Account:
    """Names behind the ids in a tenant's charges."""

    tenant: Tenant
    projects: dict[str, str]
    cost_centers: dict[str, str]
    issuer: str
    users: Mapping[str, str] = field(default_factory=dict[str, str])


def focus_row(charge: FocusCharge, account: Account, period: PeriodWindow) -> dict[str, str]:
    """A charge as a row with all COLUMNS; empty is null. `period` is the billing period that holds it."""
    meter, cost = Meter(charge.meter), to_text(charge.amount_nano)
    unit = UNITS.get(meter, "Tokens")
    price = unit_price(charge.price_nano)
    book = f"{charge.price_book_id}/{charge.price_version}"
    tags = {"cost_center": account.cost_centers.get(charge.cost_center_id, "")}
    true_up = charge.kind == LineKind.TRUE_UP and meter not in OF_POOLS
    start, end = charge.start_ms, charge.end_ms
    if not true_up and end > period.start_ms:  # else it came late, for a closed month
        start, end = max(start, period.start_ms), min(end, period.end_ms)
    name = charge.model or "Commitment"
    booked = charge.amount_nano * FINEST
    product = booked if true_up else charge.price_nano * charge.quantity
    row = {
        "BilledCost": cost,
        "BillingAccountId": account.tenant.tenant_id,
        "BillingAccountName": account.tenant.name,
        "BillingAccountType": "Tenant",
        "BillingCurrency": charge.currency.upper(),
        "BillingPeriodStart": _time(period.start_ms),
        "BillingPeriodEnd": _time(period.end_ms),
        "ChargeCategory": "Adjustment" if true_up else "Usage",
        "ChargeClass": "Correction" if charge.kind == LineKind.ADJUST or start < period.start_ms else "",
        "ChargeDescription": f"{name}: {METERS[meter]}{', by the month' if true_up else ''}",
        "ChargeFrequency": "Recurring" if true_up else "Usage-Based",
        "ChargePeriodStart": _time(start),
        "ChargePeriodEnd": _time(end),
        "ConsumedQuantity": str(charge.quantity),
        "ConsumedUnit": unit,
        "ContractedCost": exact_text(product),
        "ContractedUnitPrice": price,
        "EffectiveCost": cost,
        "InvoiceIssuerName": account.issuer,
        "ListCost": exact_text(product),
        "ListUnitPrice": price,
        "PricingCategory": _pricing(charge, meter, true_up),
        "PricingQuantity": str(charge.quantity),
        "PricingUnit": unit,
        "ProviderName": account.issuer,
        "PublisherName": PUBLISHER,
        "ResourceId": name,
        "ResourceName": name,
        "ResourceType": "GPU" if meter in OF_POOLS else "Model",
        "ServiceCategory": "AI and Machine Learning",
        "ServiceSubcategory": "Generative AI",
        "ServiceName": "Chat",
        "SkuId": f"{name}/{charge.meter}",
        "SkuMeter": METERS[meter],
        "SkuPriceDetails": json.dumps({"x_PriceBook": charge.price_book_id}),
        "SkuPriceId": f"{book}/{name}/{charge.meter}",
        "SubAccountId": charge.project_id,
        "SubAccountName": account.projects.get(charge.project_id, ""),
        "SubAccountType": "Project",
        "Tags": json.dumps({name: value for name, value in tags.items() if value}),
        "x_KeyId": charge.key_id,
        "x_Model": charge.model,
        "x_Pool": charge.pool,
        "x_RoundingCost": exact_text(booked - product),
        "x_UserId": account.users.get(charge.user_id, charge.user_id),
    }
    if true_up:
        row |= dict.fromkeys(NOTHING_USED, "")
    return {column: row[column] for column in COLUMNS}


def _pricing(charge: FocusCharge, meter: Meter, true_up: bool) -> str:
    if true_up:
        return "Other"
    committed = meter is Meter.RESERVED_GPU_SECOND or (meter is Meter.GPU_SECOND and not charge.price_nano)
    return "Committed" if committed else "Standard"


def unit_price(price_nano: int) -> str:
    """Exact USD of one unit, from nano-USD per 1,000,000: `0.0000001` for 100,000,000."""
    return exact_text(price_nano)


def exact_text(finest: int) -> str:
    """Exact USD of an amount in units of 1/FINEST nano-USD. Pure."""
    whole, fraction = divmod(abs(finest), 10**UNIT_DIGITS)
    digits = f"{fraction:0{UNIT_DIGITS}d}".rstrip("0")
    return ("-" if finest < 0 else "") + (f"{whole}.{digits}" if digits else str(whole))


async def charges(db: Database, tenant_id: str, period: PeriodWindow) -> AsyncGenerator[FocusCharge]:
    """Yield a tenant's charges in a period, hour by hour, without lines that have neither a cost nor a
    quantity to price."""
    hour: Any = col(UsageLine.ended_ms) - col(UsageLine.ended_ms) % HOUR_MS
    ended: Any = func.coalesce(UsageRow.ended_ms, UsageLine.ended_ms)
    ended_hour: Any = ended - ended % HOUR_MS
    times: list[Any] = [
        hour,
        func.coalesce(OtherCharge.start_ms, ended_hour),
        func.coalesce(OtherCharge.end_ms, ended_hour + HOUR_MS),
    ]
    of_request = [_whose(name) for name in ("key_id", "user_id", "model", "pool")]
    of_line: list[Any] = [
        UsageLine.kind,
        UsageLine.meter,
        UsageLine.price_book_id,
        UsageLine.price_version,
        UsageLine.price_nano,
    ]
    whom = [_whose("project_id"), UsageLine.cost_center_id]
    group = [*times, *whom, *of_request, *of_line, _whose("currency")]
    sums = [func.sum(col(UsageLine.quantity)), func.sum(col(UsageLine.amount_nano))]
    same = (col(UsageRow.tenant_id) == col(UsageLine.tenant_id)) & (
        col(UsageRow.request_id) == col(UsageLine.request_id)
    )
    other = (col(OtherCharge.tenant_id) == col(UsageLine.tenant_id)) & (
        col(OtherCharge.id) == col(UsageLine.request_id)
    )
    columns: list[Any] = [*group, *sums]
    statement = (
        select(*columns)
        .select_from(UsageLine)
        .outerjoin(UsageRow, same)
        .outerjoin(OtherCharge, other)
        .where(
            col(UsageLine.tenant_id) == tenant_id,
            col(UsageLine.ended_ms) >= period.start_ms,
            col(UsageLine.ended_ms) < period.end_ms,
            (col(UsageLine.price_nano) > 0)
            | (col(UsageLine.amount_nano) != 0)
            | (col(UsageLine.meter) != Meter.REQUEST.value),
        )
        .group_by(*group)
        .order_by(*group)
    )
    async with db.looking() as connection:
        rows = await connection.stream(statement)
        async for page in rows.partitions(ROWS_AT_ONCE):
            for row in page:
                *facts, quantity, amount = tuple(row)
                yield FocusCharge(*facts, quantity=int(quantity), amount_nano=int(amount))


def _whose(name: str) -> Any:
    """A column of a line's request, or of its charge where it has no request."""
    return func.coalesce(getattr(UsageRow, name), getattr(OtherCharge, name))


async def account_of(db: Database, tenant: Tenant, issuer: str) -> Account:
    """Load the names behind the ids in a tenant's charges."""
    owner = tenant.tenant_id
    projects = select(col(Project.id), col(Project.name)).where(col(Project.tenant_id) == owner)
    centers = select(col(CostCenter.id), col(CostCenter.code)).where(col(CostCenter.tenant_id) == owner)
    async with db.looking() as connection:
        names = {row[0]: row[1] for row in await connection.execute(projects)}
        codes = {row[0]: row[1] for row in await connection.execute(centers)}
    return Account(tenant, names, codes, issuer, await all_user_names(db, owner))


def _time(unix_ms: int) -> str:
    """UTC as FOCUS writes it: `2026-10-01T00:00:00Z`."""
    return datetime.fromtimestamp(unix_ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

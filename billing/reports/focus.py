"""Charges in the FinOps Open Cost and Usage Specification (FOCUS 1.2, https://focus.finops.org): one row for
each hour, meter and payer. Pure, but for reading names.

Amounts and unit prices are exact decimals as text. ListCost and ContractedCost are unit price × quantity,
with all their digits. BilledCost and EffectiveCost are the booked amounts, rounded to the nano once for each
request and meter. x_RoundingCost is the difference BilledCost - ContractedCost: at most half a nano-USD for
each of the row's requests, and under a nano where it has one.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from sqlalchemy import select
from sqlmodel import col

from billing.ledger.transactions import LineKind
from billing.money import to_text
from billing.periods import PeriodWindow
from billing.prices.rating import Meter
from billing.reports.charge_pages import FocusCharge
from billing.tables.ledger import CostCenter
from billing.tables.tenants import ApiKey, Project, Tenant
from core.sql.database import Database

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
    "x_CostCenter",
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
class Account:
    """Names behind the ids in a tenant's charges. `users`: those of the charges at hand, as there may be
    millions."""

    tenant: Tenant
    projects: dict[str, str]
    cost_centers: dict[str, str]
    issuer: str
    users: Mapping[str, str] = field(default_factory=dict[str, str])
    keys: Mapping[str, str] = field(default_factory=dict[str, str])


def focus_row(charge: FocusCharge, account: Account, period: PeriodWindow) -> dict[str, str]:
    """A charge as a row with all COLUMNS; empty is null. `period` is the billing period that holds it."""
    meter, cost = Meter(charge.meter), to_text(charge.amount_nano)
    unit = UNITS.get(meter, "Tokens")
    price = unit_price(charge.price_nano)
    book = f"{charge.price_book_id}/{charge.price_version}"
    tags = {**charge.tags, "cost_center": account.cost_centers.get(charge.cost_center_id, "")}
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
        "x_CostCenter": tags["cost_center"],
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


async def account_of(db: Database, tenant: Tenant, issuer: str) -> Account:
    """Load the names behind the ids in a tenant's charges."""
    owner = tenant.tenant_id
    projects = select(col(Project.id), col(Project.name)).where(col(Project.tenant_id) == owner)
    centers = select(col(CostCenter.id), col(CostCenter.code)).where(col(CostCenter.tenant_id) == owner)
    keys = select(col(ApiKey.id), col(ApiKey.prefix), col(ApiKey.name)).where(col(ApiKey.tenant_id) == owner)
    async with db.looking() as connection:
        prefixed = {id: f"pk_{prefix} {name}".strip() for id, prefix, name in await connection.execute(keys)}
        names = {row[0]: row[1] for row in await connection.execute(projects)}
        codes = {row[0]: row[1] for row in await connection.execute(centers)}
    return Account(tenant, names, codes, issuer, keys=prefixed)


def _time(unix_ms: int) -> str:
    """UTC as FOCUS writes it: `2026-10-01T00:00:00Z`."""
    return datetime.fromtimestamp(unix_ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

"""The FOCUS 1.2 export against the specification's rules for its columns."""

import json
import re
from datetime import UTC, datetime
from decimal import Decimal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from billing.booking.adjustments import Correction, correct
from billing.dedicated_pools.hours import ReadyInterval
from billing.dedicated_pools.posting import post_hours
from billing.dedicated_pools.store import store
from billing.ledger.transactions import HOUR_MS
from billing.periods import PeriodWindow
from billing.posting.biller import post
from billing.prices.rating import Meter
from billing.reports.exports import focus_pages, table_pages
from billing.reports.focus import COLUMNS, MANDATORY, account_of, unit_price
from billing.tables.dedicated_pools import Commitment, PoolOwner
from billing.tenants.cost_centers import charge_project_to, create_cost_center
from billing.tenants.tenancy import create_tenant, find_project, find_tenant, set_tenant
from billing.usage import UsageOwner, encode
from core.sql.database import Database, insert_rows
from tests.billing.closing.closing_month import GRADUATED, a_request, a_tenant, closed, owed, used, window
from tests.billing.events import PRICES, an_event, priced
from tests.billing.ledger.ledger_reading import an_hour_of

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
DECIMAL = re.compile(r"-?\d+(\.\d+)?")
# FOCUS 1.2: what a column may hold, and which must not be null.
ALLOWED = {
    "ChargeCategory": {"Usage", "Purchase", "Tax", "Credit", "Adjustment"},
    "ChargeClass": {"", "Correction"},
    "ChargeFrequency": {"One-Time", "Recurring", "Usage-Based"},
    "PricingCategory": {"Standard", "Dynamic", "Committed", "Other"},
    "ServiceCategory": {"AI and Machine Learning"},
    "ServiceSubcategory": {"Generative AI"},
    "BillingCurrency": {"USD"},
}
NULL_ALLOWED = {"ChargeClass", "SubAccountName", "x_CostCenter", "x_UserId", "BillingAccountName"}
COSTS = ("BilledCost", "ListCost", "ContractedCost", "EffectiveCost")
NUMBERS = (*COSTS, "PricingQuantity", "ConsumedQuantity", "ListUnitPrice", "ContractedUnitPrice")
TIMES = ("BillingPeriodStart", "BillingPeriodEnd", "ChargePeriodStart", "ChargePeriodEnd")


def at(text: str) -> datetime:
    """A time of a row."""
    assert TIME.fullmatch(text), text
    return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)


def check(row: dict[str, str]) -> None:
    """The rules of FOCUS 1.2 that one row can be held against."""
    assert tuple(row) == COLUMNS
    for name, value in row.items():
        assert value or name in NULL_ALLOWED, name
        assert value in ALLOWED.get(name, {value}), (name, value)
    for name in NUMBERS:
        assert DECIMAL.fullmatch(row[name]), (name, row[name])
    period_start, period_end, start, end = (at(row[name]) for name in TIMES)
    assert period_start <= start < end <= period_end
    for name in ("Tags", "SkuPriceDetails"):
        assert isinstance(json.loads(row[name]), dict)
    assert json.loads(row["SkuPriceDetails"]).keys() <= {"x_PriceBook"}, "own keys begin with x_"
    assert (row["PricingUnit"] == row["ConsumedUnit"]) == (row["PricingQuantity"] == row["ConsumedQuantity"])


async def exported(database: Database, tenant_name: str, period: PeriodWindow) -> list[dict[str, str]]:
    """The rows of a tenant."""
    tenant = await find_tenant(database, tenant_name)
    assert tenant is not None
    account = await account_of(database, tenant, "Example GmbH")
    rows = [row async for page in focus_pages(database, account, period) for row in page]
    return [dict(zip(rows[0], row, strict=True)) for row in rows[1:]]


async def test_every_row_keeps_the_rules_and_their_sum_is_the_bill(database: Database) -> None:
    """No charge is lost or counted twice; a row is its quantity times its price, to half a nano a request."""
    tenant = (await create_tenant(database, "acme")).tenant_id
    events = an_hour_of(80, seed=11, tenant=tenant)
    await post(database, "default", [encode(event) for event in events])
    await post(database, "default", [encode(an_event("foreign", "t9"))])
    rows = await exported(database, "acme", PeriodWindow(0, 5 * HOUR_MS))
    assert set(MANDATORY) <= set(COLUMNS)
    for row in rows:
        check(row)
        product = Decimal(row["ListUnitPrice"]) * Decimal(row["PricingQuantity"])
        assert Decimal(row["ListCost"]) == Decimal(row["ContractedCost"]) == product
        off = Decimal(row["BilledCost"]) - product
        assert off == Decimal(row["x_RoundingCost"])
        assert abs(off) <= Decimal(len(events)) / 2 / 10**9
    billed = sum(Decimal(row["BilledCost"]) for row in rows)
    assert billed * 10**9 == sum(event.cost_nano for event in events)
    keys = [tuple(row[name] for name in COLUMNS if name not in NUMBERS) for row in rows]
    assert len(set(keys)) == len(keys)


async def test_what_is_contracted_is_exact_and_what_was_rounded_is_said(database: Database) -> None:
    """A row of one request differs from its price times its quantity by less than a nano, one of a correction
    too, and the row says by how much."""
    tenant = (await create_tenant(database, "acme")).tenant_id
    odd = msgspec.structs.replace(PRICES, input_nano=123_456_789, output_nano=333_333_333)
    await post(database, "default", [encode(an_event("r1", tenant, prices=odd))])
    await correct(database, tenant, Correction("r1", {Meter.OUTPUT: 5}, "one"))
    rows = await exported(database, "acme", PeriodWindow(0, 5 * HOUR_MS))
    exact = {"input": "0.000000987654312", "cached input": "0.0000001", "output": "0.000002333333331"}
    exact = {f"{name} tokens": Decimal(nano) for name, nano in exact.items()}
    found = {row["SkuMeter"]: row for row in rows if not row["ChargeClass"]}
    assert {name: Decimal(row["ContractedCost"]) for name, row in found.items()} == exact
    assert found["output tokens"]["BilledCost"] == "0.000002333"
    assert found["output tokens"]["x_RoundingCost"] == "-0.000000000333331"
    (corrected,) = [row for row in rows if row["ChargeClass"]]
    assert (corrected["ContractedCost"], corrected["BilledCost"]) == ("-0.000000666666666", "-0.000000666")
    for row in rows:
        off = Decimal(row["BilledCost"]) - Decimal(row["ContractedCost"])
        assert off == Decimal(row["x_RoundingCost"])
        assert abs(off) < Decimal(1) / 10**9


async def test_a_plain_table_tells_times_in_the_tenants_zone(database: Database) -> None:
    """As the pages do, with their offset: a day of the table is a day of the page."""
    tenant = (await create_tenant(database, "acme")).tenant_id
    await set_tenant(database, tenant, time_zone="Asia/Tokyo")
    await post(database, "default", [encode(an_event("r1", tenant, ended_ms=HOUR_MS // 2))])
    found = await find_tenant(database, tenant)
    assert found is not None
    pages = table_pages(database, await account_of(database, found, ""), PeriodWindow(0, HOUR_MS))
    _, row, *_ = [row async for page in pages for row in page]
    assert list(row[:2]) == ["1970-01-01T09:00:00+09:00", "1970-01-01T10:00:00+09:00"]


async def test_names_cost_centers_and_edges_of_the_period(database: Database) -> None:
    """Who pays is a column and a tag; an hour that a period cuts is cut; a price by request has its row."""
    tenant = (await create_tenant(database, "acme")).tenant_id
    project = await find_project(database, tenant, "default")
    assert project is not None
    center = await create_cost_center(database, tenant, "4711")
    moved = await charge_project_to(database, tenant, project.id, center.id)
    by_request = msgspec.structs.replace(PRICES, request_nano=1_000_000_000)
    event = priced(an_event(tenant=tenant, owner=UsageOwner(project=project.id, key="k1"), prices=by_request))
    moment = moved.valid_from_ms + 1
    await post(database, "default", [encode(msgspec.structs.replace(event, ended_ms=moment))])
    rows = await exported(database, "acme", PeriodWindow(moment - moment % 1000, moment + 30 * 60_000))
    assert {row["x_CostCenter"] for row in rows} == {"4711"}
    assert {row["SkuMeter"] for row in rows} == {
        "requests",
        "input tokens",
        "cached input tokens",
        "output tokens",
    }
    for row in rows:
        assert json.loads(row["Tags"]) == {"cost_center": "4711"}
        assert (row["SubAccountName"], row["InvoiceIssuerName"]) == ("default", "Example GmbH")
        assert at(row["ChargePeriodStart"]) == at(row["BillingPeriodStart"])
    (requests,) = [row for row in rows if row["SkuMeter"] == "requests"]
    assert (requests["PricingUnit"], requests["ListUnitPrice"]) == ("Requests", "0.000001")


@given(st.integers(0, 9 * 10**15))
def test_unit_prices_are_exact(nano: int) -> None:
    """USD for one unit of nano-USD for a million."""
    assert Decimal(unit_price(nano)) * 10**15 == nano


@pytest.mark.parametrize(("nano", "text"), [(100_000_000, "0.0000001"), (0, "0"), (10**15, "1")])
def test_unit_prices_read_well(nano: int, text: str) -> None:
    """No exponent, no idle zeros."""
    assert unit_price(nano) == text


async def test_pools_and_true_ups_are_charges_too(database: Database) -> None:
    """What the month's books say is what is exported: GPU-seconds by the hour, true-ups for their month."""
    tenant = await a_tenant(database, GRADUATED, name="acme")
    await used(database, a_request(1, tenant, 1, 20_000))
    await closed(database, tenant, 1)
    await used(database, a_request(2, tenant, 1, 5_000), a_request(3, tenant, 2, 100))
    await closed(database, tenant, 2)
    hour = window(2).start_ms - window(2).start_ms % HOUR_MS + HOUR_MS
    async with database.transaction() as session:
        facts = {"tenant_id": tenant.tenant_id, "created_ms": 0}
        owner = PoolOwner(pool="a", from_ms=0, tenant_id=tenant.tenant_id, created_ms=0)
        await insert_rows(session, [owner])
        held = Commitment.model_validate(
            {"id": "c", "gpu_type": "h200", "gpus": 1, "rate_nano": 7, "overage_nano": 10**9}
            | {"payment": "monthly", "start_ms": hour, "end_ms": hour + HOUR_MS, **facts}
        )
        await insert_rows(session, [held])
    seconds = (("v", 3_600), ("w", 1_800))
    await store(
        database,
        [ReadyInterval("a", each, hour, hour + s * 1000, 0, 1, "ready", each, "h200") for each, s in seconds],
    )
    await post_hours(database, hour + 2 * HOUR_MS)
    rows = [row for month in (1, 2, 3) for row in await exported(database, "acme", window(month))]
    billed = sum(Decimal(row["BilledCost"]) for row in rows)
    assert billed * 10**9 == await owed(database, tenant)
    month, late = [row for row in rows if row["ChargeCategory"] == "Adjustment"]
    assert (month["ChargeClass"], late["ChargeClass"]) == ("", "Correction")
    assert month["ChargePeriodStart"] == late["ChargePeriodStart"] == "2025-01-01T00:00:00Z"
    assert {row[name] for row in (month, late) for name in ("ConsumedQuantity", "ListUnitPrice")} == {""}
    gpus = [row for row in rows if row["ResourceType"] == "GPU"]
    assert sorted((row["SkuMeter"], row["PricingCategory"], row["ConsumedQuantity"]) for row in gpus) == [
        ("ready GPU-seconds", "Committed", "3600"),
        ("ready GPU-seconds", "Standard", "1800"),
        ("reserved GPU-seconds", "Committed", "3600"),
    ]
    assert {row["BillingPeriodStart"][:7] for row in gpus} == {"2025-03"}  # February was closed
    assert {row["ChargeClass"] for row in gpus} == {"Correction"}
    for row in rows:
        for name in ("ChargeCategory", "ChargeClass", "ChargeFrequency", "PricingCategory"):
            assert row[name] in ALLOWED[name]

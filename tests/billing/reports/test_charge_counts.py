"""How many rows a file of charges will have is said before it is made."""

import msgspec
import pytest

from billing.operations import chargeback_export
from billing.operations.chargeback_export import AskExport, ExportSize
from billing.periods import UTC_ZONE, Calendar
from billing.posting.biller import post
from billing.reports import charge_pages
from billing.reports.charge_pages import charge_pages as pages_of
from billing.unit_of_work.perform import answer_of
from billing.unit_of_work.units import Stores
from billing.usage import UsageOwner, encode
from tests.billing.closing.closing_month import GRADUATED, a_request, a_tenant, closed
from tests.billing.operations.acting import OWNER
from tests.billing.operations.acting import stores as stores  # the fixture


async def size_of(stores: Stores) -> ExportSize:
    """Of January's charges."""
    return await answer_of(
        chargeback_export.show_size, stores, OWNER, AskExport(tenant="tiered", month="2025-01")
    )


async def test_rows_are_counted_of_few_lines_and_told_about_of_many(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of many they are those of the rollups, the same where nothing but hours, meters and owners tells
    charges apart; what has a cost and no tokens is one."""
    tenant = await a_tenant(stores.db, GRADUATED, name="tiered")
    events = [
        msgspec.structs.replace(
            a_request(number, tenant, 1, 40_000), owner=UsageOwner(project="p1", key=f"k{number % 2}")
        )
        for number in range(5)
    ]
    await post(stores.db, "default", [encode(each) for each in events])
    january = Calendar(UTC_ZONE).window(2025 * 12)
    rows = [row async for page in pages_of(stores.db, tenant.tenant_id, january) for row in page]
    few = await size_of(stores)
    assert (few.rows, few.about) == (len(rows), False)
    monkeypatch.setattr(charge_pages, "LINES_COUNTED_MAX", 1)
    many = await size_of(stores)
    assert (many.rows, many.about, many.bytes, many.total) == (len(rows), True, few.bytes, few.total)
    await closed(stores.db, tenant, 1)
    assert (await size_of(stores)).rows == len(rows) + 1

"""One request's charge by operation: its lines, why its price, whose it is, what it held."""

from datetime import UTC, datetime
from typing import Any

import msgspec

from billing.booking.adjustments import Correction, correct
from billing.operations import explained_charges
from billing.operations.explained_charges import AskCharge, ChargeState, hold_of
from billing.posting.biller import post
from billing.prices.files import FlatPrices
from billing.prices.rating import Meter
from billing.quota.packing import UNLIMITED_TOKENS
from billing.requests.held_requests import HeldRequest
from billing.tables.tenants import PLATFORM, Price, PriceVersion
from billing.tenants.tenancy import find_project, find_tenant
from billing.unit_of_work.perform import answer_of
from billing.unit_of_work.units import Stores
from billing.usage import UsageOwner, encode
from core.operations import MoneyAmount, Role
from tests.billing.events import PRICES, an_event
from tests.billing.operations.acting import OWNER, member_of, refusal_of
from tests.billing.operations.acting import stores as stores  # the fixture

AT = int(datetime(2026, 10, 15, 23, 30, tzinfo=UTC).timestamp() * 1000)


async def tenant_id(stores: Stores, name: str = "acme") -> str:
    """A tenant's id."""
    found = await find_tenant(stores.db, name)
    assert found is not None
    return found.tenant_id


async def versions(stores: Stores) -> None:
    """Of the platform's book, 8 and 9 after the one there is; the dearer one began before the request."""
    async with stores.db.transaction() as session:
        for number, begins, nano in ((8, AT - 9_000_000, 50_000_000), (9, AT - 5_000_000, 100_000_000)):
            facts: dict[str, Any] = {"book_id": "default", "version": number, "tenant_id": PLATFORM}
            session.add(PriceVersion(**facts, valid_from_ms=begins, created_ms=begins - 7_000))
            await session.flush()
            prices: dict[str, Any] = {
                "input_nano": nano,
                "cached_input_nano": 25_000_000,
                "output_nano": 4 * nano,
            }
            session.add(Price(**facts, model="*", request_nano=0, **prices))


async def test_a_booked_request_has_its_lines_its_price_and_what_the_one_before_would_have_cost(
    stores: Stores,
) -> None:
    """Whoever pays sees it, and whoever sends requests; each line is rounded once."""
    tenant = await tenant_id(stores)
    project = await find_project(stores.db, tenant, "default")
    assert project is not None
    await versions(stores)
    prices = msgspec.structs.replace(PRICES, version=9)
    owner = UsageOwner(project.id, "k1", "u1", "c1")
    event = an_event("r1", tenant, owner=owner, prices=prices, accepted_ms=AT - 1000, ended_ms=AT)
    await post(stores.db, "default", [encode(event)])
    for role in (Role.ADMIN, Role.BILLING, Role.DEVELOPER):
        ask = AskCharge(tenant=tenant, request="r1")
        found = await answer_of(explained_charges.explain_charge, stores, member_of(tenant, role), ask)
        assert (found.state, found.day) == (ChargeState.BOOKED, "2026-10-15")
        assert found.booked is not None
        assert found.origin is not None
        assert found.origin.earlier is not None
        assert sum(line.amount.value for line in found.booked.lines) == found.booked.amount.value == 3_700
        assert (found.booked.price.version, found.origin.announced_ms) == (9, AT - 5_007_000)
        earlier = found.origin.earlier
        assert (earlier.version, earlier.amount.value, earlier.more.value) == (8, 1_900, 1_800)
        assert found.origin.cache_saved == MoneyAmount.of(4 * 75)
        assert found.whose is not None
        assert (found.whose.project_name, found.whose.conversation) == ("default", "c1")


async def test_corrections_come_after_the_lines_that_they_correct(stores: Stores) -> None:
    """With what they were booked for; the amount is that of all lines."""
    tenant = await tenant_id(stores)
    await post(stores.db, "default", [encode(an_event("r1", tenant, ended_ms=AT))])
    await correct(stores.db, tenant, Correction("r1", {Meter.OUTPUT: 2}, "lost"))
    found = await answer_of(
        explained_charges.explain_charge, stores, OWNER, AskCharge(tenant="acme", request="r1")
    )
    assert found.booked is not None
    assert [line.cause for line in found.booked.lines if line.kind == "adjust"] == ["lost"]
    assert found.booked.amount.value == found.booked.cost.value - 5 * 400


async def test_what_is_held_back_says_so_and_what_nobody_knows_is_unknown(stores: Stores) -> None:
    """Another tenant's request is unknown too, and a viewer may not ask."""
    tenant, other = await tenant_id(stores), await tenant_id(stores, "other")
    event = an_event("r1", tenant, ended_ms=AT)
    wrong = msgspec.structs.replace(event, cost_nano=event.cost_nano + 1)
    await post(stores.db, "default", [encode(wrong), encode(an_event("r2", other, ended_ms=AT))])
    admin = member_of(tenant, Role.ADMIN)
    ask = AskCharge(tenant=tenant, request="r1")
    found = await answer_of(explained_charges.explain_charge, stores, admin, ask)
    assert (found.state, found.booked, len(found.held_back)) == (ChargeState.HELD_BACK, None, 1)
    for unknown in (AskCharge(tenant=tenant, request="r2"), AskCharge(tenant=other, request="r2")):
        assert (await refusal_of(explained_charges.explain_charge, stores, admin, unknown)).unknown
    viewer = member_of(tenant, Role.VIEWER)
    assert (await refusal_of(explained_charges.explain_charge, stores, viewer, ask)).code == "forbidden"


def held(granted: int) -> HeldRequest:
    """The record of an admission of 12 tokens."""
    nothing = MoneyAmount.of(0)
    ids = {"pool": "default", "project": "p1", "key": "k1", "user_id": "u1", "model": "m", "book": "b"}
    return HeldRequest(
        state="ended", **ids, input_tokens=12, granted=granted, held=nothing, admitted_ms=AT, deadline_ms=AT,
        cancelled=False, version=1, counted_in=[],
    )  # fmt: skip


def test_what_was_held_at_most_is_the_input_in_full_and_the_output_that_was_granted() -> None:
    """Where no money limits a request, nothing was held."""
    prices = FlatPrices(100_000_000, 25_000_000, 400_000_000, 0)
    known = hold_of(held(256), prices)
    assert (known.granted, known.most) == (256, MoneyAmount.of(12 * 100 + 256 * 400))
    free = hold_of(held(UNLIMITED_TOKENS), prices)
    assert (free.granted, free.most) == (None, None)

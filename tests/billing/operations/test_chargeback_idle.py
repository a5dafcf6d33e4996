"""The operators' report of shared pools' idle cost, and its file."""

from dataclasses import replace

from billing.dedicated_pools.commitments import set_gpu_cost
from billing.dedicated_pools.store import store
from billing.operations import chargeback_idle
from billing.operations.chargeback_idle import AskIdle
from billing.posting.biller import post
from billing.tenants.tenancy import create_tenant
from billing.unit_of_work.perform import answer_of
from billing.unit_of_work.units import Stores
from billing.usage import encode
from core.clock import iso_time
from core.operations import Role
from tests.billing.dedicated_pools.dedicated import DOLLAR, HOUR, an_interval
from tests.billing.events import an_event
from tests.billing.operations.acting import OWNER, member_of, refusal_of
from tests.billing.operations.acting import stores as stores  # the fixture


async def test_the_file_holds_what_the_report_shows(stores: Stores) -> None:
    """A row for each share, exact, of that month; no cell is a formula, and what nobody priced
    is empty."""
    tenant = (await create_tenant(stores.db, "=1+1")).tenant_id
    await set_gpu_cost(stores.db, "h200", "", DOLLAR, 0)
    await store(
        stores.db, [an_interval(0, 0, 3_600), replace(an_interval(0, 0, 1_800, "u", "c"), gpu_type="l4")]
    )
    await post(stores.db, "a", [encode(an_event("r1", tenant, pool="a", ended_ms=HOUR + 5))])
    ask = AskIdle(month=(iso_time(HOUR) or "")[:7])
    told = await answer_of(chargeback_idle.show_idle, stores, OWNER, ask)
    assert [(each.pool, each.name) for each in told.shares] == [("a", "=1+1"), ("c", "")]
    file = await answer_of(chargeback_idle.export_idle, stores, OWNER, ask)
    async with file.read() as pieces:
        lines = b"".join([each async for each in pieces]).decode("utf-8-sig").splitlines()
    first, second = told.shares
    assert first.idle is not None
    assert lines == [
        "pool,tenant,name,tokens,of_tokens,usd",
        f"a,{tenant},'=1+1,{first.tokens},{first.of_tokens},0.50",
        f"c,,,0,0,{'' if second.idle is None else second.idle.value}",
    ]
    assert file.name == f"parley-idle-{told.month}.csv"


async def test_a_tenants_members_are_not_shown_it(stores: Stores) -> None:
    """It says what others use."""
    for run in (chargeback_idle.show_idle, chargeback_idle.export_idle):
        assert (await refusal_of(run, stores, member_of("acme", Role.ADMIN), AskIdle())).code == "forbidden"

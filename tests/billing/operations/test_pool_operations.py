"""Operations on pools: whose they are, what commitments leave, and who may."""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from billing.approvals.proposals import perform_or_propose
from billing.audit.log import list_rows
from billing.dedicated_pools.owners import owner_of
from billing.operations import approvals, desired_pools, gpu_commitments, pools
from billing.operations.approvals import NameProposal
from billing.operations.desired_pools import CreatePool, EditPool
from billing.operations.gpu_commitments import (
    CommitToGpus,
    EndGpuCommitment,
    GpuCommitmentFacts,
    GpuPayment,
    ListGpuCommitments,
    SetGpuCost,
)
from billing.operations.pool_usage import AskPoolUsage, show_pool_usage
from billing.tables.dedicated_pools import Commitment
from billing.tables.ledger import LedgerTxn
from billing.tables.tenants import PLATFORM
from billing.tenants.tenancy import find_tenant
from billing.unit_of_work.listing import ListQuestion
from billing.unit_of_work.perform import answer_of
from billing.unit_of_work.units import Stores, Terms
from core.errors import Refused
from core.operations import MoneyAmount, Role, operation_of
from tests.billing.ledger.ledger_reading import read
from tests.billing.operations.acting import OWNER, member_of
from tests.billing.operations.acting import stores as stores  # the fixture
from tests.support.models import add_model
from tests.support.staff import signed_in_person

WHY = Terms(reason="they leave")
RATE = 2_000_000_000  # 96 USD for two GPUs and a day: one person may
DRY = Terms(reason="they leave", dry_run=True)


async def acme(stores: Stores) -> str:
    """The tenant's id."""
    found = await find_tenant(stores.db, "acme")
    assert found is not None
    return found.tenant_id


async def committed(stores: Stores, tenant: str = "acme", terms: Terms | None = None) -> GpuCommitmentFacts:
    """Two GPUs for a day, paid upfront."""
    return await answer_of(gpu_commitments.commit_to_gpus, stores, OWNER, upfront(tenant, days=1), terms)


def upfront(tenant: str, days: int) -> CommitToGpus:
    """Two GPUs for so long."""
    return CommitToGpus(
        tenant=tenant,
        gpu="*",
        gpus=2,
        rate=MoneyAmount.of(RATE),
        days=days,
        payment=GpuPayment.UPFRONT,
    )


async def test_owners_are_listed_as_they_were(stores: Stores) -> None:
    """By each change of who pays; a dry run is none. What the payer's prices would do is said."""
    await add_model(stores.db, "m")
    make = CreatePool(pool="a", model="m", tenant="acme")
    await answer_of(desired_pools.create_pool, stores, OWNER, make, DRY)
    assert "no price for any GPU" in str(
        (await answer_of(desired_pools.create_pool, stores, OWNER, make)).note
    )
    share = EditPool(pool="a", tenant=None)
    await answer_of(desired_pools.edit_pool, stores, OWNER, share, DRY)
    async with stores.db.session() as session:
        assert await owner_of(session, "a") == await acme(stores)
    await answer_of(desired_pools.edit_pool, stores, OWNER, share)
    page = await answer_of(pools.list_pool_owners, stores, OWNER, ListQuestion())
    assert [each.tenant for each in page.items] == ["acme", "(shared)"]


async def test_a_commitment_owes_and_gives_back_but_not_in_a_dry_run(stores: Stores) -> None:
    """What was paid upfront stands in the books, with the reason for its end in the audit log."""
    tenant = await acme(stores)
    await committed(stores, terms=DRY)
    assert await read(stores.db, LedgerTxn, tenant) == []
    made = await committed(stores)
    end = EndGpuCommitment(tenant="acme", commitment=made.id, as_never_made=True)
    would = await answer_of(gpu_commitments.end_commitment_to_gpus, stores, OWNER, end, DRY)
    assert (would.given_back, would.to) == (MoneyAmount.of(48 * RATE), None)
    assert len(await read(stores.db, LedgerTxn, tenant)) == 1
    assert await answer_of(gpu_commitments.end_commitment_to_gpus, stores, OWNER, end, WHY) == would
    assert len(await read(stores.db, LedgerTxn, tenant)) == 2
    ended = next(iter(await list_rows(stores.db, tenant)))
    assert (ended.action, "they leave" in ended.after) == ("commitment.end", True)


async def test_what_is_paid_upfront_waits_for_a_second_person(stores: Stores) -> None:
    """To be made and to be ended, as any money that one person may not move: another books what was
    proposed."""
    tenant, bob = await acme(stores), await signed_in_person(stores.db, "Bob", Role.FINANCE)
    cid = await signed_in_person(stores.db, "Cid", Role.OWNER)
    ask = upfront("acme", days=2)

    async def by_two(run: Callable[[Any, Any], Awaitable[Any]], ask: msgspec.Struct) -> None:
        done = await perform_or_propose(stores, cid, operation_of(run), ask, WHY)
        assert (done.waits, done.answer.amount) == (True, MoneyAmount.of(96 * RATE))
        await answer_of(approvals.approve_proposal, stores, bob, NameProposal(proposal=done.answer.proposal))

    await by_two(gpu_commitments.commit_to_gpus, ask)
    (made,) = await read(stores.db, Commitment, tenant)
    assert made.payment == "upfront"
    end = EndGpuCommitment(tenant="acme", commitment=made.id, as_never_made=True)
    await by_two(gpu_commitments.end_commitment_to_gpus, end)
    assert len(await read(stores.db, LedgerTxn, tenant)) == 2


async def test_anothers_commitment_is_unknown(stores: Stores) -> None:
    """To end, by whoever may; members see their own tenant's alone."""
    theirs = await committed(stores, "other")
    end = EndGpuCommitment(tenant="acme", commitment=theirs.id)
    with pytest.raises(Refused, match="there is no commitment") as refused:
        await answer_of(gpu_commitments.end_commitment_to_gpus, stores, OWNER, end, WHY)
    assert (refused.value.refusal.field, refused.value.refusal.unknown) == ("commitment", True)
    payer = member_of(await acme(stores), Role.BILLING)
    mine = await answer_of(
        gpu_commitments.list_gpu_commitments, stores, payer, ListGpuCommitments(tenant="acme")
    )
    assert mine.items == []
    with pytest.raises(Refused, match="there is no tenant"):
        await answer_of(
            gpu_commitments.list_gpu_commitments, stores, payer, ListGpuCommitments(tenant="other")
        )


async def test_use_is_asked_of_a_month_and_of_a_tenant(stores: Stores) -> None:
    """What is neither is refused by its field."""
    for ask, field in (
        (AskPoolUsage(month="soon"), "month"),
        (AskPoolUsage(month="2026-13", tenant="acme"), "month"),
        (AskPoolUsage(tenant="nobody"), "tenant"),
    ):
        with pytest.raises(Refused) as refused:
            await answer_of(show_pool_usage, stores, OWNER, ask)
        assert refused.value.refusal.field == field
    shown = await answer_of(show_pool_usage, stores, OWNER, AskPoolUsage(month="1970-01"))
    assert (shown.start, shown.end) == ("1970-01-01T00:00:00+00:00", "1970-02-01T00:00:00+00:00")
    assert shown.uses == []


async def test_costs_are_the_platforms(stores: Stores) -> None:
    """Set by finance, seen by staff who need margins; nobody of a tenant sees them."""
    cost = SetGpuCost(gpu="h200", hour=MoneyAmount.of(5))
    made = await answer_of(gpu_commitments.set_cost_of_gpu, stores, OWNER, cost)
    assert (await answer_of(gpu_commitments.list_gpu_costs, stores, OWNER, ListQuestion())).items == [made]
    assert next(iter(await list_rows(stores.db, PLATFORM))).action == "gpu.cost"
    admin = member_of(await acme(stores), Role.ADMIN)
    with pytest.raises(Refused, match="may not do this"):
        await answer_of(gpu_commitments.list_gpu_costs, stores, admin, ListQuestion())

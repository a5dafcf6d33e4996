"""Operations on limits: whose they are, what an edit leaves, and what a dry run does not."""

import asyncio

import pytest
from msgspec.structs import replace

from billing.enforcement.limit_settings import list_policies
from billing.limits import Dimension, Mode, Scope
from billing.operations import limits
from billing.operations.limits import EditLimit, LimitFor, ListLimits, NameLimit, SetLimit, ShowLimit
from billing.tenants.tenancy import find_tenant
from billing.tenants.users import create_user
from billing.unit_of_work.perform import Performed, answer_of, perform
from billing.unit_of_work.units import Stores, Terms
from core.errors import Refused
from core.operations import Role, operation_of
from tests.billing.operations.acting import OWNER, member_of, refusal_of
from tests.billing.operations.acting import stores as stores  # the fixture

AT_ONCE = 8
DRY = Terms(dry_run=True)


async def set_one(stores: Stores, units: int = 2, tenant: str = "acme") -> LimitFor:
    """A limit on how many requests a tenant has open."""
    ask = SetLimit(tenant=tenant, scope=Scope.TENANT, dimension=Dimension.CONCURRENCY, limit=units)
    return await answer_of(limits.set_limit, stores, OWNER, ask)


async def acme(stores: Stores) -> str:
    """The tenant's id."""
    found = await find_tenant(stores.db, "acme")
    assert found is not None
    return found.tenant_id


async def open_ids(stores: Stores, ended: bool = False) -> list[str]:
    """Ids of acme's limits, page by page."""
    ids, after = list[str](), ""
    while True:
        ask = ListLimits(tenant="acme", ended=ended, limit=1, after=after)
        page = await answer_of(limits.list_limits, stores, OWNER, ask)
        ids += [each.limit_id for each in page.items]
        if page.next is None:
            return ids
        after = page.next


async def test_of_equal_limits_set_at_once_one_is_open(stores: Stores) -> None:
    """And all of them stood for a time."""
    await asyncio.gather(*(set_one(stores, units) for units in range(AT_ONCE)))
    assert (len(await open_ids(stores)), len(await open_ids(stores, ended=True))) == (1, AT_ONCE)


async def test_of_edits_of_one_version_one_is_done(stores: Stores) -> None:
    """The others learn what became of the limit; who did not say which version edits what is open."""
    before = await set_one(stores)
    seen = await perform(
        stores, OWNER, operation_of(limits.show_limit), ShowLimit(tenant="acme", limit_id=before.limit_id)
    )

    async def once(units: int) -> Performed:
        ask = EditLimit(tenant="acme", limit_id=before.limit_id, limit=units)
        return await perform(stores, OWNER, operation_of(limits.edit_limit), ask, Terms(version=seen.version))

    done = await asyncio.gather(*map(once, range(10, 10 + AT_ONCE)), return_exceptions=True)
    refused = [each for each in done if isinstance(each, Refused)]
    (edited,) = [each for each in done if isinstance(each, Performed)]
    assert len(refused) == AT_ONCE - 1
    (change,) = refused[0].refusal.changes
    assert (change.before["limit_units"], change.after["limit_units"]) == (2, edited.answer.limit)
    now = ShowLimit(tenant="acme", limit_id=edited.answer.limit_id)
    assert (await perform(stores, OWNER, operation_of(limits.show_limit), now)).version == edited.version
    assert await open_ids(stores) == [edited.answer.limit_id]
    gone = EditLimit(tenant="acme", limit_id=before.limit_id, limit=1)
    with pytest.raises(Refused, match="there is no limit"):
        await answer_of(limits.edit_limit, stores, OWNER, gone)


async def test_an_edit_keeps_what_it_does_not_name_and_leaves_one_limit(stores: Stores) -> None:
    """Also where it is enforced from now on, or no longer, beside one that counted so already."""
    await create_user(stores.db, await acme(stores), "ann")
    ask = SetLimit(
        tenant="acme", scope=Scope.USER, of="ann", dimension=Dimension.REQUESTS, limit=10, burst=20
    )
    await answer_of(limits.set_limit, stores, OWNER, ask)
    shadowed = replace(ask, limit=5, mode=Mode.SHADOW)
    shadow = await answer_of(limits.set_limit, stores, OWNER, shadowed)
    edit = EditLimit(tenant="acme", limit_id=shadow.limit_id, mode=Mode.ENFORCE, burst=7)
    edited = await answer_of(limits.edit_limit, stores, OWNER, edit)
    assert (edited.of, edited.limit, edited.burst, edited.mode) == ("ann", 5, 7, Mode.ENFORCE)
    assert await open_ids(stores) == [edited.limit_id]
    cleared = EditLimit(tenant="acme", limit_id=edited.limit_id, burst=None)
    assert (await answer_of(limits.edit_limit, stores, OWNER, cleared)).burst is None


async def test_anothers_limit_is_unknown(stores: Stores) -> None:
    """To read, to edit and to end, and named exactly as one that never was."""
    theirs = (await set_one(stores, tenant="other")).limit_id
    for id in (theirs, "nothing"):
        for run, ask in (
            (limits.show_limit, ShowLimit(tenant="acme", limit_id=id)),
            (limits.edit_limit, EditLimit(tenant="acme", limit_id=id, limit=1)),
            (limits.end_limit, NameLimit(tenant="acme", limit_id=id)),
        ):
            with pytest.raises(Refused, match=f"there is no limit '{id}'") as refused:
                await answer_of(run, stores, OWNER, ask)
            assert (refused.value.refusal.field, refused.value.refusal.unknown) == ("limit_id", True)


async def test_dry_runs_leave_limits_as_they_are(stores: Stores) -> None:
    """They answer what would stand there."""
    limit = (await set_one(stores)).limit_id
    tenant = await acme(stores)
    before = await list_policies(stores.db, tenant, ended=True)
    edit = EditLimit(tenant="acme", limit_id=limit, limit=9)
    assert (await answer_of(limits.edit_limit, stores, OWNER, edit, DRY)).limit == 9
    ended = await answer_of(limits.end_limit, stores, OWNER, NameLimit(tenant="acme", limit_id=limit), DRY)
    assert ended.ended is not None
    assert await list_policies(stores.db, tenant, ended=True) == before


async def test_an_admin_sets_limits_below_the_operators(stores: Stores) -> None:
    """Their own stand beside the operators', which they neither raise, edit nor end; operators end both. Of
    another tenant they know nothing."""
    theirs, admin = await set_one(stores, 8), member_of(await acme(stores), Role.ADMIN)

    def own(units: int, tenant: str = "acme") -> SetLimit:
        return SetLimit(tenant=tenant, scope=Scope.TENANT, dimension=Dimension.CONCURRENCY, limit=units)

    refused = await refusal_of(limits.set_limit, stores, admin, own(9))
    assert (refused.field, "Parley's own limit here is 8" in refused.message) == ("limit", True)
    assert (await refusal_of(limits.set_limit, stores, admin, own(3, "other"))).unknown
    made = await answer_of(limits.set_limit, stores, admin, own(3))
    assert (made.by_tenant, theirs.by_tenant) == (True, False)
    assert await open_ids(stores) == [theirs.limit_id, made.limit_id]
    on_theirs = NameLimit(tenant="acme", limit_id=theirs.limit_id)
    edit = EditLimit(tenant="acme", limit_id=theirs.limit_id, limit=1)
    for run, ask in ((limits.end_limit, on_theirs), (limits.edit_limit, edit)):
        assert (await refusal_of(run, stores, admin, ask)).code == "forbidden"
    edited = await answer_of(
        limits.edit_limit, stores, admin, EditLimit(tenant="acme", limit_id=made.limit_id, limit=2)
    )
    assert (edited.limit, edited.by_tenant) == (2, True)
    await set_one(stores, 7)
    assert len(await open_ids(stores)) == 2
    await answer_of(limits.end_limit, stores, OWNER, NameLimit(tenant="acme", limit_id=edited.limit_id))
    assert len(await open_ids(stores)) == 1

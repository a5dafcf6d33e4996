"""Operations on what pools should be: they name the field that is wrong, and a stale edit changes nothing."""

from typing import Any

import msgspec
import pytest
from msgspec import UNSET

from billing.audit.log import list_rows
from billing.operations.desired_pools import (
    CreatePool,
    EditPool,
    ListPools,
    NamePool,
    ResizePool,
    create_pool,
    delete_pool,
    drain_pool,
    edit_pool,
    list_pools,
    resize_pool,
    show_pool,
)
from billing.operations.pool_facts import ObservedPool, PoolFacts, PoolStateName
from billing.operations.pools import list_pool_owners
from billing.tables.pools import FleetNode, PoolState
from billing.tables.tenants import PLATFORM, Tenant
from billing.unit_of_work.listing import ListQuestion
from billing.unit_of_work.perform import answer_of, perform
from billing.unit_of_work.units import Change, Stores, Terms
from core.clock import iso_time
from core.errors import Refused
from core.operations import operation_of
from tests.billing.operations.acting import OWNER, refusal_of
from tests.billing.operations.acting import stores as stores  # the fixture
from tests.support.models import add_model
from tests.support.redis import Redis

DRY = Terms(dry_run=True)


@pytest.fixture(autouse=True)
async def _models(stores: Stores) -> None:  # pyright: ignore[reportUnusedFunction]
    """Two versions of m, the newest v2, and n."""
    for made_ms, (name, version) in enumerate((("m", "v1"), ("m", "v2"), ("n", "v1"))):
        await add_model(stores.db, name, version, made_ms + 1)


async def created(stores: Stores, pool: str = "a", **fields: Any) -> PoolFacts:
    """A pool of m."""
    facts: dict[str, Any] = {"model": "m", **fields}
    ask = CreatePool(pool=pool, **facts)
    return await answer_of(create_pool, stores, OWNER, ask)


async def pools_now(stores: Stores) -> list[PoolFacts]:
    """All pools."""
    return (await answer_of(list_pools, stores, OWNER, ListPools())).items


async def test_a_tenants_pools_are_its_own_and_those_it_is_let_into(stores: Stores) -> None:
    """By its name; another's and shared ones are not listed."""
    await created(stores, "a", tenant="acme")
    await created(stores, "b", tenant="other", let_in=["acme"])
    await created(stores, "c", tenant="other", model="n")
    found = await answer_of(list_pools, stores, OWNER, ListPools(tenant="acme"))
    assert [each.pool for each in found.items] == ["a", "b"]
    assert (await refusal_of(list_pools, stores, OWNER, ListPools(tenant="nobody"))).field == "tenant"


async def test_a_pool_is_created_edited_and_listed(stores: Stores) -> None:
    """A dry run does none of it. The newest version is taken where none is named, and again when the model
    is edited; an edit of something else leaves it."""
    dry = CreatePool(pool="a", model="m")
    assert (await answer_of(create_pool, stores, OWNER, dry, DRY)).version == "v2"
    assert await pools_now(stores) == []
    made = await created(stores, labels=["zone=a", ""], workers=2)
    assert (made.version, made.labels, made.tenant, made.generation) == ("v2", {"zone": "a"}, None, 1)
    back = await answer_of(edit_pool, stores, OWNER, EditPool(pool="a", version="v1"))
    assert (back.version, back.next_version) == ("v2", "v1")
    assert (await answer_of(edit_pool, stores, OWNER, EditPool(pool="a", model="m", labels=[]))).labels == {}
    assert (await answer_of(resize_pool, stores, OWNER, ResizePool(pool="a", workers=5), DRY)).workers == 5
    (now,) = await pools_now(stores)
    assert (now.version, now.next_version, now.workers, now.generation) == ("v2", "v1", 2, 3)
    assert await answer_of(show_pool, stores, OWNER, NamePool(pool="a")) == now
    other = await answer_of(edit_pool, stores, OWNER, EditPool(pool="a", model="n"))
    assert (other.model, other.version, other.next_version) == ("n", "v1", None)


async def test_another_version_of_a_pool_is_made_ready_first(stores: Stores) -> None:
    """Until it is switched to the one in use serves, and an edit to that one gives the other up. A pool
    without workers has nothing to make ready: it can go back to the version before."""
    await created(stores, version="v1")
    edits = [EditPool(pool="a", version=version) for version in ("v2", "v2", "v1")]
    made = [await answer_of(edit_pool, stores, OWNER, each) for each in edits]
    assert [(each.version, each.next_version) for each in made] == [("v1", "v2"), ("v1", "v2"), ("v1", None)]
    assert [each.generation for each in made] == [2, 2, 3]
    await answer_of(edit_pool, stores, OWNER, edits[0])
    emptied = await answer_of(edit_pool, stores, OWNER, EditPool(pool="a", version="v1", workers=0))
    assert (emptied.version, emptied.next_version) == ("v1", None)
    served = await answer_of(edit_pool, stores, OWNER, edits[0])
    assert (served.version, served.next_version, served.earlier_version) == ("v2", None, "v1")


async def test_who_pays_is_named_and_warned_and_stands_in_the_history(stores: Stores) -> None:
    """With the project; whoever pays next has none but their own."""
    made = await created(stores, tenant="acme", project="default", let_in=["other"])
    assert (made.tenant, made.let_in, "no price for any GPU" in str(made.note)) == ("acme", ["other"], True)
    assert made.project
    moved = EditPool(pool="a", tenant="other", let_in=[])
    assert (await answer_of(edit_pool, stores, OWNER, moved)).project is None
    shared = await answer_of(edit_pool, stores, OWNER, EditPool(pool="a", tenant=None))
    assert shared.tenant is None
    page = await answer_of(list_pool_owners, stores, OWNER, ListQuestion())
    assert [each.tenant for each in page.items] == ["acme", "other", "(shared)"]


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"pool": "{a}"}, "pool"),
        ({"pool": "usage"}, "pool"),
        ({"pool": ".."}, "pool"),  # no path of the API has it
        ({"pool": "a/b"}, "pool"),
        ({"model": "none"}, "model"),
        ({"version": "v9"}, "version"),
        ({"labels": ["zone"]}, "labels"),
        ({"tenant": "nobody"}, "tenant"),
        ({"tenant": "acme", "project": "none"}, "project"),
        ({"project": "default"}, "project"),
        ({"let_in": ["other"]}, "let_in"),
        ({"workers": 5_000}, "workers"),
    ],
)
async def test_what_is_wrong_names_its_field(stores: Stores, fields: dict[str, Any], field: str) -> None:
    """Of a pool to create; nothing is created."""
    facts: dict[str, Any] = {"pool": "a", "model": "m", **fields}
    ask = CreatePool(**facts)
    assert (await refusal_of(create_pool, stores, OWNER, ask)).field == field
    assert await pools_now(stores) == []


async def test_a_stale_edit_is_told_what_changed(stores: Stores) -> None:
    """By its version, whichever of the operations it is."""
    await created(stores)
    seen = await perform(stores, OWNER, operation_of(show_pool), NamePool(pool="a"))
    await answer_of(resize_pool, stores, OWNER, ResizePool(pool="a", workers=3))
    stale = Terms(version=seen.version)
    for run, ask in (
        (edit_pool, EditPool(pool="a", workers=9)),
        (resize_pool, ResizePool(pool="a", workers=9)),
        (drain_pool, NamePool(pool="a")),
    ):
        with pytest.raises(Refused, match="changed since you read it") as refused:
            await answer_of(run, stores, OWNER, ask, stale)
        assert [each.action for each in refused.value.refusal.changes] == ["pool.edit"]
    assert [each.workers for each in await pools_now(stores)] == [3]


async def test_a_pool_is_deleted_once_it_is_drained_and_empty(stores: Stores, redis: Redis) -> None:
    """Not under live requests or workers; a drained one may be taken back instead."""
    name = NamePool(pool="a")
    assert (await refusal_of(delete_pool, stores, OWNER, name)).unknown
    await created(stores)
    assert "drain it first" in (await refusal_of(delete_pool, stores, OWNER, name)).message
    await answer_of(drain_pool, stores, OWNER, name)
    for key in ("deadlines", "workers"):
        await redis.zadd(f"{{p:a}}{key}", {"t:r": 9e15})
        assert "has" in (await refusal_of(delete_pool, stores, OWNER, name)).message
        await redis.delete(f"{{p:a}}{key}")
    active = await answer_of(edit_pool, stores, OWNER, EditPool(pool="a", state=PoolStateName.ACTIVE))
    assert active.state == "active"
    await answer_of(drain_pool, stores, OWNER, name)
    await answer_of(delete_pool, stores, OWNER, name)
    assert await pools_now(stores) == []


async def test_each_change_is_recorded(stores: Stores) -> None:
    """With who did it and why."""
    why = Terms(reason="order 7")
    for run, ask, action in (
        (create_pool, CreatePool(pool="a", model="m"), "pool.create"),
        (edit_pool, EditPool(pool="a", version="v1"), "pool.edit"),
        (resize_pool, ResizePool(pool="a", workers=7), "pool.edit"),
        (drain_pool, NamePool(pool="a"), "pool.drain"),
        (delete_pool, NamePool(pool="a"), "pool.delete"),
    ):
        await answer_of(run, stores, OWNER, ask, why)
        row = next(iter(await list_rows(stores.db, PLATFORM)))
        assert (row.action, row.author, row.target, "order 7" in row.after) == (action, "Ann", "a", True)


async def test_what_the_fleet_sees_is_beside_what_should_be(stores: Stores) -> None:
    """And an edit to more than its machines hold is refused at its field; less of too much is taken."""
    await created(stores, workers=9)
    seen = (await answer_of(show_pool, stores, OWNER, NamePool(pool="a"))).observed
    assert isinstance(seen, ObservedPool)
    assert (seen.ready, seen.as_desired, seen.why) == (None, None, "no fleet runs: `parley fleet`")
    now = stores.now_ms()
    said: dict[str, Any] = {"controller": "c", "observed_ms": now}
    counts: dict[str, Any] = {
        "generation": 1,
        "workers": 9,
        "running": 2,
        "elsewhere": 0,
        "ready": 1,
        "since_ms": now,
    }
    async with stores.db.transaction() as session:
        session.add(FleetNode(node="n", room=4, labels={}, **said))
        state: dict[str, Any] = {"as_desired": False, "step": "keep", "why": "no room", "node": "n"}
        session.add(PoolState(pool="a", **state, **counts, **said))
    (pool,) = await pools_now(stores)
    assert isinstance(pool.observed, ObservedPool)
    assert (pool.observed.ready, pool.observed.why, pool.observed.since) == (1, "no room", iso_time(now))
    for run, ask in (
        (resize_pool, ResizePool(pool="a", workers=10)),
        (edit_pool, EditPool(pool="a", labels=["zone=a"])),
        (create_pool, CreatePool(pool="b", model="n", workers=5)),
    ):
        refused = await refusal_of(run, stores, OWNER, ask)
        assert (refused.field, "set at most" in refused.message) == ("workers", True)
    smaller = await answer_of(resize_pool, stores, OWNER, ResizePool(pool="a", workers=8))
    assert (smaller.workers, smaller.observed) == (8, UNSET)


async def test_who_is_let_in_is_looked_up_once_and_so_many_at_most(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The look-up holds up whoever else writes: the same name again costs nothing, too many are refused
    before it."""
    with pytest.raises(msgspec.ValidationError, match="length <= 1000"):
        msgspec.convert({"pool": "a", "model": "m", "let_in": ["other"] * 1_001}, CreatePool)
    asked, true = list[str](), Change.tenant

    async def counting(change: Change, named: str) -> Tenant:
        asked.append(named)
        return await true(change, named)

    monkeypatch.setattr(Change, "tenant", counting)
    assert (await created(stores, tenant="acme", let_in=["other"] * 1_000)).let_in == ["other"]
    assert asked.count("other") == 1

"""Operations on what pools should be: model and version, workers, labels, who pays and who is let in."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType
from sqlmodel import col, select

from billing.booking.models import enabled_versions, same_model
from billing.dedicated_pools import pools
from billing.dedicated_pools.live import LIVE_KEYS, live_in
from billing.dedicated_pools.observed import check_fits
from billing.dedicated_pools.versions import (
    WantedVersion,
    of_another_model,
    tell_routes,
    version_changes,
)
from billing.operations.pool_facts import PoolFacts, PoolStateName, facts_of_pools, observed_facts
from billing.operations.pools import PoolName, price_note, project_id_of
from billing.operations.shared_fields import AUDIT, CONTROL
from billing.tables.pools import SHARED, PoolAdmission, PoolRow
from billing.tables.tenants import PLATFORM, Tenant
from billing.unit_of_work.actors import OperationActor
from billing.unit_of_work.listing import ListQuestion, listed_page
from billing.unit_of_work.units import Change, Look, Stores
from core.errors import bad_request, see, unknown
from core.operations import OPERATORS, STAFF, ListedPage, Uses, operation
from core.redis.client import RedisClient
from core.redis.pools import is_pool_name
from core.sql.database import Database

PRICES = "price_book price_version price price_tier gpu_price commitment"
SEEN = "pool_state fleet_node"
READS = f"tenant project model_version audit_state {SEEN} {PRICES}"
RESERVED = ("owners", "usage", "hours", ".", "..")  # of the API: /pools/usage is no pool
WRITES = f"pool pool_admission pool_owner {AUDIT}"

Workers = Annotated[int, Meta(description="How many workers it should have.")]
Labels = Annotated[list[str], Meta(description="NAME=VALUE that its nodes must have; given again for more.")]
LetIn = Annotated[
    list[str],
    Meta(
        max_length=pools.LET_IN_MAX, description="A tenant that is served there too, by its own price book."
    ),
]
Reserve = Annotated[int, Meta(description="KV tokens that lower classes leave free.")]


class NamePool(msgspec.Struct, frozen=True, kw_only=True):
    """Which pool."""

    pool: PoolName


class ListPools(ListQuestion, frozen=True, kw_only=True):
    """Which pools; without a tenant all of them."""

    tenant: Annotated[
        str | None, Meta(description="Only those that this tenant (name or id) pays for, or is let into.")
    ] = None


class CreatePool(NamePool, frozen=True, kw_only=True):
    """What the new pool should be. Without a tenant it is shared."""

    model: Annotated[str, Meta(description="The model that its workers run.")]
    version: Annotated[str | None, Meta(description="Of the model; by default the newest.")] = None
    workers: Workers = 1
    labels: Labels = []
    tenant: Annotated[str | None, Meta(description="Who pays for its GPUs, and is served there.")] = None
    project: Annotated[str | None, Meta(description="Whose cost center is charged (name or id).")] = None
    let_in: LetIn = []
    reserve_interactive_tokens: Reserve = 0
    reserve_standard_tokens: Reserve = 0


class EditPool(NamePool, frozen=True, kw_only=True):
    """What to change; what is not named stays as it is. `null` for the tenant: the pool is shared."""

    model: Annotated[str | UnsetType, Meta(description="The model that its workers run.")] = UNSET
    version: Annotated[
        str | UnsetType, Meta(description="Of the model; by default of another model the newest.")
    ] = UNSET
    workers: Workers | UnsetType = UNSET
    labels: Labels | UnsetType = UNSET
    tenant: Annotated[
        str | UnsetType | None, Meta(description="Who pays for its GPUs; none: it is shared.")
    ] = UNSET
    project: Annotated[
        str | UnsetType | None, Meta(description="Whose cost center is charged; none: nobody's.")
    ] = UNSET
    let_in: LetIn | UnsetType = UNSET
    reserve_interactive_tokens: Reserve | UnsetType = UNSET
    reserve_standard_tokens: Reserve | UnsetType = UNSET
    state: Annotated[
        PoolStateName | UnsetType, Meta(description="Whether it takes new requests; draining is `drain`.")
    ] = UNSET


class ResizePool(NamePool, frozen=True, kw_only=True):
    """How many workers."""

    workers: Workers


@operation("pools.list", "GET /pools", may=STAFF, uses=Uses(reads=f"pool pool_admission tenant {SEEN}"))
async def list_pools(look: Look, ask: ListPools) -> ListedPage[PoolFacts]:
    """List what all pools should be, by name, and what the fleet sees of each."""
    statement = select(PoolRow)
    if ask.tenant is not None:
        owner = (await look.tenant(ask.tenant)).tenant_id
        let_in = select(PoolAdmission.pool).where(col(PoolAdmission.tenant_id) == owner)
        statement = statement.where((col(PoolRow.tenant_id) == owner) | col(PoolRow.pool).in_(let_in))
    page = await listed_page(look, ask, statement, col(PoolRow.pool), lambda row: row)
    return ListedPage(await observed_facts(look, page.items), page.next)


@operation(
    "pools.show",
    "GET /pools/{pool}",
    may=STAFF,
    uses=Uses(reads=f"pool pool_admission tenant audit_state {SEEN}"),
)
async def show_pool(look: Look, ask: NamePool) -> PoolFacts:
    """Show what a pool should be, and what the fleet sees of it."""
    async with look.db.session() as session:
        row = await session.get(PoolRow, ask.pool)
    if row is None:
        raise pools.no_pool(ask.pool)
    await look.seen(PoolRow, PLATFORM, ask.pool)
    return (await observed_facts(look, [row]))[0]


@operation(
    "pools.create",
    "POST /pools",
    may=OPERATORS,
    audit="pool.create",
    reason=True,
    uses=Uses(reads=READS, writes=WRITES),
)
async def create_pool(change: Change, ask: CreatePool) -> PoolFacts:
    """Create a pool: which model its workers run, how many, on which nodes, and who pays. Without a tenant it
    is shared by all who have no pool of their own for the model. Requests for a model that no pool serves
    are refused."""
    if not is_pool_name(ask.pool) or ask.pool in RESERVED or "/" in ask.pool:
        raise bad_request(f"{ask.pool!r} is no name of a pool", field="pool")
    payer = None if ask.tenant is None else await change.tenant(ask.tenant)
    project_id = await _project(change, payer, ask.project)
    row = PoolRow(
        pool=ask.pool,
        model=ask.model,
        version=await _version(change, ask.model, ask.version or UNSET),
        workers=ask.workers,
        labels=_labels(ask.labels),
        tenant_id=SHARED if payer is None else payer.tenant_id,
        project_id=project_id,
        reserve_interactive_tokens=ask.reserve_interactive_tokens,
        reserve_standard_tokens=ask.reserve_standard_tokens,
        made_ms=change.now_ms(),
    )
    row = await pools.create_pool(change.db, row, await _tenants(change, ask.let_in))
    await _check_fits(change, row)
    return await _answer(change, row, payer)


@operation(
    "pools.edit",
    "PATCH /pools/{pool}",
    may=OPERATORS,
    audit="pool.edit",
    reason=True,
    edits=True,
    uses=Uses(reads=READS, writes=WRITES, keys=CONTROL),
)
async def edit_pool(change: Change, ask: EditPool) -> PoolFacts:
    """Change a pool while it runs. Another version is made ready first, and then switched to. Who pays does
    so from now on: its history keeps who paid before."""
    old = await _editing(change, ask.pool)
    before = (old.workers, old.labels)
    names = ("workers", "reserve_interactive_tokens", "reserve_standard_tokens", "state")
    changes: dict[str, Any] = {name: value for name in names if (value := getattr(ask, name)) is not UNSET}
    if ask.model is not UNSET or ask.version is not UNSET:
        model = old.model if ask.model is UNSET else ask.model
        changes["model"] = model
        if model != old.model or ask.version is not UNSET:
            version = await _version(change, model, ask.version)
            changes |= await _version_changes(change, old, changes, version)
    if ask.labels is not UNSET:
        changes["labels"] = _labels(ask.labels)
    payer = await _payer(change, old, ask.tenant)
    if ask.tenant is not UNSET:
        changes["tenant_id"] = SHARED if payer is None else payer.tenant_id
    if ask.project is not UNSET or changes.get("tenant_id", old.tenant_id) != old.tenant_id:
        changes["project_id"] = await _project(change, payer, ask.project or None)
    let_in = None if ask.let_in is UNSET else await _tenants(change, ask.let_in)
    served = old.version
    row = await pools.edit_pool(change.db, ask.pool, changes, let_in)
    await _check_fits(change, row, before)
    if row.version != served:
        change.after(_tell_routes)
    return await _answer(change, row, payer)


@operation(
    "pools.resize",
    "PUT /pools/{pool}/workers",
    may=OPERATORS,
    audit="pool.edit",
    reason=True,
    edits=True,
    uses=Uses(reads=f"tenant project audit_state {SEEN}", writes=WRITES),
)
async def resize_pool(change: Change, ask: ResizePool) -> PoolFacts:
    """Change how many workers a pool should have. Workers that are too many drain first."""
    before = (await _editing(change, ask.pool)).workers
    row = await pools.edit_pool(change.db, ask.pool, {"workers": ask.workers})
    await _check_fits(change, row, (before, row.labels))
    return await _answer(change, row, None)


@operation(
    "pools.drain",
    "POST /pools/{pool}/drain",
    may=OPERATORS,
    audit="pool.drain",
    reason=True,
    edits=True,
    uses=Uses(reads="tenant project audit_state", writes=WRITES),
)
async def drain_pool(change: Change, ask: NamePool) -> PoolFacts:
    """Let a pool take nothing new: what it has goes on. An edit to `active` takes it back."""
    await _editing(change, ask.pool)
    return await _answer(change, await pools.drain_pool(change.db, ask.pool), None)


async def live_before(stores: Stores, who: OperationActor, ask: NamePool) -> tuple[int, int]:
    """Open requests and workers of the pool."""
    return await live_in(stores.redis, ask.pool)


@operation(
    "pools.delete",
    "DELETE /pools/{pool}",
    may=OPERATORS,
    audit="pool.delete",
    reason=True,
    edits=True,
    before=live_before,
    uses=Uses(reads="tenant project audit_state", writes=WRITES, keys=LIVE_KEYS),
)
async def delete_pool(change: Change, ask: NamePool) -> PoolFacts:
    """Delete a drained pool without requests and workers. Its history stays."""
    facts = (await facts_of_pools(change, [await _editing(change, ask.pool)]))[0]
    await pools.delete_pool(change.db, ask.pool)
    requests, workers = change.prepared
    if requests or workers:
        told = f"the pool {ask.pool!r} has {requests:,} requests and {workers:,} workers: wait, or move them"
        raise bad_request(told, field="pool", see=see("workers.list", pool=ask.pool))
    return facts


async def _editing(change: Change, pool: str) -> PoolRow:
    row = await change.editing(PoolRow, PLATFORM, pool)
    if row is None:
        raise pools.no_pool(pool)
    return row


async def _check_fits(change: Change, row: PoolRow, before: tuple[int, Mapping[str, str]] = (0, {})) -> None:
    """Raise Refused where more is asked for, than before, than the fleet's machines hold."""
    if row.workers > before[0] or row.labels != before[1]:
        async with change.db.session() as session:
            await check_fits(session, row, change.now_ms())


async def _version_changes(
    change: Change, old: PoolRow, changes: Mapping[str, Any], version: str
) -> dict[str, Any]:
    """Columns of a pool that is to run this version. What needs no making ready is in use at once: of another
    model, in a pool without workers, or where the workers that run would go on as they are."""
    if changes["model"] != old.model:
        return of_another_model(version)
    if version == old.next_version:
        return {}
    alone = changes.get("workers", old.workers) == 0
    at_once = alone or await same_model(change.db, old.model, (old.version, version))
    return version_changes(old, WantedVersion(version, at_once=at_once), change.now_ms())


async def _tell_routes(_: Database, redis: RedisClient) -> None:
    await tell_routes(redis)


async def _version(change: Change, model: str, named: str | UnsetType) -> str:
    """A version of the model that the installation has. Raises Refused, with the field."""
    known = await enabled_versions(change.db, model)
    if not known:
        raise unknown(f"there is no model {model!r}", field="model")
    if named is not UNSET and named not in known:
        told = f"{model} has no version {named!r}, but {', '.join(known)}"
        raise unknown(told, field="version")
    return known[-1] if named is UNSET else named


def _labels(given: Sequence[str]) -> dict[str, str]:
    """Labels of NAME=VALUE; an empty text is none. Raises Refused. Pure."""
    pairs = [each.partition("=") for each in given if each]
    if any(not (name and found and value) for name, found, value in pairs):
        raise bad_request("a label is NAME=VALUE, like zone=a", field="labels")
    return {name: value for name, _, value in pairs}


async def _payer(change: Change, old: PoolRow, named: str | UnsetType | None) -> Tenant | None:
    """The tenant that pays after the edit; None: the pool is shared."""
    if named is UNSET:
        named = old.tenant_id or None
    return None if named is None else await change.tenant(named)


async def _project(change: Change, payer: Tenant | None, named: str | UnsetType | None) -> str:
    if not named:
        return ""
    if payer is None:
        raise bad_request("a project pays for a tenant's pool: name the tenant", field="project")
    return await project_id_of(change, payer, named)


async def _tenants(change: Change, named: Sequence[str]) -> list[str]:
    """Ids of tenants. Raises Refused where there is no such tenant."""
    return sorted({(await change.tenant(each)).tenant_id for each in set(named) if each})


async def _answer(change: Change, row: PoolRow, payer: Tenant | None) -> PoolFacts:
    facts = (await facts_of_pools(change, [row]))[0]
    return facts if payer is None else msgspec.structs.replace(facts, note=await price_note(change, payer))


OPERATIONS = (list_pools, show_pool, create_pool, edit_pool, resize_pool, drain_pool, delete_pool)

"""Operations that change the version in use of a model's pools: to another one, or back to the one before."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta
from sqlmodel import col, select
from sqlmodel.ext.asyncio.session import AsyncSession

from billing.api import PLATFORM, Change, duration_ms, lock_settings
from billing.pools import ACTIVE, PoolRow, WantedVersion, tell_routes, use_version
from core.access.processes import CONTROL
from core.clock import iso_time
from core.errors import bad_request, see, unknown
from core.operations import OPERATORS, Uses, operation
from core.redis.client import RedisClient
from core.sql.database import Database
from engine.models.differences import differences
from engine.models.tables import ModelVersion
from engine.node.model_memory import lacking, machine_memory, weights_bytes
from engine.operations.model_facts import ANSWER, VersionName, checks_of
from engine.operations.model_room import NO_FLEET, FleetRoom, read_room, replaces_one_by_one, why_gap
from engine.operations.models import NameModel, no_version, versions_of
from engine.operations.pool_questions import AUDIT

READS = "model_version pool_state fleet_node"
WRITES = f"pool {AUDIT}"

PoolNamed = Annotated[str | None, Meta(description="Only this pool; by default all that serve the model.")]
Gap = Annotated[
    bool, Meta(description="Where there is no room for workers of both: nobody may serve during the switch.")
]
CutOff = Annotated[
    str | None,
    Meta(
        description="End what still runs on the version before so long after the switch, as 30m; by default "
        "it may run to its end."
    ),
]


class ChangeVersion(NameModel, frozen=True, kw_only=True):
    """In which pools, and what may be done to get there."""

    pool: PoolNamed = None
    cut_off: CutOff = None
    accept_gap: Gap = False


class UseVersion(ChangeVersion, frozen=True, kw_only=True):
    """Which version."""

    version: VersionName


class PoolVersion(msgspec.Struct, frozen=True, kw_only=True):
    """What becomes of a pool. `version`: what new requests get now; `next`: what they get once workers of it
    are ready, null: there is nothing to wait for; `before`: what they got when this was asked; `differs`: in
    what the new version is another than `before`; `note`: what else to know."""

    pool: str
    before: str
    version: str
    next: str | None
    workers: int
    differs: list[str]
    cut_off_seconds: int | None
    accept_gap: bool
    note: str


class VersionsChanged(msgspec.Struct, frozen=True, kw_only=True):
    """What becomes of the pools of a model."""

    model: str
    pools: list[PoolVersion]


@operation(
    "models.use",
    "POST /models/{model}/use",
    may=OPERATORS,
    audit="pool.use",
    reason=True,
    uses=Uses(reads=READS, writes=WRITES, keys=(CONTROL,)),
)
async def use(change: Change, ask: UseVersion) -> VersionsChanged:
    """Use another version of a model: workers of it are made ready, then new requests go there. What runs
    goes on with its version; who wants another version meanwhile replaces it."""
    async with change.db.transaction() as session:
        await lock_settings(session, PLATFORM)
        rows = await versions_of(session, ask.model)
        pools = await _pools(session, ask)
        room = await read_room(session, change.now_ms())
    made = [await _used(change, ask, row, ask.version, rows, room) for row in pools]
    return VersionsChanged(model=ask.model, pools=made)


@operation(
    "models.rollback",
    "POST /models/{model}/rollback",
    may=OPERATORS,
    audit="pool.use",
    reason=True,
    uses=Uses(reads=READS, writes=WRITES, keys=(CONTROL,)),
)
async def rollback(change: Change, ask: ChangeVersion) -> VersionsChanged:
    """Go back to the version that each pool of a model used before, as `models use` does. A switch that is
    under way is given up instead: nobody was served by it yet."""
    async with change.db.transaction() as session:
        await lock_settings(session, PLATFORM)
        rows = await versions_of(session, ask.model)
        pools = await _pools(session, ask)
        room = await read_room(session, change.now_ms())
    able = [row for row in pools if row.next_version or row.earlier_version]
    if not able:
        told = f"{', '.join(row.pool for row in pools)} had no other version of {ask.model} before"
        raise bad_request(told, field="pool", see=see("models.list"))
    made = list[PoolVersion]()
    for row in able:
        version = row.version if row.next_version else row.earlier_version
        made.append(await _used(change, ask, row, version, rows, room))
    return VersionsChanged(model=ask.model, pools=made)


async def _pools(session: AsyncSession, ask: ChangeVersion) -> Sequence[PoolRow]:
    """The pools that are meant. Raises Refused where there is none."""
    statement = select(PoolRow).where(col(PoolRow.model) == ask.model).order_by(col(PoolRow.pool))
    rows = (await session.exec(statement)).all()
    if ask.pool is not None:
        found = [row for row in rows if row.pool == ask.pool]
        if not found:
            raise unknown(f"no pool {ask.pool!r} serves {ask.model}", field="pool", see=see("pools.list"))
        return found
    active = [row for row in rows if row.state == ACTIVE]
    if not active:
        create = see("pools.create")
        raise bad_request(
            f"no pool serves {ask.model}: there is nothing to change", field="model", see=create
        )
    return active


async def _used(
    change: Change,
    ask: ChangeVersion,
    row: PoolRow,
    version: str,
    rows: Sequence[ModelVersion],
    room: FleetRoom,
) -> PoolVersion:
    """Let a pool use a version. Raises Refused where it cannot."""
    before, new = row.version, _checked(ask.model, version, rows)
    old = next((each for each in rows if each.version == before), None)
    at_once = row.workers == 0 or (old is not None and old.fingerprint == new.fingerprint)
    if version != before and not at_once:
        _check_memory(change, new, room)
        if not ask.accept_gap and not replaces_one_by_one(row, room):
            raise bad_request(why_gap(row, version, _start_seconds(new)), field="accept_gap")
    wanted = WantedVersion(version, _cut_off_ms(ask.cut_off), ask.accept_gap, at_once)
    replaced = row.next_version
    made = await use_version(change.db, row.pool, wanted)
    if made.version != before:
        change.after(_tell_routes)
    return PoolVersion(
        pool=row.pool,
        before=before,
        version=made.version,
        next=made.next_version or None,
        workers=made.workers,
        differs=[] if old is None else differences(old.manifest, new.manifest),
        cut_off_seconds=wanted.cut_off_after_ms // 1000 or None,
        accept_gap=made.accept_gap,
        note=_note(made, before, replaced, room),
    )


def _checked(model: str, version: str, rows: Sequence[ModelVersion]) -> ModelVersion:
    """The version's row. Raises Refused where there is none, or it was removed."""
    row = next((each for each in rows if each.version == version), None)
    if row is None:
        raise no_version(model, version, [each.version for each in rows if each.removed_ms is None])
    if row.removed_ms is not None:
        at, source = iso_time(row.removed_ms), row.manifest.get("source", "its source")
        told = f"{model} {version} was removed at {at}: add it again (`parley models add {source}`)"
        raise bad_request(told, field="version", see=see("models.list"))
    return row


def _check_memory(change: Change, row: ModelVersion, room: FleetRoom) -> None:
    """Raise Refused where this machine is the fleet's, and could not hold a worker of the version."""
    if any(node.node != change.settings.node for node in room.nodes):
        return
    size = weights_bytes(row.manifest, Path(row.folder))
    why = "" if size is None else lacking(size, change.settings, machine_memory())
    if why:
        raise bad_request(f"{row.name} {row.version} does not fit: {why}", field="version")


def _start_seconds(row: ModelVersion) -> float | None:
    """How long a worker of a version takes to its first answer, by its check; None: nobody tried."""
    return next((each.seconds for each in checks_of(row) if each.name == ANSWER), None)


def _cut_off_ms(text: str | None) -> int:
    if text is None:
        return 0
    ms = duration_ms(text)
    if not ms:
        raise bad_request(f"{text!r} is no time: as 30m, 2h", field="cut_off")
    return ms


def _note(made: PoolRow, before: str, replaced: str, room: FleetRoom) -> str:
    """What else is to know of a pool's change. Pure."""
    told = list[str]()
    if replaced and replaced != made.next_version and made.version == before:
        told.append(f"{replaced}, which was under way, is given up")
    if not made.next_version and made.version == before and not replaced:
        told.append("it is in use already")
    if made.next_version and not room.runs:
        told.append(NO_FLEET)
    return "; ".join(told)


async def _tell_routes(_: Database, redis: RedisClient) -> None:
    await tell_routes(redis)


OPERATIONS = (use, rollback)

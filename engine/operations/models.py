"""Operations on versions of models: listing and showing them, their answers' length, removing one."""

from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta
from sqlmodel import col, select
from sqlmodel.ext.asyncio.session import AsyncSession

from billing.api import Change, ListQuestion, Look, OperationActor, Stores, listed_page
from billing.pools import PoolRow, read_sights
from core.access.processes import POOLS
from core.access.processes import REQUESTS as REQUEST_KEYS
from core.errors import Refused, bad_request, see, unknown
from core.operations import OPERATORS, STAFF, ListedPage, Uses, operation
from core.redis.client import RedisClient
from core.redis.pools import announced_pools
from core.sql.database import Database
from engine.models.registry import limit_answers, remove_version
from engine.models.removal import remove_files
from engine.models.tables import ModelVersion
from engine.node.model_memory import weights_bytes
from engine.operations.model_facts import (
    ModelDetail,
    ModelFacts,
    ModelName,
    VersionName,
    detail_of,
    facts_of,
)
from engine.operations.pinned_requests import pinning
from engine.operations.pool_questions import AUDIT
from engine.queue.client import PoolQueue

READS = "model_version pool pool_state fleet_node"
PIN_KEYS = (*REQUEST_KEYS, "P:deadlines", "P:moving", POOLS)


class ListModels(ListQuestion, frozen=True, kw_only=True):
    """Which versions; without a model those of all."""

    model: Annotated[str | None, Meta(description="Only versions of this model.")] = None
    removed: Annotated[bool, Meta(description="Also those that were removed.")] = False


class NameModel(msgspec.Struct, frozen=True, kw_only=True):
    """Which model."""

    model: ModelName


class ShowModel(NameModel, frozen=True, kw_only=True):
    """Which version; by default the one in use, else the newest."""

    version: Annotated[str | None, Meta(description="By default the one in use, else the newest.")] = None


class NameVersion(NameModel, frozen=True, kw_only=True):
    """Which version of a model."""

    version: VersionName


class RemoveVersion(NameVersion, frozen=True, kw_only=True):
    """Which version, and what may be given up for it."""

    give_up_rollback: Annotated[
        bool, Meta(description="Also one that a pool could go back to (`models rollback`).")
    ] = False


class LimitAnswers(NameModel, frozen=True, kw_only=True):
    """How long an answer of a model is whose sender does not say."""

    tokens: Annotated[
        Annotated[int, Meta(ge=1)] | None, Meta(description="`none`: what PARLEY_ANSWER_TOKENS says.")
    ]


class AnswersLimited(msgspec.Struct, frozen=True, kw_only=True):
    """The length of a model's answers whose sender does not say; null: what PARLEY_ANSWER_TOKENS says."""

    model: str
    tokens: int | None
    before: int | None


@operation("models.list", "GET /models", may=STAFF, uses=Uses(reads=READS))
async def list_versions_of(look: Look, ask: ListModels) -> ListedPage[ModelFacts]:
    """List versions of models, by name, oldest first: what each is to the pools, and whether an engine has
    answered with it."""
    statement = select(ModelVersion)
    if ask.model is not None:
        statement = statement.where(col(ModelVersion.name) == ask.model)
    if not ask.removed:
        statement = statement.where(col(ModelVersion.removed_ms).is_(None))
    key = (col(ModelVersion.name), col(ModelVersion.created_ms), col(ModelVersion.version))
    page: ListedPage[ModelVersion] = await listed_page(look, ask, statement, key, lambda row: row)
    async with look.db.session() as session:
        return ListedPage(await _facts(session, page.items, look.now_ms()), page.next)


@operation("models.show", "GET /models/{model}", may=STAFF, uses=Uses(reads=READS))
async def show_version(look: Look, ask: ShowModel) -> ModelDetail:
    """Show a version of a model: where it serves, what it passed when it was added, its files."""
    async with look.db.session() as session:
        rows = await versions_of(session, ask.model)
        facts = await _facts(session, rows, look.now_ms())
        named = [at for at, row in enumerate(rows) if row.version == ask.version]
        served = [at for at, each in enumerate(facts) if each.pools]
        if ask.version is not None and not named:
            raise no_version(ask.model, ask.version, [row.version for row in rows])
        at = (named if ask.version is not None else served or [len(rows) - 1])[-1]
    return detail_of(facts[at], rows[at])


@operation(
    "models.answers",
    "PUT /models/{model}/answers",
    may=OPERATORS,
    audit="model.answers",
    reason=True,
    uses=Uses(writes=f"model_version {AUDIT}"),
)
async def limit_answers_of(change: Change, ask: LimitAnswers) -> AnswersLimited:
    """Set how long an answer of a model is whose sender does not say, within two seconds."""
    async with change.db.session() as session:
        await versions_of(session, ask.model)
    before = await limit_answers(change.db, ask.model, ask.tokens)
    return AnswersLimited(model=ask.model, tokens=ask.tokens, before=before)


async def pins_before(stores: Stores, who: OperationActor, ask: RemoveVersion) -> dict[str, int]:
    """How many open requests pin the version, by pool; none where the pool runs the same anyway."""
    async with stores.db.session() as session:
        row = await session.get(ModelVersion, (ask.model, ask.version))
        if row is None:
            return {}
        alike = select(ModelVersion).where(col(ModelVersion.fingerprint) == row.fingerprint)
        same = {(each.name, each.version) for each in await session.exec(alike)} - {(row.name, row.version)}
        rows = (await session.exec(select(PoolRow))).all()
    served = {each.pool for each in rows if (each.model, each.version) in same}
    names = {each.pool for each in rows} | await announced_pools(stores.redis, stores.settings)
    counts = {
        name: await pinning(PoolQueue(stores.redis, name, stores.settings), row.fingerprint)
        for name in sorted(names - served)
    }
    return {name: count for name, count in counts.items() if count}


@operation(
    "models.remove",
    "DELETE /models/{model}/versions/{version}",
    may=OPERATORS,
    audit="model.remove",
    reason=True,
    before=pins_before,
    uses=Uses(reads=READS, writes=f"model_version {AUDIT}", keys=PIN_KEYS),
)
async def remove(change: Change, ask: RemoveVersion) -> ModelFacts:
    """Remove a version that no pool uses and no request needs: it can be named no more, and its files below
    this machine's PARLEY_HOME are deleted. Its books and audit rows stay."""
    async with change.db.session() as session:
        rows = {row.version: row for row in await versions_of(session, ask.model)}
        if ask.version not in rows:
            raise no_version(ask.model, ask.version, list(rows))
        (facts,) = await _facts(session, [rows[ask.version]], change.now_ms())
    check_unused(facts, change.prepared or {}, ask.give_up_rollback)
    row = await remove_version(change.db, ask.model, ask.version, change.now_ms())
    change.after(_delete_files, change.settings.home, Path(row.folder))
    async with change.db.session() as session:
        return (await _facts(session, [row], change.now_ms()))[0]


async def _delete_files(_: Database, __: RedisClient, home: Path, folder: Path) -> None:
    remove_files(home, folder)


def check_unused(facts: ModelFacts, pinned: dict[str, int], give_up_rollback: bool) -> None:
    """Raise Refused where a version is removed already, used, or needed by requests, with all of it. Pure."""
    named = f"{facts.name} {facts.version}"
    if facts.removed is not None:
        raise bad_request(f"{named} was removed at {facts.removed}", field="version")
    why = list[str]()
    if facts.pools:
        why.append(f"{', '.join(facts.pools)} {_verb(facts.pools, 'use')} it")
    if facts.next_in:
        why.append(f"{', '.join(facts.next_in)} {_verb(facts.next_in, 'switch')} to it")
    for pool, count in pinned.items():
        why.append(f"{count:,} {'request' if count == 1 else 'requests'} of {pool} began on it")
    if facts.earlier_in and not give_up_rollback:
        back = f"{', '.join(facts.earlier_in)} could go back to it"
        why.append(f"{back} (--give-up-rollback removes it all the same)")
    if why:
        raise bad_request(f"{named} stays: {'; '.join(why)}", field="version", see=see("pools.list"))


def _verb(pools: list[str], verb: str) -> str:
    ending = "es" if verb.endswith("ch") else "s"
    return verb + (ending if len(pools) == 1 else "")


async def versions_of(session: AsyncSession, model: str) -> list[ModelVersion]:
    """All versions of a model, oldest first. Raises Refused where there is none."""
    statement = select(ModelVersion).where(col(ModelVersion.name) == model)
    order = (col(ModelVersion.created_ms), col(ModelVersion.version))
    if rows := list((await session.exec(statement.order_by(*order))).all()):
        return rows
    raise unknown(f"there is no model {model!r}", field="model", see=see("models.list"))


def no_version(model: str, version: str, known: list[str]) -> Refused:
    """The refusal of a version that a model does not have."""
    told = f"{model} has no version {version!r}, but {', '.join(known)}"
    return unknown(told, field="version", see=see("models.list"))


async def _facts(session: AsyncSession, rows: list[ModelVersion], now_ms: int) -> list[ModelFacts]:
    pools = (await session.exec(select(PoolRow).order_by(col(PoolRow.pool)))).all()
    sights = await read_sights(session, pools, now_ms)
    return [facts_of(row, pools, sights, weights_bytes(row.manifest, Path(row.folder))) for row in rows]


OPERATIONS = (list_versions_of, show_version, limit_answers_of, remove)

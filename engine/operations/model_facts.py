"""What operations answer of versions of models: where each serves, and what it passed when it was added."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from billing.pools import DRAINING, PoolRow, PoolSight, VersionSight
from core.clock import iso_time
from engine.models.registry import dtype_of
from engine.models.tables import ModelVersion

ANSWER = "answer"  # name of the check that a few tokens of a real engine are

ModelName = Annotated[str, Meta(description="The model's name.")]
VersionName = Annotated[str, Meta(description="The version, as `parley models list` names it.")]


class VersionState(StrEnum):
    """What a version is to the pools; of several the first here. PREPARED: nothing, it was added."""

    IN_USE = "in_use"
    NEXT = "next"
    EARLIER = "earlier"
    PREPARED = "prepared"
    REMOVED = "removed"


class PassedCheck(msgspec.Struct, frozen=True, kw_only=True):
    """A check that a version passed when it was added: what was checked, what was seen, how long it took."""

    name: str
    seen: str
    seconds: float
    node: str
    at: str | None


class SeenInPool(msgspec.Struct, frozen=True, kw_only=True):
    """What the fleet sees of a version in a pool. `workers`: that run, start or end; `ready`: of these, those
    that serve; `desired`: how many workers the pool should have; `requests`: that began on it and need it,
    where another one is in use; `until`: when the last of them ends at the latest, null: none needs it;
    `why`: what the pool waits for, where it is not as it should be."""

    pool: str
    workers: int
    ready: int
    desired: int
    requests: int
    until: str | None
    why: str


class ModelFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A version of a model. `pools` use it, of which those that are `draining` take no new requests;
    `next_in` will once workers are ready, `earlier_in` can go back to it. `dtype`: number format that it was
    added with, null: an older Parley added it, which did not ask. `answer_tokens`: length of an answer whose
    sender gives none, null: what PARLEY_ANSWER_TOKENS says; `size_bytes` of its weights, null: not known;
    `proved`: whether a real engine answered with it; `seen`: where the fleet sees workers of it or requests
    that need it, and each pool that uses or wants it; without a fleet empty."""

    name: str
    version: str
    state: VersionState
    fingerprint: str
    pools: list[str]
    draining: list[str]
    next_in: list[str]
    earlier_in: list[str]
    max_model_len: int
    dtype: str | None
    answer_tokens: int | None
    size_bytes: int | None
    added: str | None
    removed: str | None
    proved: str
    folder: str
    seen: list[SeenInPool]


class ModelDetail(ModelFacts, frozen=True, kw_only=True):
    """A version with its source and the checks that it passed. `files`: those that its fingerprint covers, by
    name, with sha-256."""

    source: str
    checks: list[PassedCheck]
    files: dict[str, str]


def facts_of(
    row: ModelVersion, pools: Sequence[PoolRow], sights: Mapping[str, PoolSight], size_bytes: int | None
) -> ModelFacts:
    """A version as pools have it. `sights`: what the fleet sees, by pool. Pure."""
    same = [pool for pool in pools if pool.model == row.name]
    used = [pool.pool for pool in same if pool.version == row.version]
    wanted = [pool.pool for pool in same if pool.next_version == row.version]
    before = [pool.pool for pool in same if pool.earlier_version == row.version]
    return ModelFacts(
        name=row.name,
        version=row.version,
        state=state_of(row, used, wanted, before),
        fingerprint=row.fingerprint,
        pools=used,
        draining=[pool.pool for pool in same if pool.pool in used and pool.state == DRAINING],
        next_in=wanted,
        earlier_in=before,
        max_model_len=row.max_model_len,
        dtype=dtype_of(row.manifest),
        answer_tokens=row.answer_tokens,
        size_bytes=size_bytes,
        added=iso_time(row.created_ms),
        removed=iso_time(row.removed_ms) if row.removed_ms is not None else None,
        proved=proved(row, [pool for pool in used if pool in sights and sights[pool].ready]),
        folder=row.folder,
        seen=[each for pool in same for each in _seen(pool, row.version, sights.get(pool.pool))],
    )


def _seen(pool: PoolRow, version: str, sight: PoolSight | None) -> list[SeenInPool]:
    """What is seen of a version in a pool; empty: nothing that matters, or nobody looked. Pure."""
    if sight is None or not sight.versions:
        return []
    none = VersionSight(version, 0, 0, 0, 0)
    found = next((each for each in sight.versions if each.version == version), none)
    if found is none and version not in (pool.version, pool.next_version):
        return []
    seen = SeenInPool(
        pool=pool.pool,
        workers=found.workers,
        ready=found.ready,
        desired=pool.workers,
        requests=found.requests,
        until=iso_time(found.until_ms) if found.until_ms else None,
        why=sight.why,
    )
    return [seen]


def detail_of(facts: ModelFacts, row: ModelVersion) -> ModelDetail:
    """The same with what stands in its manifest. Pure."""
    return ModelDetail(
        **{name: getattr(facts, name) for name in facts.__struct_fields__},
        source=str(row.manifest.get("source", "")),
        checks=checks_of(row),
        files=dict(row.manifest.get("sha256", {})),
    )


def checks_of(row: ModelVersion) -> list[PassedCheck]:
    """The checks that a version passed, in order. Pure."""
    return [
        PassedCheck(
            name=each["name"],
            seen=each["seen"],
            seconds=each["seconds"],
            node=each["node"],
            at=iso_time(each["at_ms"]),
        )
        for each in row.checks
    ]


def state_of(
    row: ModelVersion, used: Sequence[Any], wanted: Sequence[Any], before: Sequence[Any]
) -> VersionState:
    """What a version is to the pools that use, want or had it. Pure."""
    if row.removed_ms is not None:
        return VersionState.REMOVED
    by_rank = ((used, VersionState.IN_USE), (wanted, VersionState.NEXT), (before, VersionState.EARLIER))
    return next((state for pools, state in by_rank if pools), VersionState.PREPARED)


def proved(row: ModelVersion, serving: Sequence[str]) -> str:
    """Whether a real engine has answered with a version. `serving`: pools where workers of it are. Pure."""
    answers = [each for each in checks_of(row) if each.name == ANSWER]
    if answers:
        return f"by an answer on {answers[-1].node} at {answers[-1].at}"
    if serving:
        return f"by workers that serve in {', '.join(serving)}"
    return "not yet: the first worker proves it"

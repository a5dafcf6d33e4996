"""Storage of findings of noisy neighbours: opening, updating, closing, and deciding on them.

A throttle is part of a finding (billing/tenants/pool_terms.py applies it); its begin and end are in the audit
log of its tenant.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlmodel import col, select
from sqlmodel.ext.asyncio.session import AsyncSession

from billing.audit.log import record
from billing.budgets.thresholds import message
from billing.noisy.detect import FindingState, KnownFindings, Noise, Rules, own_pool, throttle_slots
from billing.tables.noisy import NoisyFinding
from billing.tables.tenants import PLATFORM
from billing.tables.wallets import AlertTarget
from billing.tenants.pool_terms import TERMS_CHANGED
from billing.tenants.tenancy import publish_news
from core.actor import Author
from core.clock import now_ms
from core.errors import bad_request
from core.ids import uuid7
from core.redis.client import RedisClient
from core.sql.database import Database, insert_rows

WATCH = Author("noisy neighbours", "process")
LISTED_MAX = 1_000


@dataclass(frozen=True)
class FindingHistory:
    """Knowledge of a tenant in a pool; `finding` is the open one."""

    known: KnownFindings = field(default_factory=KnownFindings)
    finding: NoisyFinding | None = None


def is_throttling(finding: NoisyFinding) -> bool:
    """True while the finding's throttle holds."""
    return finding.throttled_ms is not None and finding.lifted_ms is None


async def find_histories(db: Database, rules: Rules, now: int) -> Mapping[tuple[str, str], FindingHistory]:
    """Histories by tenant and pool, from the findings that still matter."""
    since = now - max(rules.relapse_ms, rules.dismissed_ms)
    statement = select(NoisyFinding).where(
        col(NoisyFinding.closed_ms).is_(None) | (col(NoisyFinding.closed_ms) >= since)
    )
    by_place: dict[tuple[str, str], list[NoisyFinding]] = {}
    async with db.session() as session:
        for finding in (await session.exec(statement.order_by(col(NoisyFinding.opened_ms)))).all():
            by_place.setdefault((finding.tenant_id, finding.pool), []).append(finding)
    return {place: history_of(findings, rules, now) for place, findings in by_place.items()}


def history_of(findings: Sequence[NoisyFinding], rules: Rules, now: int) -> FindingHistory:
    """Sum up a tenant's findings in a pool, given oldest first. Pure."""
    still = next((finding for finding in findings if finding.closed_ms is None), None)
    dismissed = [finding.closed_ms for finding in findings if finding.state == FindingState.DISMISSED]
    calm = [
        finding
        for finding in findings
        if finding.state == FindingState.CALM and now - (finding.closed_ms or 0) < rules.relapse_ms
    ]
    throttle = still if still is not None and is_throttling(still) else None
    known = KnownFindings(
        open_since_ms=still.opened_ms if still else None,
        baseline_wait_ms=still.baseline_wait_ms if still else None,
        throttled_since_ms=throttle.throttled_ms if throttle else None,
        slots_max=throttle.slots_max if throttle else None,
        relapses=len(calm),
        dismissed_ms=dismissed[-1] if dismissed else None,
    )
    return FindingHistory(known, still)


@dataclass(frozen=True)
class ThrottleBounds:
    """Pool of an observation, and the facts that bound a throttle there."""

    pool: str
    reserve_tokens: int
    worker_slots: int


async def open_finding(
    db: Database, place: ThrottleBounds, noise: Noise, throttle: bool, now: int
) -> NoisyFinding:
    """Store an observation, with the throttle (in force where `throttle`) and the proposal of a dedicated
    pool. Raises IntegrityError where another finding is open."""
    finding = NoisyFinding(
        tenant_id=noise.tenant,
        id=uuid7(now),
        pool=place.pool,
        opened_ms=now,
        throttled_ms=now if throttle else None,
        slots_max=throttle_slots(noise, place.reserve_tokens),
        **_seen(noise, place, now),
    )
    async with db.transaction() as session:
        session.add(finding)
        await _alert(session, finding, "noisy.throttled" if throttle else "noisy.found", now)
        if throttle:
            await _record(session, finding, "tenant.throttle", WATCH)
    return finding


async def update_finding(
    db: Database, finding: NoisyFinding, place: ThrottleBounds, noise: Noise, now: int
) -> None:
    """Update shares and waits to the newest, and the proposal to the greatest."""
    async with db.transaction() as session:
        row = await _open_row(session, finding)
        if row is None:
            return
        facts = _seen(noise, place, now)
        old, new = row.proposal, facts.pop("proposal")
        facts.pop("baseline_wait_ms")
        for name, value in facts.items():
            setattr(row, name, value)
        row.proposal = old if old.get("slots", 0) >= new["slots"] else new


async def close_finding(db: Database, finding: NoisyFinding, now: int, reason: str) -> None:
    """Close the finding of a calm tenant, and lift its throttle."""
    async with db.transaction() as session:
        row = await _open_row(session, finding)
        if row is not None:
            row.state, row.closed_ms, row.updated_ms, row.reason = FindingState.CALM.value, now, now, reason
            await _lift(session, row, now, WATCH)


async def lift_throttle(db: Database, finding: NoisyFinding, now: int) -> None:
    """Lift the throttle; the finding stays open."""
    async with db.transaction() as session:
        row = await _open_row(session, finding)
        if row is not None:
            row.updated_ms = now
            await _lift(session, row, now, WATCH)


async def list_findings(db: Database, with_closed: bool = False) -> Sequence[NoisyFinding]:
    """Open findings, or the newest of all. For operators."""
    statement = select(NoisyFinding).order_by(col(NoisyFinding.opened_ms).desc())
    if not with_closed:
        statement = statement.where(col(NoisyFinding.closed_ms).is_(None))
    async with db.session() as session:
        return (await session.exec(statement.limit(LISTED_MAX))).all()


async def find_finding(db: Database, finding_id: str) -> NoisyFinding:
    """Find a finding by its id. For operators. Raises Refused where there is none."""
    async with db.session() as session:
        found = (await session.exec(select(NoisyFinding).where(col(NoisyFinding.id) == finding_id))).first()
    if found is None:
        raise bad_request(f"there is no finding {finding_id!r}: see `parley noisy list --all`")
    return found


async def accept(db: Database, redis: RedisClient, finding_id: str, reason: str) -> NoisyFinding:
    """Throttle the tenant until it is calm, whatever the setting is."""
    now = now_ms()
    async with db.transaction() as session:
        row = await _to_decide(session, await find_finding(db, finding_id))
        before = row.model_dump(include={"state", "reason", "throttled_ms", "lifted_ms", "slots_max"})
        row.state, row.reason, row.updated_ms = FindingState.ACCEPTED.value, reason, now
        if not is_throttling(row):
            row.throttled_ms, row.lifted_ms = now, None
            await _alert(session, row, "noisy.throttled", now)
        await record(session, row.tenant_id, "noisy.accept", row.id, before, _said(row))
    await publish_news(redis, row.tenant_id, TERMS_CHANGED)
    return row


async def dismiss(db: Database, redis: RedisClient, finding_id: str, reason: str) -> NoisyFinding:
    """Decide that it is no noise: lift the throttle, and report nothing about this tenant in this pool for a
    day."""
    now = now_ms()
    async with db.transaction() as session:
        row = await _to_decide(session, await find_finding(db, finding_id))
        before = row.model_dump(include={"state", "reason", "throttled_ms", "lifted_ms", "slots_max"})
        row.state, row.closed_ms, row.updated_ms, row.reason = FindingState.DISMISSED.value, now, now, reason
        await _lift(session, row, now, None)
        await record(session, row.tenant_id, "noisy.dismiss", row.id, before, _said(row))
    await publish_news(redis, row.tenant_id, TERMS_CHANGED)
    return row


async def _to_decide(session: AsyncSession, finding: NoisyFinding) -> NoisyFinding:
    row = await _open_row(session, finding)
    if row is None:
        raise bad_request("this finding is closed: there is nothing to decide")
    return row


async def _open_row(session: AsyncSession, finding: NoisyFinding) -> NoisyFinding | None:
    """Lock the present row until the transaction ends; None where it was closed meanwhile."""
    row = await session.get(NoisyFinding, (finding.tenant_id, finding.id), with_for_update=True)
    return row if row is not None and row.closed_ms is None else None


async def _lift(session: AsyncSession, row: NoisyFinding, now: int, author: Author | None) -> None:
    """Lift the throttle. `author`: recorded here as the cause; None: the caller records it."""
    held = is_throttling(row)
    if held:
        row.lifted_ms = now
        await _alert(session, row, "noisy.lifted", now)
    if held and author is not None:
        await _record(session, row, "tenant.lift_throttle", author)


async def _record(session: AsyncSession, row: NoisyFinding, action: str, author: Author) -> None:
    await record(
        session, row.tenant_id, action, row.tenant_id, None, {"finding": row.id, **_said(row)}, author
    )


async def _alert(session: AsyncSession, row: NoisyFinding, kind: str, now: int) -> None:
    """Tell the platform's targets; the tenant's own too where its throttle begins or ends."""
    owners = [PLATFORM] if kind == "noisy.found" else [PLATFORM, row.tenant_id]
    targets = select(AlertTarget).where(
        col(AlertTarget.tenant_id).in_(owners), col(AlertTarget.ended_ms).is_(None)
    )
    facts = {"type": kind, "finding": row.id, "pool": row.pool, "slots_max": row.slots_max}
    for target in (await session.exec(targets)).all():
        own = {} if target.tenant_id else {"noisy_tenant": row.tenant_id, "proposal": row.proposal}
        sent = message(target, f"{kind}:{row.id}:{now}", {**facts, **own}, now)
        await insert_rows(session, [sent])


def _said(row: NoisyFinding) -> dict[str, Any]:
    return row.model_dump(include={"pool", "state", "reason", "throttled_ms", "lifted_ms", "slots_max"})


def _seen(noise: Noise, place: ThrottleBounds, now: int) -> dict[str, Any]:
    return {
        "updated_ms": now,
        "share_permille": round(1_000 * noise.share),
        "fair_permille": round(1_000 * noise.fair),
        "used_tokens": noise.used.tokens,
        "others_wait_ms": noise.others_wait_ms or 0,
        "baseline_wait_ms": noise.baseline_wait_ms or 0,
        "proposal": {
            **own_pool(noise, place.worker_slots),
            "slots_used": round(noise.slots, 2),
            "tokens_in_flight": round(noise.tokens_in_flight),
            "pool_slots_used": round(noise.pool_slots, 2),
            "others_requests": noise.others_requests,
        },
    }

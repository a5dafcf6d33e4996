"""Alarm for ended requests that are not billed: a metric, a line in the log, a message to the operators."""

from collections.abc import Iterable, Sequence

from sqlmodel import col, select

from billing import instruments
from billing.budgets.thresholds import message
from billing.reconciliation.unbilled import DAY_MS, UnbilledShare, share_of
from billing.tables.tenants import PLATFORM
from billing.tables.wallets import AlertTarget
from core.observability.telemetry import logger
from core.sql.database import Database, insert_ignore

log = logger(__name__)


def over_share(shares: Iterable[UnbilledShare], share_max: float) -> list[UnbilledShare]:
    """Shares above the allowed one. Pure."""
    return [each for each in shares if each.part > share_max]


async def alarm_unbilled(
    db: Database, pools: Iterable[str], share_max: float, now_ms: int
) -> Sequence[UnbilledShare]:
    """Show the largest share; log those above `share_max` and tell the operators' targets, once a day
    each."""
    shares = [await share_of(db, pool, now_ms) for pool in sorted(pools)]
    instruments.show_unbilled(max((each.part for each in shares), default=0.0))
    beyond = over_share(shares, share_max)
    for each in beyond:
        log.error(
            "reconciliation.unbilled_over_limit",
            hint="`parley usage unbilled` lists it",
            pool=each.pool,
            share=round(each.part, 6),
            requests=each.requests,
            tokens=each.unbilled,
        )
        await _tell(db, each, now_ms)
    return beyond


async def _tell(db: Database, share: UnbilledShare, now_ms: int) -> None:
    targets = select(AlertTarget).where(
        col(AlertTarget.tenant_id) == PLATFORM, col(AlertTarget.ended_ms).is_(None)
    )
    facts = {
        "type": "usage.unbilled",
        "pool": share.pool,
        "requests": share.requests,
        "tokens": share.unbilled,
        "of_tokens": share.output,
    }
    cause = f"usage.unbilled:{share.pool}:{now_ms // DAY_MS}"
    async with db.transaction() as session:
        found = (await session.exec(targets)).all()
        await insert_ignore(session, [message(target, cause, facts, now_ms) for target in found])

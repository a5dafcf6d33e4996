"""What shared pools cost while idle, told apart by tenants' shares of their tokens. For operators: nobody is
billed by it."""

from collections.abc import Mapping
from dataclasses import dataclass

from sqlmodel import col, func
from sqlmodel.ext.asyncio.session import AsyncSession

from billing.dedicated_pools.reports import PoolUse, pool_usage
from billing.money import round_half_even
from billing.periods import PeriodWindow
from billing.tables.ledger import RollupHour
from core.sql.database import Database
from core.sql.selects import select_columns, untyped

TOKENS = (
    RollupHour.input_uncached,
    RollupHour.input_cached,
    RollupHour.output_text,
    RollupHour.output_reasoning,
)


@dataclass(frozen=True)
class IdleShare:
    """A tenant's share of a shared pool; `tenant_id` empty: nobody used it. `idle_nano` None: nobody said
    what its GPUs cost."""

    pool: str
    tenant_id: str
    tokens: int
    of_tokens: int
    idle_nano: int | None


async def idle_shares(db: Database, window: PeriodWindow) -> list[IdleShare]:
    """Shares of all shared pools in whole hours, by pool, the largest first."""
    costs = idle_costs([use for use in await pool_usage(db, window) if not use.tenant_id])
    async with db.snapshot() as session:
        tokens = await _tokens(session, window, sorted(costs))
    found: list[IdleShare] = []
    for pool, nano in sorted(costs.items()):
        used = tokens.get(pool) or {"": 0}
        parts = shared_out(nano or 0, used)
        ordered = sorted(used, key=lambda tenant: (-used[tenant], tenant))
        whole = sum(used.values())
        found += [
            IdleShare(pool, each, used[each], whole, None if nano is None else parts[each])
            for each in ordered
        ]
    return found


def idle_costs(uses: list[PoolUse]) -> dict[str, int | None]:
    """Cost of each pool's idle time; None where that of one of its types of GPU is not known. Pure."""
    found: dict[str, int | None] = {}
    for use in uses:
        before = found.get(use.pool, 0)
        if use.cost_nano is None or before is None:
            found[use.pool] = None
        elif use.ready:
            found[use.pool] = before + round_half_even(use.cost_nano * use.idle, use.ready)
    return found


def shared_out(nano: int, weights: Mapping[str, int]) -> dict[str, int]:
    """An amount (not below 0) in parts by weight, which add up to it: what rounding leaves goes to the
    largest remainders. Equal parts where all weigh nothing. Pure."""
    known = dict(weights) if any(weights.values()) else dict.fromkeys(weights, 1)
    whole = sum(known.values())
    parts = {name: nano * weight // whole for name, weight in known.items()}
    by_rest = sorted(known, key=lambda name: (-(nano * known[name] % whole), name))
    for name in by_rest[: nano - sum(parts.values())]:
        parts[name] += 1
    return parts


async def _tokens(session: AsyncSession, window: PeriodWindow, pools: list[str]) -> dict[str, dict[str, int]]:
    """Tokens by pool and tenant."""
    counted = sum((col(each) for each in TOKENS[1:]), col(TOKENS[0]))
    statement = (
        select_columns(RollupHour.pool, RollupHour.tenant_id, func.sum(counted))
        .where(col(RollupHour.pool).in_(pools))
        .where(col(RollupHour.hour_ms) >= window.start_ms, col(RollupHour.hour_ms) < window.end_ms)
        .group_by(col(RollupHour.pool), col(RollupHour.tenant_id))
    )
    found: dict[str, dict[str, int]] = {}
    for pool, tenant, tokens in (await untyped(session).exec(statement)).all():
        if tokens:
            found.setdefault(pool, {})[tenant] = int(tokens)
    return found

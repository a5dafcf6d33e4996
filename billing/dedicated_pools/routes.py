"""Which pool a tenant's requests for a model go to: by the tenant first, then by the model."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from sqlmodel import col, select

from billing.tables.pools import ACTIVE, SHARED, PoolAdmission, PoolRow, PoolState
from core.clock import now_ms
from core.sql.database import Database

KEPT_SECONDS = 2.0  # for how long a gateway routes by what it read
UNSEEN_MS = 60_000  # after so long without news no fleet runs, and nobody knows which pools have begun


@dataclass(frozen=True)
class PoolRoute:
    """Where a request goes: a pool, and the version of the model that its workers run."""

    pool: str
    version: str


class PoolRoutes:
    """Routes of all tenants, from rows in the order of pools' names. `models`: the model of each pool that
    has a row, also of those that take nothing new. `begun`: pools of which a worker was ready once; None:
    nobody knows. Pure."""

    def __init__(
        self,
        pools: Sequence[PoolRow] = (),
        let_in: Iterable[PoolAdmission] = (),
        begun: Collection[str] | None = None,
    ) -> None:
        self._begun = begun
        self.models = {row.pool: row.model for row in pools}
        active = {row.pool: row for row in pools if row.state == ACTIVE}
        routes = {name: PoolRoute(name, row.version) for name, row in active.items()}
        self._of_model = {row.model: routes[name] for name, row in reversed(active.items())}
        self._own = {(row.tenant_id, row.model): routes[name] for name, row in active.items()}
        self._let_in: dict[tuple[str, str], PoolRoute] = {}
        for each in let_in:
            if each.pool in active:
                self._let_in.setdefault((each.tenant_id, active[each.pool].model), routes[each.pool])

    def of(self, tenant: str, model: str) -> PoolRoute | None:
        """The tenant's own pool of the model, else the first that lets it in, else the shared one; of these a
        pool without a worker so far only if all are. None: there is none, as pools refuse strangers."""
        mine = (tenant, model)
        by_rank = (self._own.get(mine), self._let_in.get(mine), self._own.get((SHARED, model)))
        open_to_it = [route for route in by_rank if route is not None]
        begun = (each for each in open_to_it if self._begun is None or each.pool in self._begun)
        return next(begun, open_to_it[0] if open_to_it else None)

    def any_of(self, model: str) -> PoolRoute | None:
        """The first active pool of the model, whoever's it is."""
        return self._of_model.get(model)


async def tenants_let_in(db: Database, pool: str) -> list[str]:
    """Ids of the tenants whose requests run in a pool, by name; none: everybody's, as it is shared, or has no
    row."""
    admitted = select(PoolAdmission.tenant_id).where(col(PoolAdmission.pool) == pool)
    async with db.session() as session:
        row = await session.get(PoolRow, pool)
        if row is None or row.tenant_id == SHARED:
            return []
        return sorted({row.tenant_id, *(await session.exec(admitted)).all()})


async def read_routes(db: Database) -> PoolRoutes:
    """The routes of all tenants now."""
    by_pool = select(PoolAdmission).order_by(col(PoolAdmission.pool))
    async with db.session() as session:
        pools = (await session.exec(select(PoolRow).order_by(col(PoolRow.pool)))).all()
        states = (await session.exec(select(PoolState))).all()
        return PoolRoutes(pools, (await session.exec(by_pool)).all(), pools_begun(states, now_ms()))


def pools_begun(states: Sequence[PoolState], now_ms: int) -> frozenset[str] | None:
    """Pools of which a worker was ready once; None: no fleet runs that would know. Pure."""
    if not any(now_ms - state.observed_ms < UNSEEN_MS for state in states):
        return None
    return frozenset(state.pool for state in states if state.served_ms)

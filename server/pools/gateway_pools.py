"""One gateway's client of every pool, and the check of orders by which a request moved to another."""

from dataclasses import dataclass

from core.clock import now_ms
from core.redis.pools import ByPool
from engine.api import LogReader, MigrationOrder, MigrationOrders, PoolQueue
from server.conversations.recorder import PoolRecorders


@dataclass(frozen=True)
class GatewayPools:
    """Clients by pool. `gateway`: this process's name in the pools. `serve` adds a pool that exists."""

    gateway: str
    queues: ByPool[PoolQueue]
    logs: ByPool[LogReader]
    recorders: PoolRecorders
    orders: MigrationOrders

    def is_ordered(self, pool: str, tenant: str, id: str, order: MigrationOrder | None) -> bool:
        """True where a good order moved the request from this pool; a worker might have forged it."""
        return order is not None and self.orders.good(tenant, id, pool, order, now_ms())

    def serve(self, pool: str) -> None:
        """Add a pool of the installation."""
        for each in (self.queues, self.logs, self.recorders):
            each.keep(pool)

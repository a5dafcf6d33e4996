"""What one gateway has of every pool, and the orders by which it believes that a request went to another."""

from dataclasses import dataclass

from core.clock import now_ms
from core.redis.pools import ByPool
from engine.api import LogReader, MigrationOrder, MigrationOrders, PoolQueue
from server.conversations.recorder import PoolRecorders


@dataclass(frozen=True)
class GatewayPools:
    """`gateway`: this process's name in the pools. `serve` keeps those of a pool that there is."""

    gateway: str
    queues: ByPool[PoolQueue]
    logs: ByPool[LogReader]
    recorders: PoolRecorders
    orders: MigrationOrders

    def is_ordered(self, pool: str, tenant: str, id: str, order: MigrationOrder | None) -> bool:
        """Whether a request went from this pool by a good order: a worker may write that it did."""
        return order is not None and self.orders.good(tenant, id, pool, order, now_ms())

    def serve(self, pool: str) -> None:
        """A pool of the installation."""
        for each in (self.queues, self.logs, self.recorders):
            each.keep(pool)

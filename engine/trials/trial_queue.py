"""Decides which tenant's shape is tried next. Pure: one at a time of each tenant, tenants in turn, so that
one who floods takes nothing from the others."""

from collections import OrderedDict, deque

WAITING_PER_TENANT_MAX = 16
WAITING_MAX = 256


class TrialQueue:
    """Shapes that wait to be tried, and tenants whose shape is being tried."""

    def __init__(self) -> None:
        self._lanes: OrderedDict[str, deque[str]] = OrderedDict()
        self._running: set[str] = set()

    def __len__(self) -> int:
        return sum(len(lane) for lane in self._lanes.values())

    def add(self, tenant: str, name: str) -> bool:
        """Queue a shape; False where there is no room."""
        lane = self._lanes.get(tenant, deque[str]())
        if len(lane) >= WAITING_PER_TENANT_MAX or len(self) >= WAITING_MAX:
            return False
        if name not in lane:
            lane.append(name)
        self._lanes[tenant] = lane
        return True

    def take(self) -> tuple[str, str] | None:
        """The next tenant and its waiting shape; call `done` after the trial."""
        for tenant, lane in self._lanes.items():
            if tenant not in self._running:
                name = lane.popleft()
                self._lanes.move_to_end(tenant)
                if not lane:
                    del self._lanes[tenant]
                self._running.add(tenant)
                return tenant, name
        return None

    def done(self, tenant: str) -> None:
        """Note that the tenant's trial is over."""
        self._running.discard(tenant)

"""`requests.list` of all pools: one list, of the same order and rights as that of a pool."""

from collections.abc import Sequence

import pytest

from billing.api import OperationActor, Stores, create_tenant, local_actor
from billing.unit_of_work.perform import answer_of
from core.actor import Author
from core.configuration.settings import Settings
from core.errors import Refused
from core.operations import Role
from core.redis.pools import announce_pool
from core.sql.database import Database
from engine.operations.inspection import Inspection
from engine.operations.requests import ListRequests, list_requests
from engine.request import RequestStatus
from tests.engine.builders import Pool, request
from tests.support.redis import Redis

FAR_MS = 4_000_000_000_000
POOLS = ("a", "b", "c")


class ThreePools:
    """Pools with two waiting requests each, whose deadlines take turns; `acme` has the second of each."""

    def __init__(self, redis: Redis, settings: Settings, database: Database) -> None:
        self.stores = Stores(settings, database, lambda: redis)
        self.pools = {name: Pool(redis, settings, name=name) for name in POOLS}
        self.acme = self.other = ""
        self.in_order: list[tuple[str, str]] = []

    async def prepare(self) -> None:
        """Make them."""
        self.acme = (await create_tenant(self.stores.db, "acme")).tenant_id
        self.other = (await create_tenant(self.stores.db, "other")).tenant_id
        for name, pool in self.pools.items():
            await announce_pool(pool.redis, pool.settings, name)
        for tenant in (self.other, self.acme):
            for name, pool in self.pools.items():
                made = request(tenant=tenant, deadline_ms=FAR_MS + len(self.in_order))
                await pool.queue.enqueue(made)
                self.in_order.append((name, made.id))

    async def listed(self, who: OperationActor, ask: ListRequests) -> Sequence[tuple[str, str]]:
        """Pool and id of each."""
        answer = await answer_of(list_requests, self.stores, who, ask)
        return [(row.pool, row.id) for row in answer.items]


@pytest.fixture
async def three(redis: Redis, settings: Settings, sqlite: Database) -> ThreePools:
    """On a real Valkey."""
    made = ThreePools(redis, settings, sqlite)
    await made.prepare()
    return made


async def test_requests_of_all_pools_are_one_list(three: ThreePools) -> None:
    """The nearest deadline first, whichever its pool; the limit is of the whole list; filters are kept."""
    owner, every = local_actor(), ListRequests(all_pools=True)
    assert await three.listed(owner, every) == three.in_order
    assert await three.listed(owner, ListRequests(all_pools=True, limit=4)) == three.in_order[:4]
    assert await three.listed(owner, ListRequests(all_pools=True, tenant="acme")) == three.in_order[3:]
    waiting = ListRequests(all_pools=True, status=RequestStatus.QUEUED, limit=2)
    assert await three.listed(owner, waiting) == three.in_order[:2]
    running = ListRequests(all_pools=True, status=RequestStatus.RUNNING)
    assert await three.listed(owner, running) == []


async def test_a_member_sees_its_own_of_all_pools(three: ThreePools) -> None:
    """And no other's, named or not."""
    member = OperationActor(Author("Mia", "api"), Role.DEVELOPER, tenant=three.acme)
    assert await three.listed(member, ListRequests(all_pools=True)) == three.in_order[3:]
    with pytest.raises(Refused, match="there is no tenant"):
        await three.listed(member, ListRequests(all_pools=True, tenant="other"))


async def test_one_that_is_gone_leaves_no_row(three: ThreePools) -> None:
    """It ended after the lines were read, or its record is no record."""
    name, id = three.in_order[0]
    await three.pools[name].redis.delete(f"{{p:{name}}}req:{three.other}:{id}")
    assert await three.listed(local_actor(), ListRequests(all_pools=True)) == three.in_order[1:]
    assert len(await Inspection(three.pools["a"].queue).first_open(10)) == 2


@pytest.mark.parametrize(
    ("ask", "field"),
    [
        (ListRequests(all_pools=True, pool="a"), "pool"),
        (ListRequests(all_pools=True, status=RequestStatus.ENDED), "status"),
    ],
)
async def test_what_is_no_one_list_is_refused(three: ThreePools, ask: ListRequests, field: str) -> None:
    """One pool beside all; and those that ended, whose order only a pool of its own knows."""
    with pytest.raises(Refused) as refused:
        await three.listed(local_actor(), ask)
    assert refused.value.refusal.field == field

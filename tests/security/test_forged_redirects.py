"""What a worker writes of requests that run in another pool: nobody is led to them by it."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any

import pytest

from core.access.processes import WORKER
from core.clock import now_ms
from core.configuration.settings import Settings
from core.ids import uuid7
from core.redis.pools import announce_pool
from core.sql.database import Database
from engine.api import MigrationOrders
from server.context import GatewayContext, make_context
from server.reading.subscriptions import RequestName
from server.requests.cancel import CancelHandler
from tests.engine.builders import TENANT, Pool, request
from tests.security.poisoned_pools import all_live
from tests.server.http_site import readers_of, subscriptions_of
from tests.support.redis import Redis
from tests.support.users import client_of

EVIL, HOME = "evil", "default"


@dataclass
class RedirectAttack:
    """A gateway, the victim's request in the pool that is its home, and a worker of another pool."""

    edge: GatewayContext
    home: Pool
    worker: Any
    id: str
    hash: str

    async def write(self, **fields: Any) -> None:
        """The worker's own record of the victim's request."""
        record: dict[str, Any] = {
            **{"status": "ended", "class": "bulk", "worker": "", "body_hash": self.hash, "dest": ""},
            **dict.fromkeys(("epoch", "o", "n", "deadline", "accepted", "covered", "cached"), 1),
            "control": 0,
        }
        await self.worker.hset(f"{{p:{EVIL}}}req:{TENANT}:{self.id}", mapping={**record, **fields})

    async def ordered(self) -> None:
        """An operator ordered it from there to its home."""
        settings = self.edge.settings
        order = MigrationOrders(settings.keyring, settings.installation).give(
            TENANT, self.id, EVIL, HOME, 1, now_ms()
        )
        await self.write(status="moved", dest=HOME, hop=1, ordered=order.at_ms, seal=order.seal)


@pytest.fixture
async def attack(
    sqlite: Database, redis: Redis, redis_url: str, settings: Settings
) -> AsyncGenerator[RedirectAttack]:
    """Both pools are known."""
    await announce_pool(redis, settings, EVIL)
    edge, home = make_context(settings, "gw-test", sqlite, redis), Pool(redis)
    e = request(id=uuid7(now_ms()))
    await home.queue.enqueue(e)
    async with client_of(redis, redis_url, WORKER, EVIL) as worker:
        yield RedirectAttack(edge, home, worker, e.id, e.body_hash)


class RedirectsHeard:
    """A reader."""

    lost = False

    def news(self, entries: list[Any], head: int) -> None:
        """See Listener."""

    def broken(self) -> None:
        """See Listener."""
        self.lost = True


def cancels_of(edge: GatewayContext) -> CancelHandler:
    """What cancels for its connections."""
    return CancelHandler(edge.quota, edge.pools, edge.conversations)


async def led(attack: RedirectAttack) -> list[bool]:
    """Whether a reader, one who attaches and one who cancels get from the worker's pool to the request."""
    hub, name, heard = subscriptions_of(attack.edge), RequestName(EVIL, TENANT, attack.id), RedirectsHeard()
    await hub.start()
    followed = hub.join(name, heard)
    followed.listeners[heard] = heard
    followed.heard_at -= 3_600

    async def looked() -> bool:
        return heard.lost or followed.name != name

    await all_live([hub.run()], looked)
    opened = await readers_of(attack.edge, hub).open_log(name, attack.hash, None, 0)
    cancelled = await cancels_of(attack.edge).cancel_placed(EVIL, TENANT, attack.id, attack.hash)
    return [followed.name.pool == HOME, opened is not None, cancelled is not None]


async def test_nobody_is_led_to_a_request_by_a_move_that_a_worker_made_up(attack: RedirectAttack):
    """Neither who reads there, nor who attaches or cancels; by an operator's order they are."""
    await attack.write(status="moved", dest=HOME, hop=1)
    assert await led(attack) == [False, False, False]
    assert await attack.home.client.hget(attack.home.key(f"req:{TENANT}:{attack.id}"), "control") == b"0"
    await attack.ordered()
    assert await led(attack) == [True, True, True]


async def test_a_cancel_is_for_what_was_asked_for(attack: RedirectAttack):
    """Who was admitted under the id of another's request ends another one by it."""
    assert await cancels_of(attack.edge).cancel_placed(HOME, TENANT, attack.id, "another body") is None
    view = await attack.home.queue.view(TENANT, attack.id)
    assert view is not None
    assert not view.ended

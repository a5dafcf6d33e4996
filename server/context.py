"""What the parts of one gateway process share."""

from dataclasses import dataclass

from billing.api import Bindings, LimitBook, Quota
from core.clock import now_ms
from core.database import Database
from core.pools import ByPool
from core.redis import Client
from core.settings import Settings
from engine.api import LogReader, Order, Orders, PoolQueue, Trials
from server.access.authentication import Authenticator
from server.access.closed_users import ClosedUsers
from server.access.rates import Rates
from server.access.refusal_counts import Refusals
from server.access.used_sessions import UsedSessions
from server.access.users import Users
from server.conversations.recorder import Recorders
from server.conversations.store import Conversations
from server.models.answer_formats import Shapes
from server.models.catalogue import Catalogue
from server.models.prompts import Prompts
from server.pools.end_journals import Journals
from server.pools.tenant_terms import Terms


@dataclass(frozen=True)
class Edge:
    """The gateway's dependencies, made once at start. `gateway` is this process's name in the pools.

    `queues`, `logs` and `recorders` are by pool; `serve` keeps those of a pool that there is.
    """

    settings: Settings
    gateway: str
    rates: Rates
    db: Database
    redis: Client
    auth: Authenticator
    quota: Quota
    limits: LimitBook
    closed_users: ClosedUsers
    users: Users
    used_sessions: UsedSessions
    prompts: Prompts
    catalogue: Catalogue
    shapes: Shapes
    conversations: Conversations
    queues: ByPool[PoolQueue]
    journals: Journals
    logs: ByPool[LogReader]
    recorders: Recorders
    terms: Terms
    orders: Orders
    refusals: Refusals

    def is_ordered(self, pool: str, tenant: str, id: str, order: Order | None) -> bool:
        """Whether a request went from this pool by a good order: a worker may write that it did."""
        return order is not None and self.orders.good(tenant, id, pool, order, now_ms())

    def serve(self, pool: str) -> None:
        """A pool of the installation."""
        for each in (self.queues, self.logs, self.recorders):
            each.keep(pool)


def make_edge(
    settings: Settings, gateway: str, db: Database, redis: Client, unsealed_until_ms: int = 0
) -> Edge:
    """Wire a gateway. `unsealed_until_ms`: until when admissions may have no seal."""
    rates = Rates(settings)
    conversations, closed_users = Conversations(db), ClosedUsers(db)
    bindings = Bindings(settings.keyring, settings.installation, unsealed_until_ms)
    quota = Quota(redis, settings, db, bindings)
    orders = Orders(settings.keyring, settings.installation)
    journals = Journals(settings, gateway)
    queues = ByPool(
        lambda pool: PoolQueue(redis, pool, settings, ended=journals.of_queue(pool)), settings.pool
    )
    return Edge(
        settings=settings,
        gateway=gateway,
        rates=rates,
        db=db,
        redis=redis,
        auth=Authenticator(db, redis, settings),
        quota=quota,
        limits=LimitBook(db),
        closed_users=closed_users,
        users=Users(db, settings.users_per_tenant_max),
        used_sessions=UsedSessions(db),
        prompts=Prompts(settings, rates),
        catalogue=Catalogue(db, settings),
        shapes=Shapes(Trials(redis)),
        conversations=conversations,
        queues=queues,
        journals=journals,
        logs=ByPool(lambda pool: LogReader(redis, pool), settings.pool),
        recorders=Recorders(redis, settings, conversations, gateway),
        terms=Terms(db, redis, queues, settings),
        orders=orders,
        refusals=Refusals(redis, settings),
    )

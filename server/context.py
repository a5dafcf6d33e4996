"""What the parts of one gateway process share."""

from dataclasses import dataclass

from billing.api import Bindings, LimitCache, Quota
from core.clock import now_ms
from core.database import Database
from core.pools import ByPool
from core.redis import Client
from core.settings import Settings
from engine.api import LogReader, MigrationOrder, MigrationOrders, PoolQueue, ShapeTrials
from server.access.authentication import Authenticator
from server.access.closed_users import ClosedUsers
from server.access.rates import CallRates
from server.access.refusal_counts import RefusalNotes
from server.access.used_sessions import UsedSessions
from server.access.users import Users
from server.conversations.recorder import PoolRecorders
from server.conversations.store import ConversationStore
from server.models.answer_formats import AnswerFormats
from server.models.catalogue import Catalogue
from server.models.prompts import PromptRenderers
from server.pools.end_journals import EndJournals
from server.pools.tenant_terms import TenantTermsSync


@dataclass(frozen=True)
class GatewayContext:
    """The gateway's dependencies, made once at start. `gateway` is this process's name in the pools.

    `queues`, `logs` and `recorders` are by pool; `serve` keeps those of a pool that there is.
    """

    settings: Settings
    gateway: str
    rates: CallRates
    db: Database
    redis: Client
    auth: Authenticator
    quota: Quota
    limits: LimitCache
    closed_users: ClosedUsers
    users: Users
    used_sessions: UsedSessions
    prompts: PromptRenderers
    catalogue: Catalogue
    shapes: AnswerFormats
    conversations: ConversationStore
    queues: ByPool[PoolQueue]
    journals: EndJournals
    logs: ByPool[LogReader]
    recorders: PoolRecorders
    terms: TenantTermsSync
    orders: MigrationOrders
    refusals: RefusalNotes

    def is_ordered(self, pool: str, tenant: str, id: str, order: MigrationOrder | None) -> bool:
        """Whether a request went from this pool by a good order: a worker may write that it did."""
        return order is not None and self.orders.good(tenant, id, pool, order, now_ms())

    def serve(self, pool: str) -> None:
        """A pool of the installation."""
        for each in (self.queues, self.logs, self.recorders):
            each.keep(pool)


def make_context(
    settings: Settings, gateway: str, db: Database, redis: Client, unsealed_until_ms: int = 0
) -> GatewayContext:
    """Wire a gateway. `unsealed_until_ms`: until when admissions may have no seal."""
    rates = CallRates(settings)
    conversations, closed_users = ConversationStore(db), ClosedUsers(db)
    bindings = Bindings(settings.keyring, settings.installation, unsealed_until_ms)
    quota = Quota(redis, settings, db, bindings)
    orders = MigrationOrders(settings.keyring, settings.installation)
    journals = EndJournals(settings, gateway)
    queues = ByPool(
        lambda pool: PoolQueue(redis, pool, settings, ended=journals.of_queue(pool)), settings.pool
    )
    return GatewayContext(
        settings=settings,
        gateway=gateway,
        rates=rates,
        db=db,
        redis=redis,
        auth=Authenticator(db, redis, settings),
        quota=quota,
        limits=LimitCache(db),
        closed_users=closed_users,
        users=Users(db, settings.users_per_tenant_max),
        used_sessions=UsedSessions(db),
        prompts=PromptRenderers(settings, rates),
        catalogue=Catalogue(db, settings),
        shapes=AnswerFormats(ShapeTrials(redis)),
        conversations=conversations,
        queues=queues,
        journals=journals,
        logs=ByPool(lambda pool: LogReader(redis, pool), settings.pool),
        recorders=PoolRecorders(redis, settings, conversations, gateway),
        terms=TenantTermsSync(db, redis, queues, settings),
        orders=orders,
        refusals=RefusalNotes(redis, settings),
    )

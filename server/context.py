"""Parts that one gateway process shares."""

from dataclasses import dataclass

from billing.api import Bindings, LimitCache, Quota
from core.configuration.settings import Settings
from core.redis.client import RedisClient
from core.redis.pools import ByPool
from core.sql.database import Database
from engine.api import LogReader, MigrationOrders, PoolQueue, ShapeTrials
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
from server.models.prompt_vetting import PromptVetting
from server.models.prompts import PromptRenderers
from server.models.safety_policies import SafetyPolicies
from server.pools.end_journals import EndJournals
from server.pools.gateway_pools import GatewayPools
from server.pools.tenant_terms import TenantTermsSync


@dataclass(frozen=True)
class GatewayContext:
    """The gateway's dependencies, made once at start. HTTP routes get all of it; classes of the rooms above
    name the parts that they need in their constructors."""

    settings: Settings
    rates: CallRates
    db: Database
    redis: RedisClient
    auth: Authenticator
    quota: Quota
    limits: LimitCache
    closed_users: ClosedUsers
    users: Users
    used_sessions: UsedSessions
    prompts: PromptRenderers
    policies: SafetyPolicies
    vetting: PromptVetting
    catalogue: Catalogue
    shapes: AnswerFormats
    conversations: ConversationStore
    pools: GatewayPools
    journals: EndJournals
    terms: TenantTermsSync
    refusals: RefusalNotes


def make_context(settings: Settings, gateway: str, db: Database, redis: RedisClient) -> GatewayContext:
    """Wire a gateway."""
    rates = CallRates(settings)
    conversations, closed_users = ConversationStore(db), ClosedUsers(db)
    bindings = Bindings(settings.keyring, settings.installation)
    quota = Quota(redis, settings, db, bindings)
    journals = EndJournals(settings, gateway)
    queues = ByPool(
        lambda pool: PoolQueue(redis, pool, settings, ended=journals.of_queue(pool)), settings.pool
    )
    pools = GatewayPools(
        gateway,
        queues,
        logs=ByPool(lambda pool: LogReader(redis, pool), settings.pool),
        recorders=PoolRecorders(redis, settings, conversations, gateway),
        orders=MigrationOrders(settings.keyring, settings.installation),
    )
    return GatewayContext(
        settings=settings,
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
        policies=SafetyPolicies(db),
        vetting=PromptVetting(),
        catalogue=Catalogue(db, settings),
        shapes=AnswerFormats(ShapeTrials(redis)),
        conversations=conversations,
        pools=pools,
        journals=journals,
        terms=TenantTermsSync(db, redis, queues, settings),
        refusals=RefusalNotes(redis, settings),
    )

"""What the parts of one gateway process share."""

from collections.abc import Mapping
from dataclasses import dataclass

from billing.api import Quota
from core.database import Database
from core.redis import Client
from core.settings import Settings
from engine.api import LogReader, PoolQueue
from server.auth import Authenticator
from server.catalogue import Catalogue
from server.conversations import Conversations
from server.prompts import Prompts
from server.recorder import Recorder
from server.terms import Terms


@dataclass(frozen=True)
class Edge:
    """The gateway's dependencies, made once at start. `gateway` is this process's name in the pools.

    `queues`, `logs` and `recorders` are by pool.
    """

    settings: Settings
    gateway: str
    db: Database
    redis: Client
    auth: Authenticator
    quota: Quota
    prompts: Prompts
    catalogue: Catalogue
    conversations: Conversations
    queues: Mapping[str, PoolQueue]
    logs: Mapping[str, LogReader]
    recorders: Mapping[str, Recorder]
    terms: Terms


def make_edge(settings: Settings, gateway: str, db: Database, redis: Client) -> Edge:
    """Wire a gateway for the configured pool."""
    pools = [settings.pool]
    conversations = Conversations(db)
    queues = {pool: PoolQueue(redis, pool, settings) for pool in pools}
    return Edge(
        settings=settings,
        gateway=gateway,
        db=db,
        redis=redis,
        auth=Authenticator(db, redis, settings),
        quota=Quota(redis, settings),
        prompts=Prompts(),
        catalogue=Catalogue(db, settings),
        conversations=conversations,
        queues=queues,
        logs={pool: LogReader(redis, pool) for pool in pools},
        recorders={pool: Recorder(redis, pool, settings, conversations, gateway) for pool in pools},
        terms=Terms(db, redis, queues, settings),
    )

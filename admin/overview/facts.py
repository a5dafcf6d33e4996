"""What the overview is made of, as it was read. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from admin.overview.pool_states import SeenPool
from billing.api import NoisyFinding
from billing.pages import AuditLog, EndedStreams, LastRun, TenantNeed
from core.observability.recent_figures import RecentFigures
from engine.api import LivePool


@dataclass(frozen=True)
class RedisFacts:
    """What Redis has, at `now_ms` of its own. `pools`, `figures`: none for readers whom they are not for."""

    now_ms: int
    pools: Sequence[LivePool] = ()
    unread: EndedStreams = field(default_factory=lambda: EndedStreams(()))
    figures: RecentFigures | None = None


@dataclass(frozen=True)
class SqlFacts:
    """What SQL has. `owners`: by pool, the id of the tenant whom it is dedicated to; `models`: by pool, those
    whose new requests go there; `compared`: the last comparison of the books, `noisy`: open findings,
    `quarantined`: events that wait for a decision; `needs`: by tenant, why somebody should look at it."""

    owners: Mapping[str, str] = field(default_factory=dict[str, str])
    models: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    compared: LastRun | None = None
    changes: Sequence[AuditLog] = ()
    noisy: Sequence[NoisyFinding] = ()
    quarantined: int = 0
    needs: Mapping[str, Sequence[TenantNeed]] = field(default_factory=dict[str, Sequence[TenantNeed]])


@dataclass(frozen=True)
class OverviewFacts:
    """All of it, at `now_ms`. `redis` None: it does not answer. `sees_pools`: the reader may see workers and
    requests, not only money. `names`: of tenants, by id."""

    now_ms: int
    redis: RedisFacts | None
    sql: SqlFacts = field(default_factory=SqlFacts)
    names: Mapping[str, str] = field(default_factory=dict[str, str])
    sees_pools: bool = True

    @cached_property
    def pools(self) -> list[SeenPool]:
        """Pools that have anything, by name."""
        live = sorted(self.redis.pools, key=lambda each: each.pool) if self.redis else []
        return [seen for each in live if (seen := self._seen(each)).is_shown]

    @property
    def noisy(self) -> Sequence[NoisyFinding]:
        """Findings, for readers who see pools."""
        return self.sql.noisy if self.sees_pools else ()

    @property
    def unread(self) -> int:
        """Ended requests that wait for the biller."""
        return self.redis.unread.unread if self.redis else 0

    @property
    def unread_ms(self) -> int:
        """For how long the oldest of them waits."""
        return max(0, self.redis.now_ms - self.redis.unread.oldest_ms) if self.redis and self.unread else 0

    @property
    def is_idle(self) -> bool:
        """True where nothing runs or waits, and no request ended in the last hour."""
        figures = self.redis.figures if self.redis else None
        ended = sum(figures.ended()) if figures else 0
        return not ended and not any(each.running or each.waiting for each in self.pools)

    def name(self, tenant_id: str) -> str:
        """A tenant's name, or its id."""
        return self.names.get(tenant_id, tenant_id)

    def _seen(self, live: LivePool) -> SeenPool:
        owner = self.sql.owners.get(live.pool)
        models = tuple(self.sql.models.get(live.pool, ()))
        return SeenPool(live, None if owner is None else self.name(owner), models)

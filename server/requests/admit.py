"""Asks billing to admit a prepared send, under all its limits and at its prices."""

from collections.abc import Sequence

from redis.exceptions import RedisError

from billing.api import Admission, Admitted, LimitCache, Principal, Quota, count_shadowed
from core.configuration.settings import Settings
from core.errors import Refusal, Refused
from core.observability.telemetry import logger
from core.redis.client import RedisClient
from server import instruments
from server.models.catalogue import Catalogue, ServedModel
from server.protocol.codes import of_queue
from server.reading.sources import log_lost
from server.requests.prepare import PreparedSend

log = logger(__name__)


class SendAdmitter:
    """Admits the sends of one gateway's connections."""

    def __init__(
        self, settings: Settings, redis: RedisClient, quota: Quota, limits: LimitCache, catalogue: Catalogue
    ) -> None:
        self._settings = settings
        self._redis = redis
        self._quota = quota
        self._limits = limits
        self._catalogue = catalogue

    async def admit(self, principal: Principal, prepared: PreparedSend) -> Admitted:
        """Hold money and tokens for it. Raises Refused with the limit that is reached."""
        send, record = prepared.send, prepared.record
        who = (principal.tenant, principal.project, principal.owner_key, prepared.user)
        limits = await self._limits.limits_for(*who, record.name, prepared.accepted_ms)
        offer = await self._catalogue.offer(principal.tenant, record.name)
        admission = Admission(
            tenant=principal.tenant,
            id=send.id,
            body_hash=send.body_hash,
            owner_key=principal.owner_key,
            project=principal.project,
            user=prepared.user,
            model=record.name,
            pool=prepared.pool,
            fingerprint=record.fingerprint,
            input_tokens=len(prepared.prompt),
            chunk_tokens=min(self._settings.chunk_tokens, prepared.sampling.max_tokens),
            deadline_ms=prepared.deadline_ms,
            prices=offer.now,
            limits=limits,
            key=principal.key,
            next_prices=offer.next,
            next_from_ms=offer.next_from_ms,
        )
        admitted = await self._quota.admit(admission)
        if isinstance(admitted, Refusal):
            instruments.limit_refused(admitted)
            raise Refused(of_queue(admitted))
        if admitted.shadowed:
            await self._count_shadowed(principal.tenant, admitted.shadowed)
        return admitted

    async def bound(self, principal: Principal, prepared: PreparedSend, to: Admitted) -> ServedModel | None:
        """The version of the model that a send is bound to by its first admission, where it was prepared for
        another one; None: for that one. Raises Refused, and gives the admission back, where it is gone."""
        record, tenant = prepared.record, principal.tenant
        if to.fingerprint == record.fingerprint:
            return None
        served = await self._catalogue.bound(record.name, to.pool, to.fingerprint)
        if served is None:
            await self._quota.release(tenant, prepared.send.id)
            raise Refused(log_lost())
        return served

    async def _count_shadowed(self, tenant: str, refusals: Sequence[Refusal]) -> None:
        """Count refusals of limits in shadow mode. A failure here holds nothing up."""
        for refused in refusals:
            instruments.limit_refused(refused, shadow=True)
        try:
            await count_shadowed(self._redis, tenant, refusals)
        except (RedisError, OSError) as error:
            log.warning("shadow_counts.count_failed", error=type(error).__name__)

"""Sends example requests as real ones end: admitted, sealed, and written to the ended stream, which the
running biller reads."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

import msgspec

from admin.examples.settings import ExampleOwner
from admin.examples.traffic import ExampleRequest
from billing.api import (
    Admission,
    Bindings,
    Counts,
    PinnedPrices,
    Quota,
    UsageEvent,
    UsageOwner,
    is_billed,
    rate,
    seal,
    sealed_admission_of,
)
from billing.shared_commands import active_consumers, look_at_streams
from billing.usage import ENDED_FIELD, encode, ended_stream
from core.clock import monotonic, now_ms
from core.configuration.settings import Settings
from core.errors import Refusal, Refused, StartupError
from core.redis.client import RedisClient
from core.redis.pools import announce_pool
from core.sql.database import Database

AT_ONCE = 50
UNREAD_MAX = 1_000
LOOK_SECONDS = 0.1
STUCK_SECONDS = 60.0
BILLER_IDLE_MS_MAX = 20_000
DEADLINE_MS = 600_000
NO_BILLER = (
    "no biller books what ends in pool {pool}: start `parley up` or `parley biller`, and say this again"
)


class ExampleSender:
    """Sends to one pool. `prices`: of each tenant's models, by (tenant, model); `fingerprints`: by model;
    `policies`: hashes of what its answers are filtered by, by (tenant, project); all by names."""

    def __init__(
        self,
        db: Database,
        redis: RedisClient,
        settings: Settings,
        owners: Mapping[str, ExampleOwner],
        prices: Mapping[tuple[str, str], PinnedPrices],
        fingerprints: Mapping[str, str],
        policies: Mapping[tuple[str, str], str],
    ) -> None:
        self._db = db
        self._redis = redis
        self._settings = settings
        self._pool = settings.pool
        self._quota = Quota(redis, settings, bindings=Bindings(settings.keyring, settings.installation))
        self._owners = owners
        self._prices = prices
        self._fingerprints = fingerprints
        self._policies = policies

    async def send(self, requests: Sequence[ExampleRequest], progress: Callable[[int], None]) -> None:
        """Send all, no faster than the biller books them, and wait until it has. `progress` hears how many
        are booked. Raises StartupError where the first one is held: so would be all."""
        await announce_pool(self._redis, self._settings, self._pool)
        bounds = [0, *range(1, len(requests), AT_ONCE), len(requests)]
        for first, end in pairwise(bounds):
            await self._send_some([self._event(each) for each in requests[first:end]])
            await self._until_unread(UNREAD_MAX if first else 0, end, progress)
            if not first:
                await self._require_booked(requests[0])
        await self._until_unread(0, len(requests), progress)

    async def _send_some(self, events: Sequence[UsageEvent]) -> None:
        await asyncio.gather(*map(self._admit, events))
        async with self._redis.pipeline(transaction=False) as pipeline:
            for event in events:
                pipeline.xadd(ended_stream(self._pool), {ENDED_FIELD: encode(event)})
            await pipeline.execute()

    async def _require_booked(self, of: ExampleRequest) -> None:
        tenant = self._owners[of.tenant].tenant
        if not await is_billed(self._db, tenant, of.id):
            raise StartupError(
                "the biller holds what was sent, and no more was: has it another PARLEY_SECRET? "
                "`parley quarantine list` says why"
            )

    async def _admit(self, event: UsageEvent) -> None:
        """Admit it now, under no limit, as those of its time are over. Redis counts what the biller settles
        of admitted requests alone: without it R4 would differ."""
        admitted = await self._quota.admit(
            Admission(
                tenant=event.tenant,
                id=event.request,
                body_hash=event.request,
                owner_key=event.owner.key,
                project=event.owner.project,
                user=event.owner.user,
                model=event.model,
                pool=event.pool,
                fingerprint=event.fingerprint,
                input_tokens=event.asked_input,
                chunk_tokens=event.asked_output,
                deadline_ms=now_ms() + DEADLINE_MS,
                prices=event.prices,
            )
        )
        if isinstance(admitted, Refusal):
            raise Refused(admitted)

    def _event(self, of: ExampleRequest) -> UsageEvent:
        owner = self._owners[of.tenant]
        prices = self._prices[of.tenant, of.model]
        event = UsageEvent(
            tenant=owner.tenant,
            request=of.id,
            pool=self._pool,
            model=of.model,
            fingerprint=self._fingerprints.get(of.model, "example"),
            owner=UsageOwner(
                project=owner.projects[of.project],
                key=owner.keys[of.key],
                user=owner.users.get(of.user, ""),
                metadata=of.labels,
            ),
            accepted_ms=of.accepted_ms,
            claimed_ms=of.claimed_ms,
            first_token_ms=of.first_token_ms,
            ended_ms=of.ended_ms,
            reason=of.reason,
            code=of.code,
            prices=prices,
            input_uncached=of.counts.input_uncached,
            input_cached=of.counts.input_cached,
            output_text=of.counts.output_text,
            output_reasoning=of.counts.output_reasoning,
            cost_nano=cost_of(of.counts, prices),
            claims=1 if of.claimed_ms else 0,
            asked_input=of.asked_input,
            asked_output=of.asked_output,
            policy=self._policies[of.tenant, of.project],
            priority=of.priority,
            verdicts=of.verdicts,
        )
        return msgspec.structs.replace(event, seal=seal(sealed_admission_of(event), self._settings.keyring))

    async def _until_unread(self, most: int, sent: int, progress: Callable[[int], None]) -> None:
        """Wait until the biller has booked all but so many. Raises StartupError where it books nothing any
        more."""
        last, since = -1, monotonic()
        while True:
            unread = (await look_at_streams(self._redis, [self._pool])).unread
            progress(max(0, sent - unread))
            if unread <= most:
                return
            if unread != last:
                last, since = unread, monotonic()
            if monotonic() - since > STUCK_SECONDS:
                raise StartupError(
                    f"the biller has booked nothing for {STUCK_SECONDS:.0f} s: its log says why. {unread} "
                    "requests wait for it; what was not sent yet is missing"
                )
            await asyncio.sleep(LOOK_SECONDS)


async def require_biller(redis: RedisClient, pool: str) -> None:
    """Raise StartupError where nobody would book what is sent to a pool."""
    if not await active_consumers(redis, pool, BILLER_IDLE_MS_MAX):
        raise StartupError(NO_BILLER.format(pool=pool))


def cost_of(counts: Counts, prices: PinnedPrices) -> int:
    """What a request costs, in nano-USD. Pure."""
    return rate(counts, prices)[1]

"""Watches pools for noisy neighbours: reads posted usage, decides by billing/noisy/detect.py, and stores
findings and throttles as the setting allows. Every biller watches; one at a time decides.

A request counts when its usage is posted, so a request that runs for minutes counts only after its end.
"""

import asyncio
import secrets
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import case, null
from sqlalchemy import select as sql_select
from sqlalchemy.exc import IntegrityError, SQLAlchemyError
from sqlmodel import col, func, select

from billing.noisy.detect import (
    WAIT_EDGES_MS,
    FindingState,
    FindingStep,
    Noise,
    Rules,
    TenantLoad,
    decide,
    suspects,
)
from billing.noisy.findings import (
    FindingHistory,
    ThrottleBounds,
    close_finding,
    find_histories,
    is_throttling,
    lift_throttle,
    open_finding,
    update_finding,
)
from billing.tables.tenants import UsageRow
from billing.tenants.pool_terms import TERMS_CHANGED, find_terms, list_terms
from billing.tenants.tenancy import publish_news
from core.clock import now_ms
from core.configuration.settings import Settings
from core.observability.error_facts import error_summary
from core.observability.telemetry import logger
from core.redis import redis_errors
from core.redis.client import RedisClient
from core.sql.database import Database

POSTED_AFTER_MS = 10_000  # earlier ends are posted, or found when spans are read again
READ_AGAIN_SPANS = 4
READ_AT_ONCE_SPANS = 120
GROUPS_MAX = 200_000

log = logger(__name__)

Spans = dict[str, dict[int, dict[str, TenantLoad]]]  # pool -> start of the span -> tenant
Where = tuple[str, str]  # tenant and pool


class NoisyWatch:
    """The watch of one biller over all pools."""

    def __init__(
        self, db: Database, redis: RedisClient, settings: Settings, rules: Rules | None = None
    ) -> None:
        self._db = db
        self._redis = redis
        self._settings = settings
        self._rules = rules or Rules()
        self._spans: Spans = {}
        self._read_ms = 0
        self._name = secrets.token_hex(8)

    async def run(self, stop: asyncio.Event) -> None:
        """Check every `noisy_check_seconds` until `stop` is set."""
        seconds = self._settings.noisy_check_seconds
        while not stop.is_set():
            try:
                await self.step(now_ms())
            except (redis_errors.RedisError, SQLAlchemyError, OSError) as error:
                log.warning("noisy.watch_failed", error=error_summary(error))
            try:
                async with asyncio.timeout(seconds):
                    await stop.wait()
            except TimeoutError:
                pass

    async def step(self, now: int) -> None:
        """Read usage that ended until `now`, in Unix ms, and act on the decisions."""
        span = self._rules.span_ms
        until = (now - POSTED_AFTER_MS) // span * span
        if self._settings.noisy_neighbours != "off":
            await self._read(until)
        if not await self._leads():
            return
        if await self._switch(await find_histories(self._db, self._rules, now), now):
            await self._look(await find_histories(self._db, self._rules, now), until, now)

    async def _leads(self) -> bool:
        """Take or keep the lead; only the leader decides."""
        key = f"{self._settings.installation}:noisy"
        kept_ms = round(3_000 * self._settings.noisy_check_seconds)
        if await self._redis.set(key, self._name, nx=True, px=kept_ms):
            return True
        if await self._redis.get(key) != self._name.encode():
            return False
        await self._redis.pexpire(key, kept_ms)
        return True

    async def _read(self, until: int) -> None:
        """Read new spans, and the last ones again, as a biller may have been late."""
        span, kept = self._rules.span_ms, self._rules.spans_kept
        oldest = until - kept * span
        start = max(oldest, self._read_ms - READ_AGAIN_SPANS * span)
        for at in range(start, until, READ_AT_ONCE_SPANS * span):
            end = min(until, at + READ_AT_ONCE_SPANS * span)
            found = await read_spans(self._db, at, end, self._settings, span)
            for pool in {*found, *self._spans}:
                own = self._spans.setdefault(pool, {})
                for each in range(at, end, span):
                    own.pop(each, None)
                own.update(found.get(pool, {}))
        self._read_ms = until
        for pool, own in list(self._spans.items()):
            for each in [each for each in own if each < oldest]:
                del own[each]
            if not own:
                del self._spans[pool]

    async def _switch(self, past: Mapping[Where, FindingHistory], now: int) -> bool:
        """End what the setting does not allow; return False where it is off."""
        mode = self._settings.noisy_neighbours
        for finding in [each.finding for each in past.values() if each.finding is not None]:
            if mode == "off":
                await close_finding(self._db, finding, now, "switched off")
            elif mode == "propose" and finding.state == FindingState.OPEN and is_throttling(finding):
                await lift_throttle(self._db, finding, now)
            else:
                continue
            await publish_news(self._redis, finding.tenant_id, TERMS_CHANGED)
        return mode != "off"

    async def _look(self, past: Mapping[Where, FindingHistory], until: int, now: int) -> None:
        """Decide on every suspect and every open finding."""
        span, rules = self._rules.span_ms, self._rules
        weights = {terms.tenant_id: terms.weight for terms in await list_terms(self._db)}
        for pool in sorted({*self._spans, *(pool for (_, pool), each in past.items() if each.finding)}):
            known = self._spans.get(pool, {})
            spans = [known.get(at, {}) for at in range(until - rules.spans_kept * span, until, span)]
            still = {tenant for (tenant, at), each in past.items() if at == pool and each.finding}
            for tenant in sorted({*suspects(spans, weights, rules), *still}):
                before = past.get((tenant, pool), FindingHistory())
                step, noise = decide(tenant, spans, weights, before.known, until, rules)
                if noise is not None:
                    await self._do(step, pool, noise, before, now)
                await asyncio.sleep(0)

    async def _do(self, step: FindingStep, pool: str, noise: Noise, past: FindingHistory, now: int) -> None:
        reserve = (await find_terms(self._db, noise.tenant)).reserve_tokens
        place = ThrottleBounds(pool, reserve, self._settings.worker_slots)
        if step is FindingStep.OPEN:
            throttle = self._settings.noisy_neighbours == "throttle"
            try:
                await open_finding(self._db, place, noise, throttle, now)
            except IntegrityError:
                return  # another biller's watch was first
            log.warning("noisy.detected", tenant=noise.tenant, pool=pool, throttled=throttle)
        elif step is FindingStep.KEEP and past.finding is not None:
            await update_finding(self._db, past.finding, place, noise, now)
            return
        elif step is FindingStep.CLOSE and past.finding is not None:
            await close_finding(self._db, past.finding, now, "calm")
            log.info("noisy.closed", tenant=noise.tenant, pool=pool)
        else:
            return
        await publish_news(self._redis, noise.tenant, TERMS_CHANGED)


async def read_spans(db: Database, start: int, end: int, settings: Settings, span: int) -> Spans:
    """Load of requests that ended in [start, end), Unix ms, by pool, span and tenant. For operators: all
    tenants' sums."""
    fresh, answered = col(UsageRow.input_uncached), col(UsageRow.output_text) + col(UsageRow.output_reasoning)
    each = (
        select(UsageRow.pool, UsageRow.tenant_id)
        .add_columns(
            (col(UsageRow.ended_ms) // span).label("at"),
            case(
                (col(UsageRow.first_token_ms) > 0, col(UsageRow.first_token_ms) - col(UsageRow.accepted_ms)),
                (col(UsageRow.claimed_ms) == 0, col(UsageRow.ended_ms) - col(UsageRow.accepted_ms)),
                else_=null(),
            ).label("wait"),
            case(
                (col(UsageRow.claimed_ms) > 0, col(UsageRow.ended_ms) - col(UsageRow.claimed_ms)), else_=0
            ).label("lasted"),
            fresh.label("fresh"),
            answered.label("answered"),
            (fresh + col(UsageRow.input_cached) + answered).label("tokens"),
        )
        .where(col(UsageRow.ended_ms) >= start, col(UsageRow.ended_ms) < end)
        .subquery()
    ).c
    edges = [(each.wait <= edge, place) for place, edge in enumerate(WAIT_EDGES_MS)]
    place = case((each.wait.is_(None), -1), *edges, else_=len(WAIT_EDGES_MS) - 1).label("place")
    summed = (each.tokens, each.fresh, each.answered, each.lasted, each.lasted * each.tokens)
    sums = [func.sum(one) for one in summed]
    statement = (
        sql_select(each.pool, each.at, each.tenant_id, place, func.count(), *sums)
        .group_by("pool", "at", "tenant_id", "place")
        .limit(GROUPS_MAX)
    )
    spans: Spans = {}
    async with db.looking() as connection:
        groups: list[Any] = list(await connection.execute(statement))
    for pool, at, tenant, *facts in groups:
        own = spans.setdefault(pool, {}).setdefault(int(at) * span, {})
        own.setdefault(tenant, TenantLoad()).add(_use(facts, settings))
    return spans


def _use(sums: Sequence[Any], settings: Settings) -> TenantLoad:
    """A group as Python numbers; Postgres's sums are decimals."""
    place, requests, tokens, fresh, answered, slot_ms, token_ms = (int(each) for each in sums)
    work = settings.fair_prompt_weight * fresh + settings.fair_output_weight * answered
    waits = Counter({place: requests}) if place >= 0 else Counter[int]()
    return TenantLoad(requests, tokens, round(work), slot_ms, token_ms, waits)

"""From posted usage to a finding, a throttle in the pools' queue and its end, on real parts."""

from typing import Any

import pytest
from sqlmodel import col, select

from billing.audit.log import list_rows
from billing.noisy.detect import FindingState, Rules
from billing.noisy.findings import accept, dismiss, find_finding, list_findings
from billing.noisy.watch import POSTED_AFTER_MS, NoisyWatch, read_spans
from billing.posting.biller import post
from billing.tables.tenants import PLATFORM, PoolTerms
from billing.tables.wallets import AlertTarget, Outbox
from billing.tenants.pool_terms import list_terms, set_terms
from billing.tenants.tenancy import create_tenant
from billing.usage import UsageEvent, UsageOwner, encode
from core.clock import now_ms
from core.configuration.settings import Settings
from core.errors import Refused
from core.sql.database import Database
from engine.api import PoolQueue
from server.pools.tenant_terms import TenantTermsSync
from tests.billing.events import an_event
from tests.support.redis import Redis

POOL = "default"
RULES = Rules(span_ms=30_000)


class NoisyTown:
    """A pool with a quiet tenant and one that may be loud, on a clock of its own."""

    def __init__(self, db: Database, redis: Redis, settings: Settings, quiet: str, hog: str) -> None:
        self.db, self.redis, self.quiet, self.hog = db, redis, quiet, hog
        self.now = now_ms() - 3_600_000
        self._settings = settings
        self._number = 0
        self.switch("throttle")

    def switch(self, mode: str) -> None:
        """What may be done about noise, from the next look on."""
        settings = self._settings.model_copy(update={"noisy_neighbours": mode})
        self.watch = NoisyWatch(self.db, self.redis, settings, RULES)
        self.terms = TenantTermsSync(
            self.db, self.redis, {POOL: PoolQueue(self.redis, POOL, settings)}, settings
        )

    async def spans(self, number: int, hog_tokens: int, wait_ms: int, hog_ms: int = 3_000) -> None:
        """So many spans in which both ask ten times, and a look at the end of each."""
        for _ in range(number):
            await self._ask(1, hog_tokens, wait_ms, hog_ms)
            await self.watch.step(self.now + POSTED_AFTER_MS)

    async def peace(self, spans: int) -> None:
        """So many spans before anybody looked."""
        await self._ask(spans, hog_tokens=100, wait_ms=200, hog_ms=3_000)
        await self.watch.step(self.now + POSTED_AFTER_MS)

    async def noise(self, spans: int) -> None:
        """The same of one that makes the other wait."""
        await self._ask(spans, hog_tokens=2_000, wait_ms=5_000, hog_ms=3_000)
        await self.watch.step(self.now + POSTED_AFTER_MS)

    async def _ask(self, spans: int, hog_tokens: int, wait_ms: int, hog_ms: int) -> None:
        asked: list[UsageEvent] = []
        for _ in range(spans):
            for tenant in [self.quiet, self.hog] * 10:
                claimed_ms = self.now + wait_ms
                event = an_event(
                    f"r{self._number}",
                    tenant,
                    owner=UsageOwner(project="p", key="k"),
                    accepted_ms=self.now,
                    claimed_ms=claimed_ms,
                    first_token_ms=claimed_ms,
                    ended_ms=claimed_ms + (hog_ms if tenant == self.hog else 1_000),
                    input_uncached=100,
                    input_cached=0,
                    output_text=hog_tokens if tenant == self.hog else 100,
                )
                asked.append(event)
                self._number += 1
            self.now += RULES.span_ms
        await post(self.db, POOL, [encode(event) for event in asked])

    async def slots_max(self) -> int | None:
        """The cap on the loud tenant in the pool's queue, once a gateway has brought it in line."""
        await self.terms.apply()
        redis: Any = self.redis
        value = await redis.hget(f"{{p:{POOL}}}ten:{self.hog}", "slots_max")
        return int(value) if value else None


async def a_town(db: Database, redis: Redis, settings: Settings) -> NoisyTown:
    """Two tenants who get on well."""
    quiet, hog = [(await create_tenant(db, name)).tenant_id for name in ("quiet", "hog")]
    town = NoisyTown(db, redis, settings, quiet, hog)
    await town.peace(40)
    assert await list_findings(db, with_closed=True) == []
    return town


async def test_noise_is_found_throttled_and_forgiven(
    sqlite: Database, redis: Redis, settings: Settings
) -> None:
    """INV-29: An operator sees whose load makes others wait, with the numbers; the pool holds that tenant to
    its share until it is calm; and both are in the audit log."""
    town = await a_town(sqlite, redis, settings)
    assert await town.slots_max() is None
    await town.spans(12, hog_tokens=2_000, wait_ms=5_000, hog_ms=20_000)
    (found,) = await list_findings(sqlite)
    assert (found.tenant_id, found.pool, found.state) == (town.hog, POOL, FindingState.OPEN)
    assert (found.share_permille > 800, found.fair_permille) == (True, 500)
    assert found.others_wait_ms >= 5_000 > 1_000 > found.baseline_wait_ms >= 200
    assert found.proposal["slots"] >= found.proposal["slots_used"] > 4
    assert found.slots_max == await town.slots_max()
    assert found.slots_max is not None
    assert 1 <= found.slots_max < found.proposal["slots_used"]
    await town.spans(RULES.window_spans + RULES.calm_spans + 4, hog_tokens=100, wait_ms=200, hog_ms=500)
    (closed,) = await list_findings(sqlite, with_closed=True)
    assert (closed.state, closed.lifted_ms) == (FindingState.CALM, closed.closed_ms)
    assert await town.slots_max() is None
    actions = [row.action for row in await list_rows(sqlite, town.hog) if row.source == "process"]
    assert actions[:2] == ["tenant.lift_throttle", "tenant.throttle"]


async def test_operators_and_the_tenant_are_told_of_a_throttle(
    sqlite: Database, redis: Redis, settings: Settings
) -> None:
    """The operators of what was found and what would do; the tenant of what it is held back by, and of nobody
    else. Each once, in the transaction of the finding."""
    town = await a_town(sqlite, redis, settings)
    for owner in (PLATFORM, town.hog, town.quiet):
        async with sqlite.transaction() as session:
            target = AlertTarget(tenant_id=owner, id=f"of {owner}", kind="email", address="a@b", created_ms=1)
            session.add(target)
    await town.spans(12, hog_tokens=2_000, wait_ms=5_000)
    (found,) = await list_findings(sqlite)
    await dismiss(sqlite, redis, found.id, "agreed on")
    async with sqlite.session() as session:
        sent = (
            await session.exec(select(Outbox).order_by(col(Outbox.tenant_id), col(Outbox.created_ms)))
        ).all()
    told = [(each.tenant_id, each.payload["type"]) for each in sent]
    assert told == [
        (owner, kind) for owner in (PLATFORM, town.hog) for kind in ("noisy.throttled", "noisy.lifted")
    ]
    assert sent[0].payload["noisy_tenant"] == town.hog
    assert sent[0].payload["proposal"] == found.proposal
    assert not {"noisy_tenant", "proposal"} & set(sent[-1].payload)


async def test_by_default_noise_is_only_proposed_and_an_operator_decides(
    sqlite: Database, redis: Redis, settings: Settings
) -> None:
    """Accepting holds the tenant back until it is calm; dismissing lets it go, and it is not found again."""
    assert settings.noisy_neighbours == "propose"
    town = await a_town(sqlite, redis, settings)
    town.switch("propose")
    await redis.flushall()
    await town.spans(14, hog_tokens=2_000, wait_ms=5_000)
    (found,) = await list_findings(sqlite)
    assert found.throttled_ms is None
    assert await town.slots_max() is None
    await accept(sqlite, redis, found.id, "ticket 7")
    assert await town.slots_max() == found.slots_max
    await town.spans(2, hog_tokens=2_000, wait_ms=5_000)
    assert (await find_finding(sqlite, found.id)).state == FindingState.ACCEPTED
    assert await town.slots_max() == found.slots_max
    await dismiss(sqlite, redis, found.id, "a load test that was agreed on")
    assert await town.slots_max() is None
    with pytest.raises(Refused, match="is closed"):
        await accept(sqlite, redis, found.id, "again")
    await town.spans(6, hog_tokens=2_000, wait_ms=5_000)
    assert await list_findings(sqlite) == []
    actions = [row.action for row in await list_rows(sqlite, town.hog)]
    assert actions[:2] == ["noisy.dismiss", "noisy.accept"]


async def test_switching_it_off_lifts_every_throttle(
    sqlite: Database, redis: Redis, settings: Settings
) -> None:
    """At the next look; one watch at a time decides."""
    town = await a_town(sqlite, redis, settings)
    await town.spans(12, hog_tokens=2_000, wait_ms=5_000)
    assert await town.slots_max() is not None
    town.switch("off")
    await town.watch.step(town.now + POSTED_AFTER_MS)
    assert await town.slots_max() is not None  # the watch before still leads
    await redis.delete(f"{settings.installation}:noisy")
    await town.watch.step(town.now + POSTED_AFTER_MS)
    assert await town.slots_max() is None
    assert await list_findings(sqlite) == []


async def test_a_throttled_tenant_keeps_its_other_terms(
    sqlite: Database, redis: Redis, settings: Settings
) -> None:
    """Its weight and its reserve; the reserve is slots that the throttle leaves it."""
    town = await a_town(sqlite, redis, settings)
    terms = PoolTerms(tenant_id=town.hog, weight=1.0, reserve_tokens=1_000_000)
    await set_terms(sqlite, redis, terms)
    await town.spans(12, hog_tokens=2_000, wait_ms=5_000)
    (found,) = await list_findings(sqlite)
    assert found.slots_max is not None
    assert found.slots_max >= 1_000_000 // 2_100
    (in_force,) = [row for row in await list_terms(sqlite) if row.tenant_id == town.hog]
    assert (in_force.reserve_tokens, in_force.slots_max) == (1_000_000, found.slots_max)


async def test_sums_of_a_span_are_the_same_on_every_database(database: Database, settings: Settings) -> None:
    """Requests, tokens, work, time and waits; what never ran waited until it ended."""
    events = [
        an_event("r1", "t1", accepted_ms=1_000, claimed_ms=1_100, first_token_ms=1_200, ended_ms=3_100),
        an_event(
            "r2", "t1", accepted_ms=1_000, ended_ms=31_000, input_uncached=0, input_cached=0, output_text=0
        ),
        an_event("r3", "t2", accepted_ms=1_000, claimed_ms=1_100, ended_ms=1_400),
    ]
    await post(database, POOL, [encode(event) for event in events])
    spans = (await read_spans(database, 0, 60_000, settings, 30_000))[POOL]
    first, never_ran = spans[0]["t1"], spans[30_000]["t1"]
    assert (first.requests, first.tokens, first.work) == (1, 19, 8 + 2 * 7)
    assert (first.slot_ms, first.token_ms, list(first.waits.values())) == (2_000, 38_000, [1])
    assert (never_ran.requests, never_ran.slot_ms, list(never_ran.waits)) == (1, 0, [37])
    assert (spans[0]["t2"].requests, spans[0]["t2"].waits.total()) == (1, 0)
    assert await read_spans(database, 60_000, 90_000, settings, 30_000) == {}


async def looks_until_lifted(town: NoisyTown) -> int:
    """How many spans it takes in which nobody asks at all."""
    for looks in range(1, 200):
        town.now += RULES.span_ms
        await town.watch.step(town.now + POSTED_AFTER_MS)
        if not [terms for terms in await list_terms(town.db) if terms.slots_max is not None]:
            return looks
    raise AssertionError("it is throttled for ever")


async def test_a_throttle_ends_with_its_finding_and_lasts_longer_after_a_relapse(
    sqlite: Database, redis: Redis, settings: Settings
) -> None:
    """INV-29: Also where nobody uses the pool any more. Who was noisy today has to be calm twice as long."""
    town = await a_town(sqlite, redis, settings)
    lasted: list[int] = []
    for _ in range(2):
        await town.noise(8)
        assert len(await list_findings(sqlite)) == 1
        assert await town.slots_max() is not None
        lasted.append(await looks_until_lifted(town))
        assert await list_findings(sqlite) == []
        assert await town.slots_max() is None
        await town.peace(30)
    assert 2 * RULES.calm_spans > lasted[0] >= RULES.calm_spans
    assert lasted[1] >= 2 * RULES.calm_spans


async def test_what_is_only_proposed_from_now_on_throttles_nobody(
    sqlite: Database, redis: Redis, settings: Settings
) -> None:
    """INV-29: The setting was `throttle`, and the finding goes on as a proposal."""
    town = await a_town(sqlite, redis, settings)
    await town.noise(8)
    assert await town.slots_max() is not None
    town.switch("propose")
    await redis.delete(f"{settings.installation}:noisy")
    await town.spans(1, hog_tokens=2_000, wait_ms=5_000)
    assert await town.slots_max() is None
    (found,) = await list_findings(sqlite)
    assert (found.state, found.lifted_ms is None) == (FindingState.OPEN, False)

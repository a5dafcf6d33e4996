"""What is booked by hand reaches what enforces limits in the same operation, and R4 stays equal."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from billing.enforcement.limit_cache import LimitCache
from billing.enforcement.limit_settings import LIMITS_CHANGED
from billing.enforcement.push_wallets import counts_in, push_money_limits
from billing.ledger.grant_spending import GrantKind
from billing.limits import WALLET, WALLET_WINDOW, MoneyLimit, Scope
from billing.periods import LAST_MS, PeriodWindow
from billing.posting.biller import post
from billing.posting.quarantine import held_events
from billing.quota.packing import SETTLED_KEEP_MS
from billing.quota.types import Admitted
from billing.tables.tenants import UsageRow
from billing.tenants.tenancy import CONTROL_CHANNEL, ControlNews, create_tenant
from billing.usage import encode
from billing.wallets.wallets import NewGrant, grant
from core.clock import now_ms
from core.configuration.settings import Settings
from core.errors import Refusal
from core.sql.database import Database
from tests.billing.acme import Acme
from tests.billing.events import an_event
from tests.billing.quota.quota_ledger import COST, QuotaLedger
from tests.support.patience import soon
from tests.support.redis import Redis

LEAST = 12 + 1 + 2 + 1  # what a request is admitted for: its input and one token, rounded up


@pytest.fixture
def acme(home: Path, redis_url: str, sqlite_template: Path) -> Acme:
    """On a SQLite and an empty Redis of its own."""
    return Acme(home, redis_url, sqlite_template)


def test_a_refunded_wallet_sends_again(acme: Acme) -> None:
    """What `usage correct` gives back can be spent by the next request; nothing has to be repaired."""
    acme.parley("wallets", "grant", "--tenant", "acme", "--amount", "0.000000030 USD", "--key", "first")
    acme.spends("a")
    assert isinstance(acme.asks("b"), Refusal)
    acme.parley("usage", "correct", "a", "--tenant", "acme", "--output", "0", "--cause", "ticket 1")
    acme.agrees()
    assert isinstance(acme.asks("c"), Admitted)


def test_a_hard_budget_is_not_passed_after_a_correction_upwards(acme: Acme) -> None:
    """What a correction adds is spent for the next request, whose hold counts beside it."""
    acme.does(lambda books: books.budget(COST + LEAST))
    acme.spends("a")
    acme.parley("usage", "correct", "a", "--tenant", "acme", "--output", "8", "--cause", "ticket 1")
    acme.agrees()
    assert isinstance(acme.asks("b"), Refusal)


def test_a_correction_that_was_booked_and_not_told_is_told_when_it_is_said_again(acme: Acme) -> None:
    """Redis was away between: the books say so already, and Redis learns it now."""
    acme.does(lambda books: books.budget(COST + LEAST))
    acme.spends("a")
    said = ("correct", "a", "--tenant", "acme", "--output", "0", "--cause", "ticket 1")
    acme.parley("usage", *said)

    async def forget(books: QuotaLedger) -> None:
        (key,) = [key async for key in books.redis.scan_iter(match="{t:*}m*:tenant:*")]
        await books.redis.hset(key, mapping={"posted": COST, "seed": 3})

    acme.does(forget)
    assert "already" in acme.parley("usage", *said).output
    acme.agrees()


def test_what_quarantine_accepts_counts_at_once(acme: Acme) -> None:
    """As a correction of what was billed: the budget has it, and R4 agrees."""
    acme.does(lambda books: books.budget(COST + LEAST))
    acme.spends("a")

    async def another(books: QuotaLedger) -> str:
        later = books.event("a", output_text=8, cost_nano=COST + 2)
        await post(books.db, "A", [encode(later)])
        (held,) = await held_events(books.db)
        return held.event_sha256

    acme.parley("quarantine", "accept", acme.does(another), "--reason", "late token")
    acme.agrees()
    assert isinstance(acme.asks("b"), Refusal)


async def a_quarter_passes(books: QuotaLedger) -> None:
    """Redis forgets what it keeps no longer than settled requests."""
    keys = [key async for key in books.redis.scan_iter(match="{t:*}rq:*")]
    for key in keys:
        if 0 < await books.redis.pttl(key) <= SETTLED_KEEP_MS:
            await books.redis.delete(key)


def test_what_is_booked_late_is_counted_once(acme: Acme) -> None:
    """The biller was away for longer than a settled request is known, or somebody decided that late on an
    event: what the worker settled does not count beside the books for ever."""

    async def late(books: QuotaLedger) -> list[tuple[int, int, int]]:
        for name in ("billed", "accepted", "dismissed"):
            assert isinstance(await books.ask(name), Admitted)
            wrong = {} if name == "billed" else {"cost_nano": COST + 5}
            await books.quota.settle(books.event(name, **wrong))
            await a_quarter_passes(books)
        await books.spend("billed")
        for name in ("accepted", "dismissed"):
            await post(books.db, "A", [encode(books.event(name, cost_nano=COST + 5))])
        return await books.posted()

    acme.does(lambda books: books.budget(10 * COST))
    assert acme.does(late) == [(COST, 2 * (COST + 5), 0)]
    for event, verb in zip(acme.does(held), ("accept", "dismiss"), strict=True):
        acme.parley("quarantine", verb, event, "--reason", "late")
    assert acme.does(QuotaLedger.posted) == [(2 * COST, 0, 0)]
    acme.agrees()


async def held(books: QuotaLedger) -> list[str]:
    """The events that wait for a decision."""
    return [each.event_sha256 for each in await held_events(books.db)]


async def test_a_grant_pays_for_nothing_from_its_end_on(sqlite: Database, settings: Settings) -> None:
    """The gateway knows when the wallet falls next, and reads it then, not some seconds later."""
    tenant = (await create_tenant(sqlite, "acme")).tenant_id
    now = now_ms()
    ends = now + 600_000
    await grant(sqlite, tenant, NewGrant(GrantKind.PROMO, 500, "a", expires_ms=ends))
    book = LimitCache(sqlite)
    before = await book.limits_for(tenant, "p1", "k1", "u1", "m1", ends - 1)
    after = await book.limits_for(tenant, "p1", "k1", "u1", "m1", ends)
    assert ([each.limit_nano for each in before.money], [each.limit_nano for each in after.money]) == (
        [500],
        [0],
    )


def counted(scope: Scope, of: str, accepted_ms: int = 1_000, period: str = "month") -> bool:
    """Whether a request counts for somebody, in the window from 1,000 ms on or in a wallet."""
    window = WALLET_WINDOW if period == WALLET else PeriodWindow(1_000, 2_000)
    facts: dict[str, Any] = {"accepted_ms": accepted_ms, "ended_ms": 1_500, "model": "m"}
    request = UsageRow(project_id="p", key_id="rotated", user_id="u", **facts)
    return counts_in(MoneyLimit(scope, of, period, window, 1), request, "k")


def test_a_request_counts_for_its_own_in_the_window_that_it_was_accepted_in() -> None:
    """And in the wallet whenever it was. What it does not count in is not read anew."""
    own = {Scope.TENANT: "", Scope.PROJECT: "p", Scope.KEY: "k", Scope.USER: "u", Scope.MODEL: "m"}
    assert set(own) == set(Scope)
    for scope, id in own.items():
        found = [other for other in (*own.values(), "x") if counted(scope, other)]
        assert found == [id]
    assert [counted(Scope.USER, "u", at) for at in (999, 1_000, 1_999, 2_000)] == [False, True, True, False]
    assert counted(Scope.TENANT, "", LAST_MS, WALLET)


async def test_gateways_hear_of_what_is_booked_by_hand(
    sqlite: Database, redis: Redis, settings: Settings
) -> None:
    """They keep what a wallet has left: who was given his money back would be refused until they look."""
    tenant = (await create_tenant(sqlite, "acme")).tenant_id
    await post(sqlite, "default", [encode(an_event("a", tenant))])
    async with redis.pubsub() as listener:
        await listener.subscribe(CONTROL_CHANNEL)
        await soon(listener.get_message(timeout=None))
        await push_money_limits(sqlite, redis, tenant, "a")
        message = await soon(listener.get_message(timeout=None))
    assert message is not None
    heard = bytes(message["data"] or b"")  # type: ignore[arg-type]
    news = msgspec.json.decode(heard, type=ControlNews)
    assert (news.kind, news.tenant) == (LIMITS_CHANGED, tenant)

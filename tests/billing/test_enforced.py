"""What is booked by hand reaches what enforces limits in the same operation, and R4 stays equal."""

import asyncio
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from redis.asyncio import Redis

from billing.commands.quarantine import quarantine_command
from billing.commands.usage import usage_command
from billing.commands.wallets import wallets_command
from billing.posting.biller import post
from billing.posting.quarantine import held_events
from billing.quotas.limit_book import LimitBook
from billing.quotas.quota_types import Admitted
from billing.reconciliation.board import Reconciliation
from billing.reconciliation.compared import Check, State
from billing.tenants.tenancy import create_tenant, find_tenant
from billing.usage import encode
from billing.wallets.purse import GrantKind
from billing.wallets.wallets import NewGrant, grant
from core.clock import now_ms
from core.database import Database
from core.errors import Refusal
from core.redis import MultiplexedRedis
from core.settings import Settings
from tests.billing.test_quota_books import COST, Books
from tests.helpers.home import settings_in

COMMANDS = {"quarantine": quarantine_command, "usage": usage_command, "wallets": wallets_command}
LEAST = 12 + 1 + 2 + 1  # what a request is admitted for: its input and one token, rounded up


class Acme:
    """The tenant acme, with books and counts in Redis, and commands that are typed on them."""

    def __init__(self, home: Path, redis_url: str) -> None:
        self._home = home
        self._redis_url = redis_url

    def parley(self, name: str, *arguments: str) -> Result:
        """Types a command that must work."""
        environment = {"PARLEY_HOME": str(self._home), "PARLEY_REDIS_URL": self._redis_url}
        result = CliRunner().invoke(COMMANDS[name], arguments, env=environment)
        assert result.exit_code == 0, (result.output, result.exception)
        return result

    def does(self, action: Callable[[Books], Awaitable[Any]]) -> Any:
        """Something with the books and the slot, as the platform does it."""

        async def run() -> Any:
            settings = settings_in(self._home, redis_url=self._redis_url)
            db, redis = Database(settings.database_endpoint), MultiplexedRedis.from_url(self._redis_url)
            try:
                tenant = await find_tenant(db, "acme")
                assert tenant is not None
                return await action(Books(db, redis, settings, tenant.tenant_id))
            finally:
                await redis.aclose()
                await db.close()

        return asyncio.run(run())

    def asks(self, request: str) -> Admitted | Refusal:
        """A request's answer."""
        return self.does(lambda books: books.ask(request))

    def spends(self, request: str) -> None:
        """A request that is admitted, answered, posted and counted: it costs COST."""

        async def spend(books: Books) -> None:
            assert isinstance(await books.ask(request), Admitted)
            await books.spend(request)

        self.does(spend)

    def agrees(self) -> None:
        """R4: Redis has posted what SQL has, of the tenant and of each budget."""

        async def look(books: Books) -> None:
            settings = settings_in(self._home, redis_url=self._redis_url)
            found = await Reconciliation(books.db, books.redis, settings).run({Check.R4}, books.tenant)
            assert [each.facts() for each in found if each.state is not State.EQUAL] == []

        self.does(look)


@pytest.fixture
def acme(home: Path, redis_url: str, sqlite_template: Path) -> Acme:
    """On a SQLite and an empty Redis of its own."""
    shutil.copy(sqlite_template, home / "parley.db")

    async def prepare() -> None:
        db, redis = Database(f"sqlite+aiosqlite:///{home / 'parley.db'}"), Redis.from_url(redis_url)
        await redis.flushall()
        await create_tenant(db, "acme")
        await redis.aclose()
        await db.close()

    asyncio.run(prepare())
    return Acme(home, redis_url)


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

    async def forget(books: Books) -> None:
        (key,) = [key async for key in books.redis.scan_iter(match="{t:*}m*:tenant:*")]
        await books.redis.hset(key, mapping={"posted": COST, "seed": 3})

    acme.does(forget)
    assert "already" in acme.parley("usage", *said).output
    acme.agrees()


def test_what_quarantine_accepts_counts_at_once(acme: Acme) -> None:
    """As a correction of what was billed: the budget has it, and R4 agrees."""
    acme.does(lambda books: books.budget(COST + LEAST))
    acme.spends("a")

    async def another(books: Books) -> str:
        later = books.event("a", output_text=8, cost_nano=COST + 2)
        await post(books.db, "A", [encode(later)])
        (held,) = await held_events(books.db)
        return held.event_sha256

    acme.parley("quarantine", "accept", acme.does(another), "--reason", "late token")
    acme.agrees()
    assert isinstance(acme.asks("b"), Refusal)


async def test_a_grant_pays_for_nothing_from_its_end_on(sqlite: Database, settings: Settings) -> None:
    """The gateway knows when the wallet falls next, and reads it then, not some seconds later."""
    tenant = (await create_tenant(sqlite, "acme")).tenant_id
    now = now_ms()
    ends = now + 600_000
    await grant(sqlite, tenant, NewGrant(GrantKind.PROMO, 500, "a", expires_ms=ends))
    book = LimitBook(sqlite)
    before = await book.limits_for(tenant, "p1", "k1", "u1", "m1", ends - 1)
    after = await book.limits_for(tenant, "p1", "k1", "u1", "m1", ends)
    assert ([each.limit_nano for each in before.money], [each.limit_nano for each in after.money]) == (
        [500],
        [0],
    )

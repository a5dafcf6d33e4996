"""`parley demo seed`, small, with a running biller: what it sent is booked, and no check differs."""

import asyncio
import json
from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from click.testing import CliRunner, Result
from sqlmodel import col, func, select

from admin.examples.commands import demo_command
from admin.examples.seed import SeedOrder, budget_period, require_free, seed_examples
from billing.api import Reconciliation, Stores, create_tenant, find_tenant, list_tenants
from billing.reconciliation.comparison import Check
from billing.shared_commands import active_consumers
from billing.tables.audit import AuditLog
from billing.tables.tenants import UsageQuarantine, UsageRow
from billing.tenants.keys import list_keys
from billing.wallets.budgets import budget_standings
from billing.wallets.owed import owed_by
from core.clock import now_ms
from core.configuration.settings import Settings
from core.errors import StartupError
from core.sql.database import Database
from tests.billing.posting.billers import a_biller
from tests.support.home import TEST_SECRET, settings_in
from tests.support.patience import wait_until
from tests.support.redis import Redis

ORDER = SeedOrder(days=40, tenants=8, requests=8, seed=1)


def quiet(_: str) -> None:
    """Nobody listens."""


@pytest.fixture
async def stores(sqlite: Database, redis: Redis, settings: Settings) -> AsyncGenerator[Stores]:
    """The stores of an installation whose biller runs."""
    async with a_biller(sqlite, redis, settings):

        async def reads() -> bool:
            return bool(await active_consumers(redis, settings.pool, 60_000))

        await wait_until(reads)
        yield Stores(settings, sqlite, lambda: redis)


async def count(db: Database, table: type[UsageRow | UsageQuarantine | AuditLog]) -> int:
    """How many rows there are."""
    async with db.session() as session:
        return (await session.exec(select(func.count()).select_from(table))).one()


async def id_of(db: Database, name: str) -> str:
    """A tenant's."""
    tenant = await find_tenant(db, name)
    assert tenant is not None
    return tenant.tenant_id


async def test_all_is_booked_and_every_check_is_equal(stores: Stores, redis: Redis):
    """By the ledger, by Redis' counts, by hash chains from their first rows. Budgets, wallets and keys are in
    the states that are worth a look. Said again, it adds nothing."""
    said: list[str] = []
    seeded = await seed_examples(stores, ORDER, said.append, said.append)
    db, sent = stores.db, sum(seeded.requests.values())
    assert abs(sent - ORDER.days * ORDER.requests) < 20
    assert f"{sent} requests are booked" in said
    assert (await count(db, UsageRow), await count(db, UsageQuarantine)) == (sent, 0)
    async with db.session() as session:
        booked = (await session.exec(select(func.sum(col(UsageRow.cost_nano))))).one()
    assert booked == sum(seeded.cost_nano.values())
    compared = await Reconciliation(db, redis, stores.settings).run(whole=True)
    assert [each for each in compared if each.difference or each.waiting] == []
    assert {Check.R1, Check.R2, Check.R4, Check.R7, Check.R8} <= {each.check for each in compared}
    await _states_are_worth_a_look(db)
    changes = await count(db, AuditLog)
    with pytest.raises(StartupError, match=r"already are tenants acme, .*: nothing was added"):
        await seed_examples(stores, ORDER, quiet, quiet)
    assert (await count(db, UsageRow), await count(db, AuditLog)) == (sent, changes)


async def _states_are_worth_a_look(db: Database) -> None:
    parts = dict[str, int]()
    for name in ("acme", "initech"):
        for budget, (standing,) in await budget_standings(db, await id_of(db, name), now_ms()):
            if budget.scope == "tenant":
                parts[name] = round(100 * standing.spent_nano / standing.limit_nano)
    assert parts == {"acme": 82, "initech": 101}
    assert await owed_by(db, await id_of(db, "umbra")) > 0
    assert await owed_by(db, await id_of(db, "globex")) == 0
    keys = {key.name: key for key in await list_keys(db, await id_of(db, "acme"))}
    assert keys["chat-web-old"].revoked_ms is not None
    assert keys["contractor-trial"].expires_ms is not None
    assert await list_keys(db, await id_of(db, "stark")) == []


async def test_without_a_biller_nothing_is_made(sqlite: Database, redis: Redis, settings: Settings):
    """Nobody would book it; it says what to start."""
    with pytest.raises(StartupError, match="no biller books what ends in pool default: start `parley up`"):
        await seed_examples(Stores(settings, sqlite, lambda: redis), ORDER, quiet, quiet)
    assert list(await list_tenants(sqlite)) == []


def test_tenants_of_ones_own_get_no_company():
    """Unless that is wanted; the demo tenant is nobody's own."""
    require_free(ORDER, [])
    require_free(ORDER, ["demo"])
    with pytest.raises(StartupError, match=r"tenants of its own \(client\).*or say --yes"):
        require_free(ORDER, ["demo", "client"])
    willing = SeedOrder(60, 8, 1, 1, among_real=True)
    require_free(willing, ["demo", "client"])
    with pytest.raises(StartupError, match="there already are tenants acme, stark:"):
        require_free(willing, ["acme", "stark"])


async def test_what_a_biller_with_another_secret_holds_is_not_booked(stores: Stores, redis: Redis):
    """The first request shows it: no other is sent."""
    other = settings_in(stores.settings.home, redis_url=stores.settings.redis_endpoint, secret="o" * 40)
    with pytest.raises(StartupError, match="has it another PARLEY_SECRET"):
        await seed_examples(Stores(other, stores.db, lambda: redis), ORDER, quiet, quiet)
    assert (await count(stores.db, UsageRow), await count(stores.db, UsageQuarantine)) == (0, 1)


async def typed(settings: Settings, *arguments: str) -> Result:
    """The command, in a thread, while the biller runs here."""
    environment = {
        "PARLEY_HOME": str(settings.home),
        "PARLEY_REDIS_URL": settings.redis_endpoint,
        "PARLEY_SECRET": TEST_SECRET,
    }
    return await asyncio.to_thread(CliRunner(env=environment).invoke, demo_command, ["seed", *arguments])


async def test_the_command_prints_what_it_made(stores: Stores):
    """For scripts as one line, by tenants' names; the new tenant has no requests."""
    done = await typed(stores.settings, "--days", "3", "--tenants", "2", "--requests-per-day", "7", "--json")
    assert done.exit_code == 0, (done.output, done.exception)
    made = json.loads(done.stdout.splitlines()[-1])
    assert made["requests"].keys() == {"acme", "stark"}
    assert made["requests"]["stark"] == 0
    assert made["requests"]["acme"] == await count(stores.db, UsageRow)


async def test_the_command_says_why_it_refuses(stores: Stores):
    """As any other does; whoever insists gets both."""
    await create_tenant(stores.db, "client")
    ended = await typed(stores.settings)
    assert isinstance(ended.exception, StartupError)
    assert "tenants of its own (client)" in str(ended.exception)
    done = await typed(stores.settings, "--days", "1", "--tenants", "1", "--requests-per-day", "5", "--yes")
    assert done.exit_code == 0, (done.output, done.exception)
    assert "Look: the console" in done.stdout
    assert {each.name for each in await list_tenants(stores.db)} == {"client", "acme"}


def test_a_budget_is_of_the_month_once_something_was_spent_in_it():
    """In the tenant's zone; before that, of all that was spent."""
    zone = ZoneInfo("Europe/Berlin")
    end_ms = int(datetime(2026, 11, 3, tzinfo=UTC).timestamp() * 1000)
    first_ms = int(datetime(2026, 11, 1, tzinfo=zone).timestamp() * 1000)
    assert budget_period([(first_ms - 1, 5), (first_ms, 7)], zone, end_ms) == ("month", 7)
    assert budget_period([(first_ms - 1, 5)], zone, end_ms) == ("lifetime", 5)

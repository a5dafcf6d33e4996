"""The tenant acme, with books and counts in Redis, and commands that are typed on them."""

import asyncio
import json
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from billing.cli.budgets import budgets_command
from billing.cli.keys import keys_command
from billing.cli.noisy import noisy_command
from billing.cli.plans import plans_command
from billing.cli.prices import prices_command
from billing.cli.projects import cost_centers_command, projects_command
from billing.cli.quarantine import quarantine_command
from billing.cli.sessions import sessions_command
from billing.cli.tenants import tenants_command
from billing.cli.usage import usage_command
from billing.cli.users import users_command
from billing.cli.wallets import wallets_command
from billing.quota.types import Admitted
from billing.reconciliation.comparison import Check, ComparisonState
from billing.reconciliation.run import Reconciliation
from billing.tables.ledger import UsageLine
from billing.tenants.tenancy import create_tenant, find_tenant
from core.errors import Refusal
from core.sql.database import Database
from tests.billing.ledger.ledger_reading import read
from tests.billing.quota.quota_ledger import QuotaLedger
from tests.support.home import settings_in
from tests.support.redis import Redis

COMMANDS = {
    "budgets": budgets_command,
    "cost-centers": cost_centers_command,
    "keys": keys_command,
    "noisy": noisy_command,
    "plans": plans_command,
    "prices": prices_command,
    "projects": projects_command,
    "sessions": sessions_command,
    "tenants": tenants_command,
    "quarantine": quarantine_command,
    "usage": usage_command,
    "users": users_command,
    "wallets": wallets_command,
}


class Acme:
    """An installation with one tenant."""

    def __init__(self, home: Path, redis_url: str, template: Path) -> None:
        self._home = home
        self._redis_url = redis_url
        shutil.copy(template, home / "parley.db")

        async def prepare() -> None:
            db, redis = Database(f"sqlite+aiosqlite:///{home / 'parley.db'}"), Redis.from_url(redis_url)
            await redis.flushall()
            await create_tenant(db, "acme")
            await redis.aclose()
            await db.close()

        asyncio.run(prepare())

    def types(self, name: str, *arguments: str, **settings: str) -> Result:
        """A command of the tenant, under settings."""
        environment = {"PARLEY_HOME": str(self._home), "PARLEY_REDIS_URL": self._redis_url}
        given = {f"PARLEY_{each.upper()}": value for each, value in settings.items()}
        return CliRunner().invoke(COMMANDS[name], arguments, env={**environment, **given})

    def parley(self, name: str, *arguments: str, **settings: str) -> Result:
        """Types one that must work."""
        result = self.types(name, *arguments, **settings)
        assert result.exit_code == 0, (result.output, result.exception)
        return result

    def told(self, name: str, *arguments: str) -> list[dict[str, Any]]:
        """What one that must work says to scripts, an object a line."""
        return [json.loads(line) for line in self.parley(name, *arguments, "--json").stdout.splitlines()]

    def refuses(self, name: str, *arguments: str) -> str:
        """What is said of one that must not work."""
        result = self.types(name, *arguments)
        assert result.exit_code != 0, result.output
        return result.output if isinstance(result.exception, SystemExit) else str(result.exception)

    def does(self, action: Callable[[QuotaLedger], Awaitable[Any]]) -> Any:
        """Something with the books and the slot, as the platform does it."""

        async def run() -> Any:
            settings = settings_in(self._home, redis_url=self._redis_url)
            db, redis = Database(settings.database_endpoint), Redis.from_url(self._redis_url)
            try:
                tenant = await find_tenant(db, "acme")
                assert tenant is not None
                return await action(QuotaLedger(db, redis, settings, tenant.tenant_id))
            finally:
                await redis.aclose()
                await db.close()

        return asyncio.run(run())

    def asks(self, request: str) -> Admitted | Refusal:
        """A request's answer."""
        return self.does(lambda books: books.ask(request))

    def spends(self, request: str) -> None:
        """A request that is admitted, answered, posted and counted: it costs COST."""

        async def spend(books: QuotaLedger) -> None:
            assert isinstance(await books.ask(request), Admitted)
            await books.spend(request)

        self.does(spend)

    def agrees(self) -> None:
        """R4: Redis has posted what SQL has, of the tenant and of each budget."""

        async def look(books: QuotaLedger) -> None:
            settings = settings_in(self._home, redis_url=self._redis_url)
            found = await Reconciliation(books.db, books.redis, settings).run({Check.R4}, books.tenant)
            assert [each.facts() for each in found if each.state is not ComparisonState.EQUAL] == []

        self.does(look)

    def cost(self) -> int:
        """What all that is in the books costs, in nano-USD."""

        async def look(books: QuotaLedger) -> int:
            return sum(line.amount_nano for line in await read(books.db, UsageLine, books.tenant))

        return self.does(look)

"""`parley --url`: commands over the API of a console that runs, as they are on the machine itself."""

import asyncio
import json
import os
import shlex
import shutil
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner, Result
from starlette.types import ASGIApp

from admin.console import Console
from billing.cli import performers
from billing.cli.performers import ApiPerformer
from billing.operations import keys, tenants
from billing.operations.keys import CreateKey
from billing.operations.tenants import CreateTenant, ListTenants
from billing.people.persons import create_member
from billing.people.service_tokens import create_token
from billing.pools import edit_pool, read_pools
from billing.tables.tenants import PLATFORM
from billing.unit_of_work.units import Terms
from core.api_address import LOCAL_ONLY
from core.cli import parley
from core.configuration.settings import Settings
from core.errors import StartupError
from core.operations import Role, operation_of
from core.redis.pools import announce_pool
from core.sql.database import Database
from tests.admin.api.conftest import ApiSite
from tests.billing.cli.commands import on_database
from tests.browser.console_page import running_console
from tests.support.home import TEST_SECRET
from tests.support.models import add_model
from tests.support.ports import free_ports
from tests.support.redis import Redis

SEED = (
    "tenants create acme",
    "tenants create globex",
    "keys create --tenant acme --name ci",
    "users create ada --tenant acme",
    "projects create web --tenant acme",
    "cost-centers create cc1 --tenant acme",
    "limits set --tenant acme --scope tenant --dimension concurrency --limit 60",
    'budgets set --tenant acme --limit "25 USD"',
    "plans create gold",
    'wallets grant --tenant globex --amount "3 USD" --key k1',
)
# What reads, what changes nothing a second time, and dry runs.
SAME = (
    "tenants list",
    "tenants show acme",
    "tenants show globex",
    "tenants terms acme",
    "tenants terms acme --weight 4 --slots-max 16 --tokens-max none --reason r",
    "tenants set acme --show-costs --prefix-cache-scope owner --reason r",
    "tenants create initech --dry-run --reason r",
    "tenants close globex --cancel --dry-run --reason r",
    "keys list --tenant acme",
    "people admins --tenant acme",
    "users list --tenant acme",
    "users close ada --tenant acme --dry-run --reason r",
    "keys create --tenant acme --dry-run --reason r",
    "projects list --tenant acme",
    "projects charge-to web cc1 --tenant acme --dry-run --reason r",
    "cost-centers list --tenant acme",
    "limits list --tenant acme",
    "budgets list --tenant acme",
    "plans list",
    "plans show gold",
    "plans assign acme gold --reason r",
    "pools list",
    "wallets list",
    "wallets show --tenant globex",
    "wallets show --tenant globex --history --last 5",
    "wallets owed --tenant globex",
    "wallets expire --dry-run --reason r",
    'wallets pay-out --tenant globex --amount "2 USD" --key p1 --dry-run --reason r',
    "people list",
    "people invitations",
    "sessions list --tenant acme",
    "approvals list --all",
    "requests list",
    "requests find --tenant acme",
    "requests find --refused",
    "audit list --tenant acme --kind limit",
    "workers list",
    "safety show",
    "safety history",
    "safety try 'a card: 4111 1111 1111 1111'",
    "search acme",
    "operations --role viewer",
)
REFUSED = (
    "tenants show nobody",
    "tenants show ..",
    "tenants create acme --reason r",
    "keys revoke nokey --tenant acme --reason r",
    "budgets show nothing --tenant acme",
    "plans show nothing",
    'wallets pay-out --tenant globex --amount "2 USD" --key p1 --reason r',
    'wallets pay-out --tenant globex --amount "9 USD" --key p1 --reason r --yes',
)


LOCAL = {"backup": "backup x", "users export": "users export ada --tenant acme"}


@dataclass
class TypedCommands:
    """Somebody who types commands, here and over the API of a console at `url`."""

    url: str
    environment: dict[str, str]
    token: str = ""

    async def here(self, line: str) -> Result:
        """On the machine of the installation."""
        return await self._run(shlex.split(line), {})

    async def over(self, line: str, url: str = "") -> Result:
        """Over the API, where nothing of the installation is at hand."""
        home = {
            "PARLEY_HOME": "/nonexistent",
            "PARLEY_REDIS_URL": "redis://127.0.0.1:1",
            "PARLEY_TOKEN": self.token,
        }
        return await self._run(["--url", url or self.url, *shlex.split(line)], home)

    async def _run(self, words: list[str], changed: dict[str, str]) -> Result:
        runner = CliRunner(env=self.environment | changed)
        result = await asyncio.to_thread(runner.invoke, parley, words)
        if result.exception is not None and not isinstance(result.exception, StartupError | SystemExit):
            raise result.exception
        return result


def said(result: Result) -> str:
    """The one line of a refusal."""
    assert isinstance(result.exception, StartupError), (result.output, result.exception)
    return str(result.exception)


def shown(result: Result, line: str = "") -> list[dict[str, Any]]:
    """The JSON lines of a command that went well; of a dry run's without what each makes anew."""
    assert result.exit_code == 0, (line, result.output, result.exception)
    rows = [json.loads(each) for each in result.stdout.splitlines()]
    anew = {"tenant", "created", "closed", "from", "key", "prefix"} if "--dry-run" in line else set[str]()
    return [{name: value for name, value in row.items() if name not in anew} for row in rows]


def private_copy(typed: TypedCommands, secret: str) -> Path:
    """A file with a token."""
    file = Path(typed.environment["PARLEY_HOME"], "token")
    file.write_text(f"{secret}\n")
    return file


@pytest.fixture
async def typed(settings: Settings, sqlite_template: Path) -> AsyncIterator[TypedCommands]:
    """At an installation that was used."""
    shutil.copy(sqlite_template, settings.home / "parley.db")
    environment = {
        "PARLEY_HOME": str(settings.home),
        "PARLEY_REDIS_URL": settings.redis_endpoint,
        "PARLEY_SECRET": TEST_SECRET,
    }
    async with running_console(settings) as url:
        commands = TypedCommands(url, environment)
        for line in SEED:
            result = await commands.here(line)
            assert result.exit_code == 0, (line, result.output, result.exception)
        (made,) = shown(await commands.here("tokens create ci --role owner --json"))
        commands.token = made["secret"]
        yield commands


async def test_commands_print_the_same_over_the_api(typed: TypedCommands) -> None:
    """As JSON, and what is refused in the same line."""
    for line in SAME:
        here, over = await typed.here(f"{line} --json"), await typed.over(f"{line} --json")
        assert shown(here, line) == shown(over, line), line
    for line in REFUSED:
        here, over = await typed.here(line), await typed.over(line)
        assert said(here) == said(over), line


async def test_what_is_changed_over_the_api_is_done_once_and_recorded(typed: TypedCommands) -> None:
    """Money only with --yes above what goes unasked; the audit log has the token's name and the reason."""
    pay = 'wallets pay-out --tenant globex --amount "2 USD" --key p1 --json --reason "ticket 7"'
    assert "say --yes" in said(await typed.over(pay))
    assert shown(await typed.over(f"{pay} --yes"))
    (left,) = shown(await typed.here("wallets list --json"))
    assert left["left_nano"] == 10**9
    last = shown(await typed.here("audit list --tenant globex --json"))
    assert any(each["author"] == "token ci" and "ticket 7" in str(each) for each in last), last
    assert "reason" in said(await typed.over("tenants close globex --cancel"))
    (closed,) = shown(await typed.over("tenants close globex --cancel --reason r --json"))
    assert (closed["cancelled"], closed["wallet_left_nano"]) == (0, 10**9)


async def test_a_file_of_pools_is_applied_over_the_api(
    typed: TypedCommands, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As here; what somebody else changed after the difference was shown is not overwritten."""
    db = Database(settings.database_endpoint)
    await add_model(db, "m")
    (file := settings.home / "pools.yaml").write_text("pools:\n  - {pool: a, model: m, workers: 2}\n")
    apply = f"apply -f {file} --reason r"
    (made,) = shown(await typed.over(f"{apply} --yes --json"))
    assert (made["action"], made["done"]) == ("create", True)
    assert shown(await typed.here("pools export --json")) == shown(await typed.over("pools export --json"))
    assert shown(await typed.over(f"{apply} --yes --json")) == []
    file.write_text("pools:\n  - {pool: a, workers: 3}\n")

    def meanwhile(question: str) -> bool:
        on_database(settings.home, lambda other: edit_pool(other, "a", {"workers": 8}))
        return True

    monkeypatch.setattr("billing.cli.apply.agrees", meanwhile)
    assert "it was changed since you read it" in said(await typed.over(apply))
    assert [pool.workers for pool in await read_pools(db)] == [8]
    await db.close()


async def test_a_move_that_takes_two_people_waits(typed: TypedCommands, settings: Settings) -> None:
    """It is told, and nothing is booked; who approves it does so in the console."""
    db = Database(settings.database_endpoint)
    for name in ("Ann", "Bob"):
        await create_member(db, PLATFORM, name, Role.OWNER)
    await db.close()
    waits = await typed.over('wallets grant --tenant globex --amount "300 USD" --key k9 --reason r --json')
    assert "it is proposed, and another owner or finance person approves it" in said(waits)
    assert json.loads(waits.stdout)["done"] == "proposed"
    (left,) = shown(await typed.here("wallets list --json"))
    assert left["left_nano"] == 3 * 10**9


async def test_what_takes_long_is_followed_to_its_end(
    typed: TypedCommands, redis: Redis, settings: Settings
) -> None:
    """Over the API it goes on as a run; its answer is printed as here."""
    await announce_pool(redis, settings, "other")
    line = "requests migrate --all --from-pool default --to other --reason r"
    here, over = await typed.here(line), await typed.over(line)
    assert (here.exit_code, here.stdout) == (over.exit_code, over.stdout), over.exception
    assert "has no requests any more" in over.stdout


async def test_lists_are_read_page_by_page(typed: TypedCommands, monkeypatch: pytest.MonkeyPatch) -> None:
    """To their end."""
    monkeypatch.setattr("billing.cli.operations.LISTED_MAX", 1)
    names = [each["name"] for each in shown(await typed.over("tenants list --json"))]
    assert names == ["acme", "globex"]


async def test_a_token_does_what_its_role_may_until_it_is_revoked(typed: TypedCommands) -> None:
    """It comes from a file that only its owner reads, or from the environment."""
    (made,) = shown(await typed.here("tokens create reader --role support --json"))
    file = private_copy(typed, made["secret"])
    os.chmod(file, 0o644)
    by_file, owners, typed.token = f"--token-file {file}", typed.token, ""
    assert "chmod 600" in said(await typed.over(f"{by_file} tenants list"))
    os.chmod(file, 0o600)
    assert shown(await typed.over(f"{by_file} tenants list --json"))
    refused = said(await typed.over(f"{by_file} tenants create x --reason r"))
    assert "your role, support, may not do this" in refused
    assert "give the service token in PARLEY_TOKEN" in said(await typed.over("tenants list"))
    assert (await typed.here("tokens revoke reader")).exit_code == 0
    assert "revoked" in said(await typed.over(f"{by_file} tenants list"))
    typed.token = f"{owners}\nx"
    wrong = await typed.over("tenants list")
    assert "PARLEY_TOKEN holds no service token" in said(wrong)
    assert owners not in f"{wrong.output}{wrong.exception!r}"


async def test_commands_that_are_no_operations_say_so(typed: TypedCommands) -> None:
    """And change nothing of this machine; their help is there."""
    for line in ("up", "db migrate", "backup", "users export", "audit verify"):
        asked = LOCAL.get(line, line)
        assert said(await typed.over(asked)) == f"`parley {line}` {LOCAL_ONLY}"
    assert (await typed.over("up --help")).exit_code == 0
    assert "--author is for this machine" in said(await typed.over("--author x tenants list"))


async def test_where_no_console_answers_is_told(
    typed: TypedCommands, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the token, which goes over plain http only to this machine."""
    monkeypatch.setattr(performers, "PAUSE_SECONDS", 0.0)
    gone = f"http://127.0.0.1:{free_ports(1)[0]}"
    for url, told in (
        (gone, f"{gone} does not answer (ConnectError)"),
        (f"{typed.url}/web", "does not answer as a console of Parley does (status 404)"),
        ("http://console.example.org", "use https://console.example.org"),
        ("https://ann:secret@console.example.org", "name no user"),
        ("console.example.org", "expected a console's address"),
        ("http://[::1", "--url: "),
    ):
        result = await typed.over("tenants list", url)
        assert told in said(result), url
        assert typed.token not in f"{result.output}{result.exception!r}"


class CutTransport(httpx.AsyncBaseTransport):
    """A way to a console on which the first reply of each path is lost."""

    def __init__(self, app: ASGIApp) -> None:
        self._to = httpx.ASGITransport(app=app)
        self._cut = set[str]()
        self.keys: list[str] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a call on, and lose its first reply."""
        reply = await self._to.handle_async_request(request)
        self.keys.append(request.headers.get("idempotency-key", ""))
        if request.url.path not in self._cut:
            self._cut.add(request.url.path)
            raise httpx.ReadError("cut")
        return reply


async def test_a_change_whose_reply_is_lost_is_done_once(
    site: ApiSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is repeated under its key; a secret that was lost with the reply is said to be."""
    monkeypatch.setattr(performers, "PAUSE_SECONDS", 0.0)
    _, secret = await create_token(site.database, PLATFORM, "ci", "owner", 1)
    way = CutTransport(Console(site.settings, site.redis, site.database).app())
    client = httpx.AsyncClient(transport=way, headers={"authorization": f"Bearer {secret}"})
    async with client:
        performer, terms = ApiPerformer("http://console.localhost", client), Terms(reason="r")
        made = await performer.perform(operation_of(tenants.create_tenant), CreateTenant(name="acme"), terms)
        listed = await performer.perform(operation_of(tenants.list_tenants), ListTenants(), Terms())
        with pytest.raises(StartupError, match="its secret was lost with the connection"):
            await performer.perform(operation_of(keys.create_key), CreateKey(tenant="acme"), terms)
    assert (made.answer.name, [each.name for each in listed.answer.items]) == ("acme", ["acme"])
    first, again, *_ = way.keys
    assert first == again != ""

"""`parley wallets`, `budgets` and `alerts`, as an operator types and a script reads them."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from billing.cli.alerts import alerts_command
from billing.cli.arguments import instant_of, nano_of
from billing.cli.audit import audit_command
from billing.cli.budgets import budgets_command
from billing.cli.limits import limits_command
from billing.cli.tenants import tenants_command
from billing.cli.users import users_command
from billing.cli.wallets import wallets_command
from billing.enforcement.wallet_watch import expire_all
from billing.periods import Period, window_at, zone_named
from billing.tables.wallets import AlertTarget
from billing.tenants.tenancy import create_tenant
from billing.usage import UsageEvent
from billing.wallets.wallets import GrantKind, NewGrant, grant
from core.clock import now_ms
from core.errors import StartupError
from core.sql.database import Database
from tests.billing.cli.commands import rows, used
from tests.billing.events import an_event
from tests.billing.ledger.ledger_reading import read
from tests.billing.wallets.wallet_tenant import sound
from tests.support.patience import soon
from tests.support.redis import Redis

Command = Callable[..., Result]
OF_USER = ("--scope", "user", "--dimension", "concurrency", "--limit", "1")
TAKEN = ("--tenant", "acme", "--key", "t1")
COMMANDS = {
    "alerts": alerts_command,
    "audit": audit_command,
    "budgets": budgets_command,
    "limits": limits_command,
    "tenants": tenants_command,
    "users": users_command,
    "wallets": wallets_command,
}


@pytest.fixture
def parley(home: Path, redis_url: str, sqlite_template: Path) -> Command:
    """Runs `parley …` on a migrated SQLite of its own with the tenant acme in Berlin."""

    def run(name: str, *arguments: str, redis: str = redis_url) -> Result:
        environment = {"PARLEY_HOME": str(home), "PARLEY_REDIS_URL": redis}
        return CliRunner().invoke(COMMANDS[name], arguments, env=environment)

    shutil.copy(sqlite_template, home / "parley.db")
    assert run("tenants", "create", "acme").exit_code == 0
    assert run("tenants", "set", "acme", "--time-zone", "Europe/Berlin").exit_code == 0
    return run


def an_answer(request: str, **facts: Any) -> UsageEvent:
    """Usage of 3,700 nano, accepted now."""
    return an_event(request, accepted_ms=now_ms(), ended_ms=now_ms(), **facts)


def test_a_wallet_from_its_first_grant_to_its_statement(parley: Command, home: Path) -> None:
    """Granted twice under one key it is granted once. The statement's balance runs, and shows
    what was at any time."""
    top_up = ("grant", "--tenant", "acme", "--amount", "0.00001 USD", "--key", "cs_1", "--json")
    (first,), (second,) = rows(parley("wallets", *top_up)), rows(parley("wallets", *top_up))
    assert first["grant"] == second["grant"]
    assert (first["done"], first["left_nano"]) == ("granted", 10_000)
    ends = "2099-01-01"
    promo = ("--kind", "promo", "--expires", ends, "--amount", "0.000001 USD", "--key", "hello")
    assert rows(parley("wallets", "grant", "--tenant", "acme", *promo, "--json"))[0]["priority"] == 10
    used(home, [an_answer("r1")])
    grants = rows(parley("wallets", "show", "--tenant", "acme", "--json"))
    assert [(each["kind"], each["left_nano"], each["state"]) for each in grants] == [
        ("paid", 7_300, "open"),
        ("promo", 0, "spent"),
    ]
    assert grants[1]["expires"] == "2098-12-31T23:00:00+00:00"
    history = rows(parley("wallets", "show", "--tenant", "acme", "--history", "--json"))
    assert [(each["kind"], each["amount_nano"], each["balance_nano"]) for each in history] == [
        ("grant", 10_000, 10_000),
        ("grant", 1_000, 11_000),
        ("usage", -3_700, 7_300),
    ]
    past = ("--as-of", "2020-01-01")
    assert rows(parley("wallets", "show", "--tenant", "acme", *past, "--history", "--json")) == []
    (listed,) = rows(parley("wallets", "list", "--json"))
    assert (listed["left_nano"], listed["used_nano"]) == (7_300, 3_700)
    assert "$0.0000073" in parley("wallets", "show", "--tenant", "acme").output
    assert rows(parley("wallets", "expire", "--json")) == [{"expired": 0}]
    assert parley("wallets", "alert", "--tenant", "acme", "--thresholds", "30,10").exit_code == 0
    assert parley("audit", "verify").exit_code == 0


def test_a_budget_is_set_listed_overridden_and_ended(parley: Command, home: Path) -> None:
    """Everything about budgets can be done by a script. The list says when a
    budget begins anew, in the tenant's time zone, and what was spent before counts."""
    used(home, [an_answer("r1"), an_answer("r2", model="large")])
    limit = ("--limit", "0.00001 USD", "--thresholds", "50,100")
    (made,) = rows(parley("budgets", "set", "--tenant", "acme", *limit, "--json"))
    (listed,) = rows(parley("budgets", "list", "--tenant", "acme", "--json"))
    assert (listed["spent_nano"], listed["held_nano"], listed["left_nano"]) == (7_400, 0, 2_600)
    month = window_at(Period.MONTH, zone_named("Europe/Berlin"), now_ms())
    assert instant_of(listed["resets"], zone_named("UTC")) == month.end_ms
    assert "+0" in listed["resets"]
    assert (listed["percent"], listed["kind"], listed["of"]) == (74, "hard", "")
    reached = rows(parley("alerts", "list", "--tenant", "acme", "--json"))
    assert [(each["percent"], each["spent_nano"]) for each in reached] == [(50, 7_400)]
    less = (
        "override",
        "--tenant",
        "acme",
        made["budget"],
        "--limit",
        "0.0000074 USD",
        "--until",
        "2099-01-01",
    )
    assert parley("budgets", *less).exit_code == 0
    reached = rows(parley("alerts", "list", "--tenant", "acme", "--json"))
    assert 100 in [each["percent"] for each in reached], "at once, not when the next request ends"
    each_model = ("--scope", "model", "--period", "day", "--soft")
    (soft,) = rows(parley("budgets", "set", "--tenant", "acme", *limit, *each_model, "--json"))
    shown = rows(parley("budgets", "show", "--tenant", "acme", soft["budget"], "--json"))
    assert sorted(each["of"] for each in shown) == ["large", "smollm2"]
    more = ("--limit", "0.00005 USD", "--until", "2099-01-01")
    (raised,) = rows(parley("budgets", "override", "--tenant", "acme", made["budget"], *more, "--json"))
    assert (raised["limit_nano"], raised["override_nano"]) == (10_000, 50_000)
    (standing, _) = rows(parley("budgets", "list", "--tenant", "acme", "--json"))[::-1]
    assert {standing["left_nano"]} == {50_000 - 7_400}
    (again,) = rows(parley("budgets", "show", "--tenant", "acme", made["budget"], "--json"))
    assert again["budget"] == raised["budget"]  # an alert of before names it still
    ended = parley("budgets", "end", "--tenant", "acme", made["budget"])
    assert "ended" in ended.output
    assert parley("budgets", "end", "--tenant", "acme", made["budget"]).exit_code == 1
    assert len(rows(parley("budgets", "list", "--tenant", "acme", "--json"))) == 1
    assert len(rows(parley("budgets", "list", "--tenant", "acme", "--ended", "--json"))) == 4


def test_what_is_held_is_unknown_where_redis_does_not_answer(parley: Command) -> None:
    """The rest is shown all the same."""
    assert parley("budgets", "set", "--tenant", "acme", "--limit", "5 USD").exit_code == 0
    found = parley("budgets", "list", "--tenant", "acme", "--json", redis="redis://127.0.0.1:1")
    assert (rows(found)[0]["held_nano"], rows(found)[0]["left_nano"]) == (None, 5_000_000_000)
    shown = parley("budgets", "list", "--tenant", "acme", redis="redis://127.0.0.1:1")
    assert "unknown" in shown.output


def test_targets_are_added_tried_and_removed(parley: Command) -> None:
    """The secret is shown once; what waits for a mail server says so."""
    (hook,) = rows(
        parley("alerts", "targets", "add", "--tenant", "acme", "--webhook", "https://example.com/x", "--json")
    )
    assert hook["secret"].startswith("whsec_")
    assert parley("alerts", "targets", "add", "--tenant", "acme", "--email", "ops@example.com").exit_code == 0
    listed = rows(parley("alerts", "targets", "list", "--tenant", "acme", "--json"))
    assert [each["kind"] for each in listed] == ["webhook", "email"]
    assert hook["secret"] not in parley("alerts", "targets", "list", "--tenant", "acme").output
    assert parley("alerts", "test", "--tenant", "acme", hook["target"]).exit_code == 0
    (message,) = rows(parley("alerts", "list", "--tenant", "acme", "--messages", "--json"))
    assert (message["state"], message["attempts"]) == ("waiting", 0)
    assert rows(parley("alerts", "retry", "--tenant", "acme", message["message"], "--json")) == [
        {"to_send": 1}
    ]
    assert parley("alerts", "targets", "remove", "--tenant", "acme", hook["target"]).exit_code == 0
    assert parley("alerts", "targets", "add", "--platform", "--email", "all@example.com").exit_code == 0
    (ours,) = rows(parley("alerts", "targets", "list", "--platform", "--json"))
    assert ours["address"] == "all@example.com"
    logged = parley("audit", "list", "--json").output
    assert ("example.com" in logged, "example.com/x" in logged, hook["secret"] in logged) == (
        True,
        False,
        False,
    )


def test_changes_are_listed_since_a_time_or_for_a_span(parley: Command) -> None:
    """As requests are found; a date is in the tenant's zone."""
    since = ("audit", "list", "--tenant", "acme", "--json", "--since")
    assert rows(parley(*since, "2h")) == rows(parley(*since, "1970-01-02")) != []
    assert rows(parley(*since, "9998-01-01")) == []
    assert "or like 2h" in str(parley(*since, "soon").exception)
    for wrong in ("soon", "-2h", "2 h", "2026-13-01", "٢h"):
        assert "is no time" in str(parley(*since, wrong).exception), wrong


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("wallets", "grant", "--tenant", "acme", "--amount", "5", "--key", "k"), "with its currency"),
        (("wallets", "grant", "--tenant", "acme", "--amount", "5 EUR", "--key", "k"), "with its currency"),
        (("wallets", "grant", "--tenant", "acme", "--amount", "1e3 USD", "--key", "k"), "no amount"),
        (("wallets", "grant", "--tenant", "acme", "--amount", "-1 USD", "--key", "k"), "above 0"),
        (("wallets", "grant", "--tenant", "nobody", "--amount", "1 USD", "--key", "k"), "no tenant"),
        (("wallets", "show", "--tenant", "acme", "--as-of", "yesterday"), "no time"),
        (("wallets", "void", "--tenant", "acme", "none", "--reason", "r"), "no grant"),
        (("wallets", "void", "--tenant", "acme", "none", "--reason", " "), "reason: expected a name"),
        (("wallets", "pay-out", *TAKEN, "--amount", "1 USD", "--reason", "r"), "of paid money is left"),
        (("wallets", "pay-out", *TAKEN, "--amount", "0 USD", "--reason", "r"), "above 0"),
        (("wallets", "pay-out", *TAKEN, "--amount", "NaN USD", "--reason", "r"), "no amount"),
        (("wallets", "pay-out", *TAKEN, "--amount", "1 USD", "--reason", ""), "reason: expected a name"),
        (("wallets", "claw-back", *TAKEN, "none", "--amount", "1 USD", "--reason", "r"), "no grant"),
        (("wallets", "alert", "--tenant", "acme", "--thresholds", "5"), "no wallet"),
        (("budgets", "set", "--tenant", "acme", "--limit", "-1 USD"), "from 0 to"),
        (("budgets", "set", "--tenant", "acme", "--limit", "1 USD", "--scope", "key", "--of", "x"), "no key"),
        (
            ("budgets", "set", "--tenant", "acme", "--limit", "1 USD", "--scope", "user", "--of", "x"),
            "no user",
        ),
        (
            ("budgets", "set", "--tenant", "acme", "--limit", "1 USD", "--scope", "model", "--of", "x"),
            "no model",
        ),
        (("limits", "set", "--tenant", "acme", *OF_USER, "--of", "x"), "no user"),
        (("budgets", "set", "--tenant", "acme", "--limit", "1 USD", "--thresholds", "0"), "per cents"),
        (("budgets", "end", "--tenant", "acme", "none"), "no open budget"),
        (("budgets", "show", "--tenant", "acme", "none"), "no open budget"),
        (("budgets", "override", "--tenant", "acme", "none", "--limit", "1 USD"), "--until"),
        (("alerts", "targets", "add", "--tenant", "acme"), "--webhook or --email"),
        (("alerts", "targets", "add", "--tenant", "acme", "--webhook", "http://x.y/"), "https://"),
        (("alerts", "targets", "remove", "--tenant", "acme", "none"), "no target"),
        (("alerts", "retry", "--tenant", "acme", "none"), "no message"),
    ],
)
def test_what_cannot_be_done_says_what_to_do(parley: Command, arguments: tuple[str, ...], says: str) -> None:
    """One line, and nothing changes."""
    result = parley(*arguments)
    assert result.exit_code == 1
    assert isinstance(result.exception, StartupError)
    assert says in str(result.exception)


def test_a_budget_is_of_one_whom_the_tenant_has(parley: Command, home: Path) -> None:
    """A user who was made known, a model that was used; a name that was mistyped counts nobody silently."""
    used(home, [an_answer("r1", model="large")])
    of = ("set", "--tenant", "acme", "--limit", "5 USD", "--json")
    assert rows(parley("budgets", *of, "--scope", "model", "--of", "large"))[0]["of"] == "large"
    assert parley("users", "create", "--tenant", "acme", "ann").exit_code == 0
    assert rows(parley("budgets", *of, "--scope", "user", "--of", "ann"))[0]["of"] == "ann"
    assert parley("budgets", *of, "--scope", "user", "--of", "anne").exit_code == 1
    assert [each["user"] for each in rows(parley("users", "list", "--tenant", "acme", "--json"))] == ["ann"]


@pytest.mark.parametrize(
    ("text", "nano"), [("250.00 USD", 250_000_000_000), ("0.000000001 usd", 1), ("7USD", 7_000_000_000)]
)
def test_amounts_are_exact(text: str, nano: int) -> None:
    """To the nano."""
    assert nano_of(text) == nano


async def test_the_biller_books_what_expired_and_tells_the_gateways(sqlite: Database, redis: Redis) -> None:
    """Each once; a tenant whose grants go on is left alone."""
    tenant = (await create_tenant(sqlite, "acme")).tenant_id
    news = redis.pubsub()
    await news.subscribe("parley:control")
    await soon(news.get_message(timeout=None))
    ends = now_ms() + 60_000
    await grant(sqlite, tenant, NewGrant(GrantKind.PROMO, 500, "a", expires_ms=ends))
    assert await expire_all(sqlite, redis, ends - 1) == 0
    assert await expire_all(sqlite, redis, ends) == 1
    assert await expire_all(sqlite, redis, ends) == 0
    told: Any = await soon(news.get_message(timeout=None))
    assert json.loads(told["data"]) == {"kind": "limits_changed", "tenant": tenant}
    await news.aclose()
    await sound(sqlite, tenant)
    assert await read(sqlite, AlertTarget, tenant) == []

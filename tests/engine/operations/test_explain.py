"""`parley requests explain`: why a request cost what it cost, by the command, on books that were filled."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result
from sqlmodel import col, delete

from billing.cli.prices import prices_command
from billing.enforcement.limit_settings import set_policy
from billing.posting.biller import post
from billing.requests.explain import (
    BookedLine,
    booked_of,
    held_back_of,
    steps_of,
    tenants_with,
    why_in_force,
)
from billing.tables.prices import PeriodClose
from billing.tables.tenants import ApiKey, Project, UsageQuarantine, UsageRow
from billing.tenants.tenancy import create_tenant
from billing.usage import encode
from core.cli import parley as cli
from core.errors import StartupError
from core.operations import MoneyAmount, flat_facts
from core.sql.database import Database
from engine.cli.explain import price_text
from engine.queue.types import TenantTerms
from tests.billing.acme import Acme
from tests.billing.events import an_event
from tests.billing.quota.quota_ledger import COST, QuotaLedger
from tests.engine.builders import Pool, append_to
from tests.support.home import settings_in

SECRET = "what nobody but its reader may see"
NANO, THOUSAND_USD = MoneyAmount.of(1), MoneyAmount.of(1_000_000_000_000)
BOOK = 'book = "b"\n[models."*"]\ninput = "1"\noutput = "2"\n'


class ExplainDesk:
    """Who explains the requests of acme."""

    def __init__(self, home: Path, redis_url: str, template: Path) -> None:
        self.acme = Acme(home, redis_url, template)
        self.settings = settings_in(home, redis_url=redis_url)
        self.environment = {"PARLEY_HOME": str(home), "PARLEY_REDIS_URL": redis_url}

    def types(self, *arguments: str, **settings: str) -> Result:
        """`parley requests explain …`."""
        environment = self.environment | settings
        return CliRunner().invoke(cli, ["requests", "explain", *arguments], env=environment)

    def explains(self, *arguments: str) -> tuple[dict[str, Any], str]:
        """As JSON, and as people read it."""
        as_json, shown = self.types(*arguments, "--json"), self.types(*arguments)
        for result in (as_json, shown):
            assert result.exit_code == 0, (result.output, result.exception)
        return json.loads(as_json.stdout), shown.stdout


@pytest.fixture
def desk(home: Path, redis_url: str, sqlite_template: Path) -> ExplainDesk:
    """On a SQLite and an empty Redis of its own."""
    return ExplainDesk(home, redis_url, sqlite_template)


def test_what_a_grant_paid_and_a_correction_gave_back(desk: ExplainDesk) -> None:
    """Lines and grants add up to what is charged by now, and the cause of each correction is told."""
    grant = ("wallets", "grant", "--tenant", "acme")
    desk.acme.parley(*grant, "--amount", "0.000000030 USD", "--key", "first")
    desk.acme.parley(*grant, "--amount", "1 USD", "--key", "second", "--kind", "promo")
    desk.acme.spends("a")
    correct = ("usage", "correct", "a", "--tenant", "acme", "--output", "0", "--cause", "ticket 1")
    desk.acme.parley(*correct)
    found, shown = desk.explains("a")
    booked = found["booked"]
    assert (found["state"], found["tenant_name"], found["held_back"]) == ("booked", "acme", [])
    assert (booked["cost_nano"], booked["amount_nano"], booked["owed_nano"]) == (COST, 12, 0)
    assert sum(line["amount_nano"] for line in booked["lines"]) == 12
    assert sum(each["amount_nano"] for each in booked["paid"]) == 12
    (adjust,) = [line for line in booked["lines"] if line["kind"] == "adjust"]
    assert (adjust["quantity"], adjust["amount_nano"], adjust["cause"]) == (-7, -14, "ticket 1")
    assert adjust["adjusts"] in [line["line"] for line in booked["lines"]]
    assert [step["name"] for step in booked["steps"]] == ["accepted", "ended", "booked", "corrected"]
    assert [(each["amount_nano"], each["closed_ms"]) for each in booked["months"]] == [(12, None)]
    for words in ("ticket 1", "promo grant", "corrected to $0.000000012", "not closed yet", "key k1"):
        assert words in shown, shown


def test_what_is_corrected_after_its_month_was_closed_counts_in_the_open_one(desk: ExplainDesk) -> None:
    """Both months are told, with what of it counts in each."""
    day = 86_400_000

    async def long_ago(books: QuotaLedger) -> None:
        await books.booked("a", accepted_ms=40 * day, ended_ms=40 * day)

    desk.acme.does(long_ago)
    closing = ("close-period", "--tenant", "acme", "--month", "1970-02")
    done = CliRunner().invoke(prices_command, closing, env=desk.environment)
    assert done.exit_code == 0, (done.output, done.exception)
    desk.acme.parley("usage", "correct", "a", "--tenant", "acme", "--output", "0", "--cause", "c1")
    found, shown = desk.explains("a")
    february, march = found["booked"]["months"]
    assert (february["month"], february["amount_nano"], march["amount_nano"]) == ("1970-02", COST, -14)
    assert february["closed_ms"] is not None
    assert march["closed_ms"] is None
    assert "1970-02: $0.000000026, closed" in shown


def test_a_filtered_answer_is_told_with_its_policy_and_what_that_found(desk: ExplainDesk) -> None:
    """By number and category, with class and trace; without a policy there is nothing to tell."""
    policy, trace_id = "0a" * 32, "0b" * 16
    facts = {"policy": policy, "priority": "bulk", "trace_id": trace_id}
    verdicts = {"card": {"prompt_redact": 1, "redact": 2}, "email": {"flag": 1}}

    async def filtered(books: QuotaLedger) -> None:
        events = [books.event("a", verdicts=verdicts, **facts), books.event("b", **facts)]
        await post(books.db, "A", [encode(each) for each in [*events, books.event("c")]])

    desk.acme.does(filtered)
    found, shown = desk.explains("a")
    booked = found["booked"]
    assert {name: booked[name] for name in ("verdicts", *facts)} == {"verdicts": verdicts, **facts}
    for words in (
        "pool default, bulk",
        f"policy {policy[:12]}: 1 × card redacted in the prompt, 2 ×",
        trace_id,
    ):
        assert words in shown, shown
    assert f"policy {policy[:12]}: nothing found" in desk.explains("b")[1]
    assert not {"safety", "trace"} & {line.split()[0] for line in desk.explains("c")[1].splitlines() if line}


def test_who_is_billed_afterwards_owes_it(desk: ExplainDesk) -> None:
    """No wallet, no grant."""
    desk.acme.spends("a")
    found, shown = desk.explains("a", "--tenant", "acme")
    assert (found["booked"]["owed_nano"], found["booked"]["paid"]) == (None, [])
    assert "by invoice: $0.000000026 owed" in shown


def test_which_version_of_the_prices_was_in_force_and_why(desk: ExplainDesk, home: Path) -> None:
    """The one that the request carried, from when until when; with its tiers; what has another version since
    is told."""

    def imports(text: str) -> None:
        (home / "b.toml").write_text(text)
        done = CliRunner().invoke(
            prices_command, ["import", "--now", str(home / "b.toml")], env=desk.environment
        )
        assert done.exit_code == 0, (done.output, done.exception)

    tier = (
        '[models."*".tiers.output]\nmode = "graduated"\nsteps = [{up_to = 10, price = "2"}, {price = "1"}]\n'
    )
    imports(BOOK + tier)
    desk.acme.spends("a")
    imports(BOOK.replace("2", "3"))
    found, shown = desk.explains("a")
    price = found["booked"]["price"]
    assert (price["book"], price["version"], price["model"]) == ("b", 1, "*")
    assert "book b, version 1, model *" in shown
    assert "$0.002 a million" in shown
    assert price["from_ms"] < price["until_ms"]
    assert "the last to begin" in price["why"]
    assert price["tiers"] == {"output": "graduated"}
    assert "output graduated" in shown


def test_a_model_that_a_book_names_is_priced_by_its_name(desk: ExplainDesk, home: Path) -> None:
    """Not by what any other model costs; and of its tiers only those that it has."""
    tier = '[models."*".tiers.output]\nmode = "volume"\nsteps = [{price = "1"}]\n'
    (home / "b.toml").write_text(BOOK + tier + '[models.smollm2]\ninput = "3"\noutput = "4"\n')
    done = CliRunner().invoke(prices_command, ["import", "--now", str(home / "b.toml")], env=desk.environment)
    assert done.exit_code == 0, (done.output, done.exception)
    desk.acme.spends("a")
    price = desk.explains("a")[0]["booked"]["price"]
    assert (price["model"], price["tiers"], price["until_ms"]) == ("smollm2", {}, None)


async def test_a_line_is_of_the_month_that_was_closed_over_it(sqlite: Database) -> None:
    """From its first moment to before its last; what is not in a closed one is of its own month."""
    tenant = (await create_tenant(sqlite, "acme")).tenant_id
    times = {"first": 10_000, "last": 19_999, "next": 20_000}
    events = [an_event(id, tenant, accepted_ms=9_000, ended_ms=at) for id, at in times.items()]
    await post(sqlite, "default", [encode(each) for each in events])
    facts: dict[str, Any] = {"line_seq": 0, "amount_nano": 0, "closed_ms": 99, "time_zone": "UTC"}
    async with sqlite.transaction() as session:
        session.add(PeriodClose(tenant_id=tenant, start_ms=10_000, end_ms=20_000, month="2020-02", **facts))
    found = {id: await booked_of(sqlite, tenant, id) for id in times}
    months = {
        id: [(month.month, month.closed_ms) for month in each.months] for id, each in found.items() if each
    }
    assert months == {"first": [("2020-02", 99)], "last": [("2020-02", 99)], "next": [("1970-02", None)]}
    assert [each.months[0].amount.value for each in found.values() if each] == [events[0].cost_nano] * 3


async def test_of_an_id_as_many_tenants_and_held_events_are_told(sqlite: Database) -> None:
    """Ten and a hundred."""
    events = [encode(an_event("r", (await create_tenant(sqlite, f"t{n}")).tenant_id)) for n in range(11)]
    await post(sqlite, "default", events)
    assert len(await tenants_with(sqlite, "r")) == 10
    held: dict[str, Any] = {"tenant_id": "t", "request_id": "r", "pool": "p", "event": b"", "reason": "x"}
    async with sqlite.transaction() as session:
        for n in range(101):
            at = {"created_ms": 1_000 - n, "resolved_ms": n or None}
            row = UsageQuarantine(event_sha256=f"h{n}", detail="d", resolution=f"done {n}", **at, **held)
            session.add(row)
    found = await held_back_of(sqlite, "t", "r")
    assert (len(found), found[0].event_sha256, found[0].resolution) == (100, "h100", "done 100")
    async with sqlite.transaction() as session:
        await session.exec(delete(UsageQuarantine).where(col(UsageQuarantine.created_ms) < 1_000))
    assert [(each.event_sha256, each.resolution) for each in await held_back_of(sqlite, "t", "r")] == [
        ("h0", "")
    ]


async def test_an_answers_money_is_text_and_a_commands_are_numbers(sqlite: Database) -> None:
    """At every depth, also where there is none; a page that counts in JavaScript's numbers loses nothing."""
    tenant = (await create_tenant(sqlite, "acme")).tenant_id
    await post(sqlite, "default", [encode(an_event("r", tenant))])
    booked = await booked_of(sqlite, tenant, "r")
    assert booked is not None
    answer, flat = msgspec.to_builtins(booked), flat_facts(booked)
    assert (answer["cost"], answer["owed"]) == ({"nano": str(flat["cost_nano"]), "currency": "USD"}, None)
    assert (flat["owed_nano"], "owed" in flat) == (None, False)
    for line, as_told in zip(flat["lines"], answer["lines"], strict=True):
        assert as_told["amount"]["nano"] == str(line["amount_nano"])
    assert "_nano" not in msgspec.json.encode(booked).decode()
    assert '"amount":' not in msgspec.json.encode(flat).decode()


def test_the_price_of_a_request_is_told_as_price_files_say_it() -> None:
    """For one, not for a million of them."""
    line = BookedLine(1, "usage", "request", 1, THOUSAND_USD, MoneyAmount.of(1_000_000), None, "", 0, 0)
    assert price_text(line, "usd") == "$0.001 each"
    assert price_text(msgspec.structs.replace(line, meter="input"), "usd") == "$1000.00 a million"


def test_a_request_that_runs_is_explained_by_what_it_holds(desk: ExplainDesk) -> None:
    """Money, tokens, limits, and how far it is; without a word of it."""

    async def run(books: QuotaLedger) -> str:
        pool = Pool(books.redis, desk.settings, "A", clock=None)  # pyright: ignore[reportArgumentType]
        await books.budget(1_000_000)
        claim = await pool.running(tenant=books.tenant, deadline_ms=4_000_000_000_000)
        await books.ask(claim.id)
        await pool.queue.append("w1", [append_to(claim, ids=(1, 2), x=SECRET)])
        return claim.id

    id = desk.acme.does(run)
    for arguments in ((id,), (id, "--tenant", "acme")):
        found, shown = desk.explains(*arguments)
        assert (found["state"], found["booked"]) == ("running", None)
        holds = found["holds"]
        assert (holds["input_tokens"], holds["granted"], holds["held_nano"]) == (
            12,
            256,
            12 + 1 + 2 * 256 + 1,
        )  # rounded up
        (counted,) = holds["counted_in"]
        assert (counted["kind"], counted["scope"], counted["of"]) == ("money", "tenant", "month")
        assert found["in_pool"]["row"]["tokens"] == 2
        assert "256 output granted so far" in shown
        assert SECRET not in json.dumps(found) + shown


def test_of_a_request_that_is_open_every_limit_is_told_as_it_stands_now(desk: ExplainDesk) -> None:
    """Rates, concurrency, money and the tenant's share of the pool, each with what one more would be told;
    one that only watches refuses nobody. Of one that ended nothing of this was kept."""
    desk.acme.spends("a")

    async def run(books: QuotaLedger) -> str:
        pool = Pool(books.redis, desk.settings, "A", clock=None)  # pyright: ignore[reportArgumentType]
        await books.budget(1_000_000)
        limits = (("tenant", "concurrency", 1, "enforce"), ("user", "input_tokens_per_minute", 5, "shadow"))
        for scope, dimension, limit, mode in limits:
            of = {"scope": scope, "scope_id": "", "dimension": dimension, "limit": limit, "mode": mode}
            await set_policy(books.db, books.redis, books.tenant, **of)  # pyright: ignore[reportArgumentType]
        books.book.changed(books.tenant)
        await pool.queue.set_tenant(books.tenant, TenantTerms(slots_max=1))
        claim = await pool.running(tenant=books.tenant, deadline_ms=4_000_000_000_000)
        await books.ask(claim.id)
        return claim.id

    id = desk.acme.does(run)
    found, shown = desk.explains(id)
    by_dimension = {each["dimension"]: each for each in found["limits"]}
    running, input, money = (
        by_dimension[name] for name in ("concurrency", "input_tokens_per_minute", "month")
    )
    assert (running["used"], running["limit"], running["verdict"]) == (1, 1, "refuse")
    assert (input["scope_id"], input["used"], input["verdict"]) == ("u1", 12, "watches")
    assert (money["limit_nano"], money["verdict"]) == (1_000_000, "go")
    assert money["held_nano"] == found["holds"]["held_nano"]
    share = found["share"]
    assert (share["running"], share["slots_max"], share["tokens_max"], share["waits"]) == (1, 1, None, True)
    assert "slots of pool A" in shown
    assert desk.explains("a")[0]["limits"] == []


def test_ids_come_with_names(desk: ExplainDesk) -> None:
    """Of the project and the key; what has none is told by its id."""

    async def name(books: QuotaLedger) -> None:
        facts = {"secret_sha256": "s", "scopes": [], "priority_max": "bulk", "owner_key": "k1"}
        of = {"tenant_id": books.tenant, "project_id": "p1", "created_ms": 1}
        for row in (
            Project(tenant_id=books.tenant, id="p1", name="web", created_ms=1),
            ApiKey(id="k1", name="", prefix="abc", **of, **facts),  # pyright: ignore[reportArgumentType]
        ):
            async with books.db.transaction() as session:
                session.add(row)

    desk.acme.spends("a")
    assert desk.explains("a")[0]["names"] == {}
    desk.acme.does(name)
    names, shown = desk.explains("a")
    assert names["names"] == {"p1": "web", "k1": "pk_abc"}
    assert "key pk_abc (k1), project web (p1)" in shown


def test_what_was_held_back_says_what_to_do(desk: ExplainDesk) -> None:
    """And nothing was billed for it."""

    async def hold(books: QuotaLedger) -> None:
        wrong = books.event("wrong", cost_nano=1)
        await post(books.db, "A", [encode(wrong)])

    desk.acme.does(hold)
    found, shown = desk.explains("wrong", "--tenant", "acme")
    assert (found["state"], found["booked"]) == ("held_back", None)
    assert found["held_back"][0]["reason"] == "cost_mismatch"
    assert "parley quarantine accept" in shown


def test_senders_choose_ids_so_one_may_be_of_several_tenants(desk: ExplainDesk) -> None:
    """Then it has to be said whose; and who has none of that id has none."""
    desk.acme.spends("a")

    async def another(books: QuotaLedger) -> None:
        tenant = await create_tenant(books.db, "beta")
        await post(books.db, "A", [encode(an_event("a", tenant.tenant_id))])

    desk.acme.does(another)
    for arguments, said in (
        (("a",), "2 tenants have a request 'a': name its tenant"),
        (("nobodys",), "nobody knows a request 'nobodys'"),
        (("nobodys", "--tenant", "acme"), "nobody knows a request 'nobodys' of tenant 'acme'"),
        (("a", "--tenant", "gamma"), "there is no tenant 'gamma'"),
    ):
        result = desk.types(*arguments)
        assert isinstance(result.exception, StartupError), result.output
        assert said in str(result.exception)


def test_the_books_answer_without_redis(desk: ExplainDesk) -> None:
    """What could not be looked at is said."""
    desk.acme.spends("a")
    result = desk.types("a", "--json", PARLEY_REDIS_URL="unix:///nowhere/at/all.sock")
    assert result.exit_code == 0, (result.output, result.exception)
    found = json.loads(result.stdout)
    assert found["state"] == "booked"
    assert "Redis does not answer" in found["unread"]


def test_steps_are_those_that_were_reached_each_after_the_one_before() -> None:
    """One that never ran was neither claimed nor had a token."""
    row = UsageRow.model_construct(
        accepted_ms=1_000, claimed_ms=0, first_token_ms=0, ended_ms=4_000, posted_ms=4_500
    )
    line = BookedLine(9, "adjust", "output", -1, NANO, NANO, 2, "c", 4_000, 9_000)
    steps = [(each.name, each.after_ms) for each in steps_of(row, [line])]
    assert steps == [("accepted", 0), ("ended", 3_000), ("booked", 500), ("corrected", 4_500)]


def test_no_step_is_before_the_one_that_led_to_it() -> None:
    """Whatever the clocks of gateway, worker and biller say: what is late of one is no time at all."""
    row = UsageRow.model_construct(
        accepted_ms=1_006, claimed_ms=1_000, first_token_ms=1_010, ended_ms=1_020, posted_ms=1_014
    )
    steps = [(each.name, each.at_ms, each.after_ms) for each in steps_of(row, [])]
    assert steps == [
        ("accepted", 1_006, 0),
        ("claimed", 1_006, 0),
        ("first token", 1_010, 4),
        ("ended", 1_020, 10),
        ("booked", 1_020, 0),
    ]


def test_why_a_version_priced_it() -> None:
    """By the time of acceptance, or by what was pinned."""
    assert "the last to begin" in why_in_force(2, 2)
    assert "3 was in force" in why_in_force(2, 3)
    assert "has none" in why_in_force(2, None)

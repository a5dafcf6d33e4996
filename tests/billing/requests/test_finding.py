"""Ended requests are found by whose they are, when they ended, how, how long they took and what they cost."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from billing.booking.adjustments import Correction, correct
from billing.posting.biller import post
from billing.prices.rating import Meter
from billing.requests import find
from billing.requests.find import RequestMatch, RequestSearch, WhyEnded, cursor_of, find_requests
from billing.tenants.tenancy import create_tenant, find_tenant
from billing.tenants.users import create_user
from billing.usage import UsageEvent, UsageOwner, encode
from core.cli import parley as cli
from core.errors import Refused, StartupError
from core.sql.database import Database
from engine.api import EndReason
from tests.billing.cli.commands import on_database, rows
from tests.billing.events import an_event

MONEY = ("cost", "corrected")
ALWAYS_MS = 4_000_000_000_000


def asked(id: str, tenant: str, ended_ms: int, **changes: object) -> UsageEvent:
    """A request that took a second."""
    return an_event(id, tenant, accepted_ms=ended_ms - 1_000, ended_ms=ended_ms, **changes)


async def filled(database: Database) -> None:
    """Requests of two tenants, in turns: a0 … a9 and b0 … b9, two of them at each moment."""
    events = [asked(f"{t}{n}", t, 10_000 + n // 2) for n in range(10) for t in ("a", "b")]
    odd = {"claimed_ms": 2_000, "first_token_ms": 2_500, "pool": "default"}
    slow = an_event("slow", "a", accepted_ms=1_000, ended_ms=9_000, reason="length", **odd)
    lost = an_event("lost", "a", accepted_ms=8_400, ended_ms=8_500, reason="error", code="engine_lost")
    dear = asked("dear", "a", 8_000, output_text=100_000, model="large", owner=UsageOwner("p2", "k2", "u2"))
    await post(database, "default", [encode(each) for each in (*events, slow, lost, dear)])


async def ids(database: Database, **sought: object) -> list[str]:
    """All that fits, page by page, and each page is no longer than it may be."""
    found, after = list[str](), None
    while True:
        facts = {"since_ms": 0, "until_ms": ALWAYS_MS, "limit": 3, **sought, "after": after}
        page = await find_requests(database, RequestSearch(**facts))  # pyright: ignore[reportArgumentType]
        assert len(page.found) <= 3
        found += [each.id for each in page.found]
        if page.next is None:
            return found
        after = cursor_of(page.next.text())


async def test_each_is_found_once_over_pages_the_last_first(database: Database):
    """Also where several ended in one moment; and with a tenant those of no other."""
    await filled(database)
    everybody = await ids(database)
    assert len(everybody) == len(set(everybody)) == 23
    assert everybody[:4] == ["b9", "b8", "a9", "a8"]
    mine = await ids(database, tenant="a")
    assert mine == [each for each in everybody if not each.startswith("b")]
    assert await ids(database, tenant="b", user="u2") == []
    assert await ids(database, tenant="c") == []


async def test_each_condition_finds_what_fits_it(database: Database):
    """One by one, and two together."""
    await filled(database)
    assert await ids(database, tenant="a", user="u2") == ["dear"]
    assert await ids(database, tenant="a", project="p2") == ["dear"]
    assert await ids(database, tenant="a", key="k2") == ["dear"]
    assert await ids(database, model="large") == ["dear"]
    assert await ids(database, pool="another") == []
    assert await ids(database, reason="length") == ["slow"]
    assert await ids(database, code="engine_lost") == ["lost"]
    assert await ids(database, over_ms=1_000) == ["slow"]
    assert await ids(database, over_ms=8_000) == []
    (dear,) = (
        await find_requests(database, RequestSearch(since_ms=0, until_ms=ALWAYS_MS, model="large"))
    ).found
    assert await ids(database, cost_over_nano=dear.cost.value - 1) == ["dear"]
    assert await ids(database, cost_over_nano=dear.cost.value) == []
    assert await ids(database, since_ms=8_000, until_ms=8_500) == ["dear"]
    assert await ids(database, reason="error", since_ms=8_501) == []


async def test_a_statement_looks_at_so_many_and_says_where_to_go_on(
    database: Database, monkeypatch: pytest.MonkeyPatch
):
    """Nothing is left out where what fits is rarer than that, and no page looks further."""
    await filled(database)
    monkeypatch.setattr(find, "SCANNED_MAX", 5)
    sought = RequestSearch(since_ms=0, until_ms=ALWAYS_MS, model="large")
    page = await find_requests(database, sought)
    assert page.found == []
    assert page.next is not None
    assert (page.next.tenant, page.next.request) == ("b", "b7"), "the fifth"
    assert await ids(database, model="large") == ["dear"]
    assert len(await ids(database, reason="stop")) == 21
    monkeypatch.setattr(find, "SCANNED_MAX", 6)
    assert await ids(database, reason="length") == ["slow"], "the 21st, behind three times six and some"


async def test_what_is_shown_of_one(database: Database):
    """Times from when it was accepted, what corrections did, and its user by name."""
    tenant = (await create_tenant(database, "acme")).tenant_id
    ann = await create_user(database, tenant, "ann")
    owner = UsageOwner("p1", "k1", ann.id)
    event = an_event("r1", tenant, owner=owner, accepted_ms=1_000, first_token_ms=1_250, ended_ms=9_000)
    await post(database, "default", [encode(event)])
    await correct(database, tenant, Correction("r1", {Meter.OUTPUT: 0}, "c1"))
    (one,) = (await find_requests(database, RequestSearch(since_ms=0, until_ms=ALWAYS_MS))).found
    assert (one.tenant_name, one.user, one.user_id) == ("acme", "ann", ann.id)
    assert (one.took_ms, one.first_token_after_ms) == (8_000, 250)
    assert (one.cost.value, one.corrected.value) == (event.cost_nano, -7 * 400)


def test_reasons_are_those_of_the_engine() -> None:
    """One vocabulary."""
    assert [each.value for each in WhyEnded] == [each.value for each in EndReason]


@pytest.mark.parametrize("text", ["", "x", "é", "WzEsMl0", "WyIxIiwiYSIsImIiXQ", "=" * 5, "A" * 9_999])
def test_what_is_no_place_to_go_on_from_is_refused(text: str) -> None:
    """In one line."""
    with pytest.raises(Refused, match="no place to go on from"):
        cursor_of(text)


@pytest.fixture
def parley(home: Path, redis_url: str, sqlite_template: Path) -> Callable[..., Result]:
    """The command, on an installation with the tenants acme and beta."""

    async def fill(database: Database) -> None:
        for name in ("acme", "beta"):
            tenant = (await create_tenant(database, name)).tenant_id
            ann = await create_user(database, tenant, "ann")
            owner = UsageOwner("p1", "k1", ann.id)
            for n in range(3):
                event = asked(f"{name}{n}", tenant, 86_400_000 + n, owner=owner)
                await post(database, "default", [encode(event)])

    shutil.copy(sqlite_template, home / "parley.db")
    on_database(home, fill)

    def run(*arguments: str) -> Result:
        environment = {"PARLEY_HOME": str(home), "PARLEY_REDIS_URL": redis_url}
        return CliRunner().invoke(cli, ["requests", "find", *arguments], env=environment)

    return run


def test_the_command_shows_a_tenants_and_all(parley: Callable[..., Result], home: Path) -> None:
    """As a table and as JSON; a page tells where the next begins."""
    since = ("--since", "1970-01-01")
    found = rows(parley("--tenant", "acme", "--user", "ann", *since, "--json"))
    assert [each["id"] for each in found] == ["acme2", "acme1", "acme0"]
    assert {(each["user"], each["corrected_nano"]) for each in found} == {("ann", 0)}
    facts = {f"{name}_nano" if name in MONEY else name for name in RequestMatch.__struct_fields__}
    assert set(found[0]) == {*facts, "ended", "accepted", "key_name"}
    assert len(rows(parley(*since, "--json"))) == 6
    first, more = rows(parley("--tenant", "beta", *since, "--limit", "1", "--json"))
    assert first["id"] == "beta2"
    (second, *_) = rows(parley("--tenant", "beta", *since, "--after", more["next"], "--json"))
    assert second["id"] == "beta1"
    table = parley("--tenant", "acme", *since, "--longer-than", "999ms", "--cost-over", "0 USD")
    assert "acme0" in table.stdout
    assert "ann" in table.stdout
    assert "no request fits" in parley("--tenant", "acme").stdout

    async def id_of(database: Database) -> str:
        tenant = await find_tenant(database, "acme")
        return (
            (
                await find_requests(
                    database,
                    RequestSearch(since_ms=0, until_ms=ALWAYS_MS, tenant=tenant and tenant.tenant_id),
                )
            )
            .found[0]
            .user_id
        )

    by_id = rows(parley("--tenant", "acme", "--user", on_database(home, id_of), *since, "--json"))
    assert len(by_id) == 3


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--user", "ann"], "a user is of one tenant"),
        (["--tenant", "nobody"], "there is no tenant"),
        (["--tenant", "acme", "--user", "bob"], "there is no user"),
        (["--tenant", "acme", "--key", "pk_x"], "no key"),
        (["--since", "yesterday"], "is no time"),
        (["--since", "1969-01-01"], "before 1970"),
        (["--since", "1h", "--until", "2h"], "since must be before until"),
        (["--since", "2026-10-01", "--until", "2026-10-01"], "since must be before until"),
        (["--cost-over", "5"], "is no amount"),
        (["--cost-over", "NaN USD"], "is no amount"),
        (["--after", "x"], "no place to go on from"),
        (["--model", "\x1b"], "model: expected a name"),
    ],
)
def test_what_cannot_be_asked_for_is_one_line(
    parley: Callable[..., Result], arguments: list[str], said: str
) -> None:
    """That says what to change."""
    result = parley(*arguments)
    assert isinstance(result.exception, StartupError)
    assert said in str(result.exception)


@pytest.mark.parametrize("over", ["2", "1e3s", "-2s", "٢s", "9999999d", "2 s", "nan"])
def test_a_span_is_digits_and_a_unit(parley: Callable[..., Result], over: str) -> None:
    """Nothing else that a program would take for a number."""
    result = parley("--longer-than", over)
    assert result.exit_code == 2
    assert "is no span of time" in result.output

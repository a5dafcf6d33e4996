"""The commands on prices, usage and books, as an operator types and a script reads them."""

import csv
import io
import time
from pathlib import Path

import pytest
from redis import Redis
from sqlalchemy import text

from billing.tenants import cost_centers
from billing.usage import ENDED_FIELD, UsageEvent, UsageOwner, encode, ended_stream
from chaos.tampering.unguarded import tamper
from core.errors import StartupError
from core.sql.database import Database
from tests.billing.cli.commands import DAY_MS, OCTOBER_MS, Command, on_database, rows, used
from tests.billing.cli.commands import parley as parley
from tests.billing.events import an_event

FILE = 'book = "default"\n[models."*"]\ninput = "0.20"\ncached_input = "0.05"\noutput = "0.80"\n'


def some_usage(home: Path) -> list[UsageEvent]:
    """Three requests in October, one in November."""
    people = (("search", "=cmd"), ("search", "u2"), ("support", ""))
    events = [
        an_event(
            f"r{day}",
            owner=UsageOwner(project=project, key="k", user=user),
            ended_ms=OCTOBER_MS + day * DAY_MS,
        )
        for day, (project, user) in zip((0, 5, 30), people, strict=True)
    ]
    events.append(an_event("november", ended_ms=OCTOBER_MS + 31 * DAY_MS))
    used(home, events)
    return events


def test_usage_is_shown_by_whom_it_is_charged_to(parley: Command, home: Path) -> None:
    """For a month, for any time, by day; as a table, JSON or CSV."""
    events = some_usage(home)
    by_project = rows(parley("usage", "show", "--tenant", "acme", "--month", "2026-10", "--json"))
    assert [(row["project"], row["requests"]) for row in by_project] == [("search", 2), ("support", 1)]
    assert by_project[0]["amount_nano"] == 2 * events[0].cost_nano
    between = ("--from", "2026-10-01T00:00", "--to", "2026-10-06T00:00:00.001")
    total = rows(parley("usage", "show", "--tenant", "acme", "--by", "total", *between, "--json"))
    assert [row["requests"] for row in total] == [2]
    days = rows(parley("usage", "show", "--tenant", "acme", "--by", "day", "--month", "2026-10", "--json"))
    assert len(days) == 31
    assert [day["day"][:10] for day in days if day["requests"]] == ["2026-10-01", "2026-10-06", "2026-10-31"]
    table = parley("usage", "show", "--tenant", "acme", "--month", "2026-10").stdout
    assert "$0.0000074" in table
    shown = parley("usage", "show", "--tenant", "acme", "--by", "user", "--month", "2026-10", "--csv")
    lines = list(csv.DictReader(io.StringIO(shown.stdout)))
    assert {line["user"]: line["amount_usd"] for line in lines} == {
        "": "0.0000037",
        "'=cmd": "0.0000037",
        "u2": "0.0000037",
    }


def test_a_month_is_exported_for_cost_management_tools(parley: Command, home: Path, tmp_path: Path) -> None:
    """To a file or to stdout; what a user names itself is no formula."""
    some_usage(home)
    export = ("usage", "export", "--tenant", "acme", "--month", "2026-10")
    printed = parley(*export).stdout
    lines = list(csv.DictReader(io.StringIO(printed)))
    assert len(lines) == 9
    assert {line["x_UserId"] for line in lines} == {"", "'=cmd", "u2"}
    assert parley(*export).stderr == ""
    written = parley(*export, "--out", str(tmp_path / "focus.csv"))
    assert (written.exit_code, written.stderr) == (0, f"9 rows in {tmp_path / 'focus.csv'}\n")
    assert (tmp_path / "focus.csv").read_text() == printed


def test_prices_are_imported_once_and_shown(parley: Command, tmp_path: Path) -> None:
    """The second import of the same file says that it is there already."""
    file = tmp_path / "prices.toml"
    file.write_text(FILE)
    (first,) = rows(parley("prices", "import", str(file), "--now", "--json"))
    assert (first["book"], first["version"], first["state"]) == ("default", 2, "added")
    (again,) = rows(parley("prices", "import", str(file), "--json"))
    assert (again["version"], again["state"]) == (2, "there already")
    versions = rows(parley("prices", "show", "--book", "default", "--json"))
    assert [(row["version"], row["output"]) for row in versions] == [(1, "0.40"), (2, "0.80")]
    (paid,) = rows(parley("prices", "show", "--tenant", "acme", "--model", "any", "--json"))
    assert (paid["book"], paid["version"], paid["input"]) == ("default", 2, "0.20")
    assert "0.80" in parley("prices", "show").stdout


def test_another_price_is_tried_on_a_month_that_was(parley: Command, home: Path, tmp_path: Path) -> None:
    """Twice the price, twice the bill; nothing is changed by looking."""
    events = some_usage(home)
    file = tmp_path / "prices.toml"
    file.write_text(FILE)
    compared = rows(parley("prices", "what-if", str(file), "--month", "2026-10", "--json"))
    assert [(row["model"], row["requests"]) for row in compared] == [("smollm2", 3), ("total", 3)]
    assert compared[1]["was_nano"] == 3 * events[0].cost_nano
    assert compared[1]["would_nano"] == 2 * compared[1]["was_nano"]
    assert compared[1]["change_nano"] == compared[1]["was_nano"]
    file.write_text(FILE.replace('"*"', "other"))
    kept = rows(parley("prices", "what-if", str(file), "--month", "2026-10", "--tenant", "acme", "--json"))
    assert (kept[1]["unpriced"], kept[1]["change_nano"]) == (3, 0)
    assert "+100.0 %" not in parley("prices", "what-if", str(file), "--month", "2026-10").stdout
    assert len(rows(parley("prices", "show", "--json"))) == 1


def test_books_are_verified_and_what_is_wrong_is_said(parley: Command, home: Path) -> None:
    """Exit code 1 for scripts, the finding for people."""
    some_usage(home)
    _, whole = rows(parley("audit", "verify", "--json"))  # the platform, and acme
    assert (whole["state"], whole["lines"], whole["transactions"]) == ("whole", 16, 1)

    on_database(home, lambda database: tamper(database, "UPDATE usage_line SET amount_nano = 0"))
    wrong = parley("audit", "verify", "--tenant", "acme")
    assert wrong.exit_code == 1
    assert "transaction 1" in wrong.output


def test_a_request_is_corrected(parley: Command, home: Path) -> None:
    """And what was known before is still shown as of then."""
    some_usage(home)
    wrong = ("usage", "correct", "--tenant", "acme", "r0", "--output", "6", "--cause", "ticket 7", "--json")
    shown = parley(*wrong[:-1], "--dry-run").output
    assert ("-$0.0000004" in shown, "in all: -$0.0000004" in shown) == (True, True)
    (line,) = rows(parley(*wrong))
    assert (line["meter"], line["quantity"], line["amount"]) == ("output", -1, "-0.0000004")
    assert line["amount_nano"] == -400
    assert [row["quantity"] for row in rows(parley(*wrong))] == [0], "the books say so already"
    show = ("usage", "show", "--tenant", "acme", "--month", "2026-10", "--by", "total", "--json")
    (now,) = rows(parley(*show))
    assert now["output_text"] == 20
    assert rows(parley(*show, "--as-of", "2026-10-01T00:00:00")) == []
    assert rows(parley(*show, "--as-of", "2999-01-01T00:00:00")) == [now]


def test_sums_are_made_again(parley: Command, home: Path) -> None:
    """After somebody emptied them."""
    some_usage(home)
    shown = rows(parley("usage", "show", "--tenant", "acme", "--month", "2026-10", "--json"))

    async def empty(database: Database) -> None:
        async with database.transaction() as session:
            await (await session.connection()).execute(text("DELETE FROM rollup_hour"))

    on_database(home, empty)
    assert parley("audit", "verify").exit_code == 1
    (done,) = rows(parley("usage", "rebuild", "--json"))
    assert done == {"tenants": 1, "lines": 16}
    assert rows(parley("usage", "show", "--tenant", "acme", "--month", "2026-10", "--json")) == shown
    assert parley("audit", "verify").exit_code == 0


def test_projects_are_charged_to_cost_centers(parley: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """From now or later on, never from before."""
    (center,) = rows(
        parley("cost-centers", "create", "--tenant", "acme", "4711", "--name", "Search", "--json")
    )
    rows(parley("projects", "create", "--tenant", "acme", "search", "--json"))
    (moved,) = rows(parley("projects", "charge-to", "--tenant", "acme", "search", "4711", "--json"))
    assert (moved["project"], moved["cost_center"]) == ("search", "4711")
    listed = rows(parley("projects", "list", "--tenant", "acme", "--json"))
    assert {row["name"]: row["cost_center"] for row in listed} == {"default": "", "search": "4711"}
    assert [row["code"] for row in rows(parley("cost-centers", "list", "--tenant", "acme", "--json"))] == [
        "4711"
    ]
    rows(parley("cost-centers", "create", "--tenant", "acme", "4712", "--json"))
    later = ("--from", "2026-10-01T00:00:00+0000")
    monkeypatch.setattr(cost_centers, "now_ms", lambda: OCTOBER_MS - DAY_MS)
    assert parley("projects", "charge-to", "--tenant", "acme", "default", "4712", *later).exit_code == 0
    monkeypatch.undo()
    for now, center_then in ((OCTOBER_MS - 1, ""), (OCTOBER_MS, "4712")):
        monkeypatch.setattr(time, "time_ns", lambda now=now: now * 1_000_000)
        (first, *_) = rows(parley("projects", "list", "--tenant", "acme", "--json"))
        assert (first["name"], first["cost_center"]) == ("default", center_then)
    past = ("--from", "2020-01-01T00:00:00+0000")
    for refused in (
        parley("projects", "charge-to", "--tenant", "acme", "search", center["cost_center"], *past),
        parley("projects", "charge-to", "--tenant", "acme", "none", "4711"),
        parley("projects", "charge-to", "--tenant", "acme", "search", "none"),
        parley("cost-centers", "create", "--tenant", "acme", "4711"),
        parley("cost-centers", "create", "--tenant", "acme", " "),
    ):
        assert isinstance(refused.exception, StartupError)


def test_a_tenants_month_begins_in_its_time_zone(parley: Command, home: Path) -> None:
    """Here a day's first hour belongs to another month."""
    used(home, [an_event("r1", ended_ms=OCTOBER_MS - 1)])
    show = ("usage", "show", "--tenant", "acme", "--month", "2026-10", "--by", "total", "--json")
    assert rows(parley(*show)) == []
    (tenant,) = rows(parley("tenants", "set", "acme", "--time-zone", "Europe/Berlin", "--json"))
    assert tenant["time_zone"] == "Europe/Berlin"
    assert [row["requests"] for row in rows(parley(*show))] == [1]
    for bad in (("--time-zone", "Mars"), ("--price-book", "none")):
        assert isinstance(parley("tenants", "set", "acme", *bad).exception, StartupError)


def test_a_tenants_patterns_are_turned_off_and_on(parley: Command) -> None:
    """Allowed from the first; off until they are turned on, whatever else is set meanwhile."""
    (listed,) = rows(parley("tenants", "list", "--json"))
    assert listed["regex"] == "on"
    for setting, found in (
        (("--regex", "off"), "off"),
        (("--time-zone", "Europe/Berlin"), "off"),
        (("--regex", "on"), "on"),
    ):
        (tenant,) = rows(parley("tenants", "set", "acme", *setting, "--json"))
        assert tenant["regex"] == found
        assert rows(parley("tenants", "list", "--json")) == [tenant]
    assert parley("tenants", "set", "acme", "--regex", "maybe").exit_code == 2


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (("usage", "show", "--tenant", "none"), "no tenant"),
        (("usage", "show", "--tenant", "acme", "--month", "2026-13"), "no month"),
        (("usage", "show", "--tenant", "acme", "--month", "2026-10", "--from", "2026-10-01"), "--month, or"),
        (("usage", "show", "--tenant", "acme", "--from", "yesterday"), "no time"),
        (("usage", "show", "--tenant", "acme", "--from", "2026-10-02", "--to", "2026-10-01"), "before"),
        (("usage", "show", "--tenant", "acme", "--by", "day", "--from", "2001-01-01"), "at most 400 days"),
        (("prices", "show", "--book", "none"), "no price book"),
        (("audit", "verify", "--tenant", "none"), "no tenant"),
    ],
)
def test_what_cannot_be_shown_is_one_line(parley: Command, command: tuple[str, ...], says: str) -> None:
    """Which the command line turns into exit code 1."""
    error = parley(*command).exception
    assert isinstance(error, StartupError)
    assert says in str(error)
    assert "\n" not in str(error)


def test_erasing_says_what_it_takes_and_how_long_backups_last(parley: Command, redis_url: str) -> None:
    """Nothing is erased without --yes, while it is open, or while usage is on its way; backups' age is said,
    or that it is not known."""
    for refused, words in (
        (("users", "erase", "--tenant", "acme", "ada", "--yes"), "there is no user 'ada'"),
        (("tenants", "erase", "acme"), "close the tenant first"),
        (("tenants", "erase", "acme", "--yes"), "close the tenant first"),
    ):
        result = parley(*refused)
        assert isinstance(result.exception, StartupError)
        assert words in str(result.exception)
    assert parley("users", "create", "--tenant", "acme", "ada").exit_code == 0
    assert "close the user first" in str(
        parley("users", "erase", "--tenant", "acme", "ada", "--yes").exception
    )
    assert parley("users", "close", "--tenant", "acme", "ada").exit_code == 0
    assert "say --yes" in str(parley("users", "erase", "--tenant", "acme", "ada").exception)
    with Redis.from_url(redis_url) as redis:
        redis.flushall()
        redis.sadd("parley:pools", "default")
        redis.xadd(ended_stream("default"), {ENDED_FIELD: encode(an_event())})
        late = parley("users", "erase", "--tenant", "acme", "ada", "--yes")
        assert "usage is on its way into the books" in str(late.exception)
        redis.flushall()
    assert "PARLEY_BACKUPS_KEPT_DAYS" in parley("users", "erase", "--tenant", "acme", "ada", "--yes").stdout
    assert parley("tenants", "close", "acme").exit_code == 0
    assert "say --yes" in str(parley("tenants", "erase", "acme").exception)
    [erased] = rows(parley("tenants", "erase", "acme", "--yes", "--json"))
    assert (erased["users"], erased["conversations"]) == (0, 0)
    [left] = rows(parley("tenants", "list", "--json"))
    assert left["name"].startswith("erased ")
    shown = left["name"].strip()
    assert parley("users", "list", "--tenant", shown).exit_code == 0
    assert parley("tenants", "create", shown).exit_code == 0
    [other] = [row for row in rows(parley("tenants", "list", "--json")) if row["name"] == shown]
    assert rows(parley("tenants", "show", shown, "--json"))[0]["pays"] == "postpaid"
    assert rows(parley("tenants", "close", shown, "--json"))[0]["tenant"] == other["tenant"]

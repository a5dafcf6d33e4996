"""Versions of price books that have not begun: planned in any order, withdrawn, replaced."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import Result

from tests.billing.cli.commands import Command, rows
from tests.billing.cli.commands import parley as parley  # the fixture
from tests.billing.cli.refusals import refused

Import = Callable[..., Result]


def ahead(**time: int) -> str:
    """A time from now on, as files write it."""
    return (datetime.now(UTC) + timedelta(**time)).isoformat(timespec="seconds")


@pytest.fixture
def add(parley: Command, tmp_path: Path) -> Import:
    """Imports a version of the book that all pay by, with its price of output."""

    def run(valid_from: str | None, output: str, *more: str) -> Result:
        lines = ['book = "default"', *([f"valid_from = {valid_from}"] if valid_from else [])]
        lines += ['[models."*"]', 'input = "1"', f'output = "{output}"']
        file = tmp_path / "prices.toml"
        file.write_text("\n".join(lines))
        return parley("prices", "import", str(file), *more, "--json")

    return run


def states(parley: Command) -> dict[int, tuple[str, str]]:
    """The versions of the book: their price of output and their state."""
    shown = rows(parley("prices", "show", "--book", "default", "--json"))
    return {row["version"]: (row["output"], row["state"]) for row in shown}


def test_one_typo_does_not_close_a_book(parley: Command, add: Import) -> None:
    """A version far ahead wants a yes, is no wall for those before it, and is withdrawn."""
    far = "2062-01-01T00:00:00Z"
    assert "--yes" in refused(add(far, "9"))
    assert rows(add(far, "9", "--yes"))[0]["version"] == 2
    (sooner,) = rows(add(ahead(days=30), "3"))
    (between,) = rows(add(ahead(days=300), "4"))
    (now,) = rows(add(None, "2", "--now"))
    assert (sooner["version"], between["version"], now["version"]) == (3, 4, 5)
    (paid,) = rows(parley("prices", "show", "--tenant", "acme", "--json"))
    assert (paid["version"], paid["output"]) == (5, "2.00")
    withdraw = ("prices", "withdraw", "default", "2", "--reason", "typo, ticket 7", "--json")
    (tried,) = rows(parley(*withdraw, "--dry-run"))
    assert (tried["state"], tried["instead"]) == ("would be withdrawn", 4)
    assert states(parley)[2][1] == "planned"
    (done,) = rows(parley(*withdraw))
    assert (done["state"], done["instead"]) == ("withdrawn", 4)
    assert states(parley) == {
        1: ("0.40", "over"),
        2: ("9.00", "withdrawn"),
        3: ("3.00", "planned"),
        4: ("4.00", "planned"),
        5: ("2.00", "in force"),
    }
    assert "is withdrawn already" in refused(parley(*withdraw))
    assert rows(add(far, "9", "--yes"))[0]["version"] == 6


def test_a_planned_version_is_replaced_in_one_step(parley: Command, add: Import) -> None:
    """The old one is withdrawn with the new one's import, or neither happens; again changes nothing."""
    begin = ahead(days=30)
    rows(add(begin, "3"))
    assert "begins at that time" in refused(add(begin, "4"))
    assert "--reason" in refused(add(begin, "4", "--replace", "2"))
    assert "has begun" in refused(add(begin, "4", "--replace", "1", "--reason", "r"))
    assert "no version 7" in refused(add(begin, "4", "--replace", "7", "--reason", "r"))
    replace = (begin, "4", "--replace", "2", "--reason", "ticket 7")
    (new,) = rows(add(*replace))
    assert (new["version"], new["state"]) == (3, "added")
    (again,) = rows(add(*replace))
    assert (again["version"], again["state"]) == (3, "there already")
    assert states(parley) == {
        1: ("0.40", "in force"),
        2: ("3.00", "withdrawn"),
        3: ("4.00", "planned"),
    }


def test_all_gateways_know_a_version_before_it_begins(parley: Command, add: Import) -> None:
    """It begins a minute ahead, or is said to begin now; the same file again changes nothing meanwhile."""
    (made,) = rows(add(None, "3"))
    assert datetime.fromisoformat(made["valid_from"]) > datetime.now(UTC)
    assert states(parley) == {1: ("0.40", "in force"), 2: ("3.00", "planned")}
    (again,) = rows(add(None, "3"))
    assert (again["version"], again["state"]) == (2, "there already")
    assert "--now" in refused(add(ahead(seconds=30), "4"))
    (now,) = rows(add(None, "4", "--now"))
    assert states(parley)[now["version"]] == ("4.00", "in force")


def test_who_withdrew_what_and_why_is_recorded(parley: Command, add: Import, home: Path) -> None:
    """Of both ways to do it."""
    rows(add(ahead(days=30), "3"))
    rows(add(ahead(days=31), "4", "--replace", "2", "--reason", "first"))
    assert parley("prices", "withdraw", "default", "3", "--reason", "second").exit_code == 0
    with closing(sqlite3.connect(home / "parley.db")) as connection:
        found = connection.execute(
            "SELECT target, author, after FROM audit_log WHERE action = 'price.withdraw' ORDER BY seq"
        ).fetchall()
    assert [row[0] for row in found] == ["default/2", "default/3"]
    assert all(row[1] for row in found)
    assert ["first" in found[0][2], "second" in found[1][2]] == [True, True]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("default", "1", "--reason", "r"), "has begun"),
        (("default", "2", "--reason", " "), "reason"),
        (("default", "2", "--reason", "x" * 2_000), "reason"),
        (("default", "3", "--reason", "r"), "a minute"),
        (("default", "9", "--reason", "r"), "no version 9"),
        (("default", str(1 << 63), "--reason", "r"), "no version"),
        (("none", "1", "--reason", "r"), "no price book 'none'"),
    ],
)
def test_what_cannot_be_withdrawn_stays(
    parley: Command, add: Import, arguments: tuple[str, ...], says: str
) -> None:
    """What has begun or begins in a minute, which gateways may have read, and what nobody wrote."""
    rows(add(ahead(days=30), "3"))
    rows(add(ahead(seconds=55), "4", "--now"))
    before = states(parley)
    assert says in refused(parley("prices", "withdraw", *arguments))
    after = states(parley)
    assert {version: shown[0] for version, shown in after.items()} == {
        version: shown[0] for version, shown in before.items()
    }
    assert "withdrawn" not in {shown[1] for shown in after.values()}


NO_BEGINS = [
    ("2020-01-01T00:00:00Z", "passed"),
    ("0001-01-01T00:00:00+14:00", "passed"),
    ("9999-12-31T23:59:59-14:00", "9998"),
    ("9999-01-01T00:00:00Z", "9998"),
    ("2027-02-29T00:00:00Z", "no price file"),
    ("2027-01-01T24:00:00Z", "no price file"),
    ("2027-01-01T00:00:00", "timezone"),
    ("٢٠٢٧-01-01T00:00:00Z", "no price file"),
    ("1e30", "valid_from"),
    ("9223372036854775808", "valid_from"),
    ("nan", "valid_from"),
]


def test_a_begin_that_is_none_is_one_line(parley: Command, add: Import) -> None:
    """And adds nothing, whatever was said yes to."""
    for valid_from, says in NO_BEGINS:
        assert says in refused(add(valid_from, "3", "--yes"))
        assert set(states(parley)) == {1}


NO_PRICES = ["5,00", "1e30", "nan", "٥", "9223372036854775808", "-0.1", "5 EUR", ""]


def test_a_price_that_is_none_is_one_line(parley: Command, add: Import) -> None:
    """With its place in the file."""
    for amount in NO_PRICES:
        assert "output" in refused(add(None, amount))
        assert set(states(parley)) == {1}


def test_a_currency_is_three_letters(parley: Command, tmp_path: Path) -> None:
    """And nothing after them."""
    file = tmp_path / "prices.toml"
    for currency in ("usd\\n", "USD", "us", "€€€", "ｕｓｄ"):
        file.write_text(f'book = "b"\ncurrency = "{currency}"\n[models."*"]\ninput = "1"\noutput = "1"')
        assert "currency" in refused(parley("prices", "import", str(file)))
    assert len(rows(parley("prices", "show", "--json"))) == 1


def test_what_a_tenant_pays_is_shown_of_the_book_that_is_named(parley: Command, tmp_path: Path) -> None:
    """One that it does not pay by is said, and one that there is not, or that is another's, is unknown."""
    own = tmp_path / "own.toml"
    own.write_text('book = "silver"\n[models."*"]\ninput = "9"\noutput = "9"')
    theirs = tmp_path / "theirs.toml"
    theirs.write_text('book = "beta"\ntenant = "beta"\n[models."*"]\ninput = "8"\noutput = "8"')
    assert parley("tenants", "create", "beta").exit_code == 0
    for file in (own, theirs):
        assert parley("prices", "import", str(file)).exit_code == 0
    show = ("prices", "show", "--tenant", "acme", "--json", "--book")
    assert rows(parley(*show, "default"))[0]["book"] == "default"
    assert "by the book 'default', not by 'silver'" in refused(parley(*show, "silver"))
    for unknown in ("none", "beta"):
        assert f"there is no price book '{unknown}'" in refused(parley(*show, unknown))

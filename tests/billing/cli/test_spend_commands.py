"""`parley spend`: what a month costs, where it goes and why, what the cache saved; for people and scripts."""

from collections.abc import Generator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from core.clock import clock_from
from core.errors import StartupError
from tests.billing.cli.commands import DAY_MS, OCTOBER_MS, Command, parley, rows, used
from tests.billing.events import an_event
from tests.billing.spending import Moment

__all__ = ["parley"]

ACME = ("--tenant", "acme")


@pytest.fixture(autouse=True)
def november() -> Generator[None]:
    """All happens on the 18th."""
    with clock_from(Moment(datetime(2026, 11, 18, 12, tzinfo=UTC))):
        yield


@pytest.fixture
def costs(home: Path, parley: Command) -> list[int]:
    """What a request of October, two of November's first days and one of today cost."""
    days = (0, 31, 32, 48)
    events = [an_event(f"r{day}", ended_ms=OCTOBER_MS + day * DAY_MS + 1) for day in days]
    used(home, events)
    return [event.cost_nano for event in events]


def test_a_summary_tells_the_month_and_how_long_its_money_lasts(parley: Command, costs: list[int]) -> None:
    """In a few lines; to scripts with each day."""
    [found] = rows(parley("spend", "summary", *ACME, "--json"))
    assert (found["month"], found["cost_nano"], found["state"]) == ("2026-11", sum(costs[1:]), "open")
    assert sum(each["cost_nano"] for each in found["days"]) == sum(costs[1:])
    assert found["compared"]["before_nano"] == costs[0]
    assert found["forecast"]["low_nano"] <= found["forecast"]["cost_nano"] <= found["forecast"]["high_nano"]
    shown = parley("spend", "summary", *ACME).stdout
    assert "2026-11, open" in shown
    assert "no budget is near its end" in shown
    assert "forecast" not in parley("spend", "summary", *ACME, "--month", "2026-10").stdout


def test_a_series_tells_groups_and_days(parley: Command, costs: list[int]) -> None:
    """Each with its month; to scripts with its days, which add up."""
    found = rows(parley("spend", "series", *ACME, "--json"))
    assert [(row["model"], row["cost_nano"]) for row in found] == [
        ("smollm2", sum(costs[1:])),
        ("total", sum(costs[1:])),
    ]
    assert [day["date"] for day in found[0]["days"] if day["cost_nano"]] == [
        "2026-11-01",
        "2026-11-02",
        "2026-11-18",
    ]
    shown = parley("spend", "series", *ACME, "--by", "cost_center").stdout
    assert "(none)" in shown
    assert "nothing was used" not in parley("spend", "series", *ACME, "--month", "2026-10").stdout


def test_a_bridge_leads_from_one_month_to_the_other(parley: Command, costs: list[int]) -> None:
    """Its first row and its parts make its last row."""
    found = rows(parley("spend", "bridge", *ACME, "--json"))
    assert (found[0]["part"], found[-1]["part"]) == ("1 to 17 October", "1 to 17 November")
    assert [row["part"] for row in found[1:-1]] == ["volume", "mix", "price", "tiers", "corrections"]
    assert sum(row["amount_nano"] for row in found[:-1]) == found[-1]["amount_nano"] == sum(costs[1:3])
    assert all(row["why"] for row in found[1:-1])
    whole = rows(parley("spend", "bridge", *ACME, "--against", "month", "--json"))
    assert whole[0]["part"] == "October"
    assert "more tokens" in parley("spend", "bridge", *ACME).stdout


def test_the_cache_has_a_total(parley: Command, costs: list[int]) -> None:
    """Four of twelve tokens of each request, at a quarter of the price."""
    found = rows(parley("spend", "cache", *ACME, "--json"))
    assert [row["model"] for row in found] == ["smollm2", "total"]
    assert (found[0]["input_tokens"], found[0]["cached_tokens"], found[0]["saved_nano"]) == (36, 12, 900)
    assert found[1] == found[0] | {"model": "total"}
    parley("tenants", "create", "quiet")
    assert "no input was read" in parley("spend", "cache", "--tenant", "quiet").output


@pytest.mark.parametrize("command", ["series", "bridge", "cache"])
def test_what_is_no_month_or_no_tenant_is_one_line(parley: Command, command: str) -> None:
    """And says what to write."""
    for typed, says in ((("--tenant", "nobody"), "no tenant"), ((*ACME, "--month", "2026-13"), "no month")):
        error = parley("spend", command, *typed).exception
        assert isinstance(error, StartupError)
        assert says in str(error)
        assert "\n" not in str(error)

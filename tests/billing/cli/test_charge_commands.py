"""`parley charges`: a day, its dearest requests and one request, for people and for scripts."""

from pathlib import Path

import pytest

from core.errors import StartupError
from tests.billing.cli.commands import DAY_MS, OCTOBER_MS, Command, parley, rows, used
from tests.billing.events import an_event

__all__ = ["parley"]

DAY = ("--tenant", "acme", "--day", "2026-10-09")


@pytest.fixture
def costs(home: Path, parley: Command) -> list[int]:
    """What a request cost a week before, and two on the day."""
    times = (OCTOBER_MS + DAY_MS, OCTOBER_MS + 8 * DAY_MS, OCTOBER_MS + 8 * DAY_MS + 5)
    events = [an_event(f"r{n}", ended_ms=at + 1, output_text=n + 1) for n, at in enumerate(times)]
    used(home, events)
    return [event.cost_nano for event in events]


def test_a_day_is_told_beside_the_one_a_week_before(parley: Command, costs: list[int]) -> None:
    """By groups; to scripts with all sums in nano."""
    (found,) = rows(parley("charges", "day", *DAY, "--by", "model", "--json"))
    assert [(each["of"], each["sums"]["added_nano"]) for each in found["groups"]] == [
        ("smollm2", costs[1] + costs[2] - costs[0])
    ]
    assert (found["total"]["cost_nano"], found["before"]["name"]) == (costs[1] + costs[2], "2026-10-02")
    shown = parley("charges", "day", *DAY).stdout
    assert "2026-10-09, beside 2026-10-02" in shown
    assert (
        "2026-10, beside 2026-09" in parley("charges", "day", "--tenant", "acme", "--month", "2026-10").stdout
    )


def test_the_dearest_requests_are_told_with_the_rest(parley: Command, costs: list[int]) -> None:
    """One is shown, the other one is a sum."""
    (found,) = rows(parley("charges", "requests", *DAY, "--limit", "1", "--json"))
    assert ([each["request"] for each in found["items"]], found["more"]) == (["r2"], 1)
    assert (found["shown_nano"], found["others_nano"]) == (costs[2], costs[1])
    assert "The 1 dearest of 2 requests" in parley("charges", "requests", *DAY, "--limit", "1").stdout


def test_one_request_is_told_line_by_line(parley: Command, costs: list[int]) -> None:
    """And one that nobody knows is refused."""
    (found,) = rows(parley("charges", "explain", "--tenant", "acme", "r2", "--json"))
    assert sum(line["amount_nano"] for line in found["booked"]["lines"]) == costs[2]
    shown = parley("charges", "explain", "--tenant", "acme", "r2").stdout
    assert "How the amount is made" in shown
    error = parley("charges", "explain", "--tenant", "acme", "r9").exception
    assert isinstance(error, StartupError)
    assert "you have no request 'r9'" in str(error)

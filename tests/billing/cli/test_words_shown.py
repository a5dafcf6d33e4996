"""What commands print of findings, changes, proofs and requests, and how times are typed; no database."""

from typing import Any
from zoneinfo import ZoneInfo

import pytest

from billing import periods
from billing.audit.compare import StateComparison
from billing.audit.verify import VerifiedLog
from billing.cli import arguments, audit, noisy, requests
from billing.ledger.verify import Verified
from billing.operations.audit import DELETED, AuditFacts
from billing.operations.ended_requests import EndedRequestFacts, RefusedSends
from billing.periods import LAST_MS
from billing.requests.find import RequestMatch
from billing.requests.refusal_views import RefusalMatch
from billing.tables.audit import AuditLog
from billing.tables.noisy import NoisyFinding
from core.errors import Refused, StartupError
from core.operations import MoneyAmount
from tests.billing.cli.made_facts import BEGAN, DAY_MS, NAMES, made


def a_finding(**facts: Any) -> NoisyFinding:
    """Of acme, held back."""
    of: dict[str, Any] = {"id": "f", "tenant_id": "t", "pool": "p", "state": "open", "opened_ms": DAY_MS}
    of |= {"share_permille": 912, "fair_permille": 125, "others_wait_ms": 900, "baseline_wait_ms": 40}
    return made(NoisyFinding, **of | {"slots_max": 3, "throttled_ms": 1, "lifted_ms": None} | facts)


def test_a_noisy_neighbour() -> None:
    """Its cap as long as it holds."""
    row = noisy._row(a_finding(), NAMES, False)
    assert row == {
        **{"finding": "f", "tenant": "acme", "pool": "p", "state": "open", "since": BEGAN, "share": "91 %"},
        **{"fair": "12 %", "others_wait_ms": 900, "before_ms": 40, "slots_max": 3},
    }
    assert noisy._row(a_finding(lifted_ms=2), NAMES, False)["slots_max"] is None
    assert noisy._row(a_finding(throttled_ms=None), {}, False)["slots_max"] is None


def a_change(**facts: Any) -> AuditLog:
    """Of a tenant's name."""
    of: dict[str, Any] = {"tenant_id": "t", "seq": 1, "at_ms": DAY_MS, "author": "ann", "source": "command"}
    of |= {"action": "tenant.set", "target": "x", "before": '{"name":"a"}', "after": '{"name":"b"}'}
    return made(AuditLog, **of | facts)


def test_a_change_of_an_administrator() -> None:
    """Who, by what where it was no command, of what where it is not the tenant itself."""
    said = {"at": BEGAN, "tenant": "acme", "author": "ann", "action": "tenant.set"}
    assert audit._line(AuditFacts.of(a_change(), "acme")) == {**said, "target": "x", "change": "name a → b"}
    by_api = audit._line(AuditFacts.of(a_change(source="api", target="t", before="null"), "t"))
    assert by_api == {**said, "tenant": "t", "author": "ann (api)", "target": "", "change": "name b"}


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ({"id": 1, "a": 1, "b": 2}, {"id": 2, "a": 1, "b": 3}, "b 2 → 3"),
        ({}, {"a": "", "b": 0, "c": None}, "b 0"),
        ({"a": 1}, {}, "a 1 → None"),
        ({}, {"at_ms": DAY_MS, "for_ms": "x", "n": DAY_MS}, f"at_ms {BEGAN}, for_ms x, n {DAY_MS}"),
        ({}, {"of": {"a": 1, "b": "", "c": None, "d": [1, {"e": 2}]}}, "of (a 1, d (1; (e 2)))"),
        ({}, {"a": "x" * 118}, "a " + "x" * 118),
        ({}, {"a": "x" * 119}, "a " + "x" * 117 + "…"),
        ({"project": "p1"}, {"project": "p2"}, "project lab → p2"),
    ],
)
def test_what_differs_in_a_few_words(before: dict[str, Any], after: dict[str, Any], said: str) -> None:
    """As long as a line holds, with names in place of ids."""
    assert audit._change(before, after, {"p1": "lab"}) == said


def test_books_that_were_verified() -> None:
    """Whole or wrong."""
    books, log, rows = (
        Verified("t", 1, 2, 10**9, "abc"),
        VerifiedLog("t", 3, "def"),
        StateComparison(4),
    )
    words = {
        "transactions": 1,
        "lines": 2,
        "amount": "$1.00",
        "sha256": "abc",
        "changes": 3,
    }
    words |= {"changes_sha256": "def", "rows": 4, "state": "whole"}
    assert audit._facts("acme", books, log, rows, False) == {"tenant": "acme", **words}
    assert audit._facts(DELETED, books, log, rows, False)["tenant"] == "t"
    found = audit._facts("acme", books, log, StateComparison(faults=["x"]), True)
    assert (found["tenant"], found["amount_nano"]) == ("t", 10**9)
    assert (found["state"], found["faults"]) == ("wrong", ["x"])


def test_a_request_that_was_found() -> None:
    """What corrections did is only shown where they did anything."""
    numbers = {"input_uncached": 3, "input_cached": 4, "output_text": 5, "output_reasoning": 6, "claims": 1}
    of = {
        "id": "r",
        "tenant": "t",
        "tenant_name": "acme",
        "user": "ann",
        "user_id": "u",
        "project": "p",
        "key": "k",
    }
    end = {
        "model": "m",
        "pool": "p",
        "reason": "error",
        "code": "lost",
        "cost": MoneyAmount.of(10**9),
        "currency": "USD",
    }
    times: dict[str, Any] = {"ended_ms": DAY_MS, "accepted_ms": 1, "took_ms": 9, "first_token_after_ms": None}
    found = RequestMatch(**of, **numbers, **end, **times, corrected=MoneyAmount.of(0))  # pyright: ignore[reportArgumentType]
    assert requests._ended_row(EndedRequestFacts.of(found, {})) == {
        **{"ended": BEGAN, "id": "r", "tenant": "acme", "user": "ann", "model": "m", "reason": "error lost"},
        **{"input": 7, "output": 11, "cost": "1.00 USD", "corrected": None, "took_ms": 9, "first_ms": None},
    }


@pytest.mark.parametrize("others", [False, True])
def test_a_minute_of_refusals(others: bool) -> None:
    """Of one, or of others."""
    found = RefusalMatch(
        DAY_MS, "t", "" if others else "acme", "ann", "u", "k", "c", 2, "w", ["i", "j"], others
    )
    whose = ("(others)", "(others)", "") if others else ("acme", "ann", "k")
    assert requests._refused_row(RefusedSends.of(found, {})) == {
        "minute": BEGAN,
        **dict(zip(("tenant", "user", "key"), whose, strict=True)),
        **{"code": "c", "times": 2, "limit": "w", "last": "i j"},
    }


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        *(("7ms", 7), ("7s", 7_000), ("7m", 420_000), ("7h", 25_200_000), ("7d", 604_800_000)),
        *(("1000d", 86_400_000_000), ("86400000001ms", None), ("1001d", None), ("7", None), ("1w", None)),
    ],
)
def test_a_span_of_time(text: str, ms: int | None) -> None:
    """A thousand days at most."""
    assert periods.duration_ms(text) == ms


def test_a_time_that_was_asked_for() -> None:
    """So long ago, or a moment from 1970 to 9998."""
    assert periods.instant_or_ago("1s", ZoneInfo("UTC"), 1_000) == 0
    assert periods.instant_or_ago("9999-01-01", ZoneInfo("UTC"), 0) == LAST_MS
    for text in ("2s", "9999-01-01T00:00:01"):
        with pytest.raises(Refused, match="before 1970 or after 9998"):
            periods.instant_or_ago(text, ZoneInfo("UTC"), 1_999)


@pytest.mark.parametrize(
    ("text", "said"),
    [("2026-03-29T02:30", "is no time in Europe/Berlin"), ("2026-10-25T02:30", "is two times in")],
)
def test_a_time_over_which_clocks_change(text: str, said: str) -> None:
    """Is none, or two; with an offset, or as a day, it is one."""
    with pytest.raises(StartupError, match=said):
        arguments.instant_of(text, ZoneInfo("Europe/Berlin"))
    assert arguments.instant_of(f"{text}:00+02:00", ZoneInfo("Europe/Berlin"))
    assert arguments.instant_of("2026-03-08", ZoneInfo("America/Havana"))


@pytest.mark.parametrize(
    ("mistake", "dry_run", "state"),
    [
        (False, False, "ended"),
        (True, False, "taken back"),
        (False, True, "would be ended"),
        (True, True, "would be taken back"),
    ],
)
def test_what_became_of_a_commitment(mistake: bool, dry_run: bool, state: str) -> None:
    """In words."""
    assert arguments.end_state(mistake, dry_run) == state

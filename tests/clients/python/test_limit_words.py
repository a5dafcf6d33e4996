"""What a terminal says of a limit that refuses."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from parley_client import ProtocolError, error_text

NOW_MS = int(datetime(2026, 11, 21, 12, tzinfo=UTC).timestamp() * 1000)
DECEMBER_MS = int(datetime(2026, 12, 1, tzinfo=UTC).timestamp() * 1000)
DAY_MS = 86_400_000

CASES = [
    (
        {"code": "budget_exceeded", "scope": "user", "dimension": "month", "resets_at_ms": DECEMBER_MS},
        "Your budget for this month is used up; it begins anew on 1 December. An administrator can raise it.",
    ),
    (
        {
            "code": "budget_exceeded",
            "scope": "project",
            "dimension": "day",
            "limit": 5_000_000_000,
            "resets_at_ms": NOW_MS + 3_600_000,
        },
        "This project's budget of $5.00 for today is used up; it begins anew at 13:00. An administrator can "
        "raise it.",
    ),
    (
        {"code": "budget_exceeded", "scope": "user", "dimension": "day", "limit": 0, "resets_at_ms": NOW_MS},
        "Your budget for today allows no spending. An administrator can raise it.",
    ),
    (
        {"code": "budget_exceeded", "scope": "tenant", "dimension": "lifetime"},
        "Your organization's budget is used up. An administrator can raise it.",
    ),
    (
        {"code": "insufficient_quota", "scope": "tenant", "dimension": "wallet"},
        "The prepaid credit is used up. An administrator can add to it.",
    ),
    (
        {"code": "insufficient_quota", "scope": "project", "dimension": "requests_per_minute", "limit": 0},
        "This project's limit allows no requests a minute. An administrator can raise it.",
    ),
    (
        {"code": "insufficient_quota", "scope": "user", "dimension": "concurrency", "limit": 0},
        "Your limit allows no answers at once. An administrator can raise it.",
    ),
    (
        {"code": "rate_limited", "scope": "key", "dimension": "requests_per_minute", "after_ms": 1001},
        "This key's limit of requests a minute is reached. Try again in 2 seconds.",
    ),
    (
        {"code": "rate_limited", "scope": "tenant", "dimension": "tokens_per_minute", "limit": 20_000},
        "Your organization's limit of 20,000 tokens a minute is reached.",
    ),
    (
        {"code": "rate_limited", "scope": "user", "dimension": "concurrency", "limit": 1, "after_ms": 10},
        "Your limit of 1 answer at once is reached. Try again when one has ended.",
    ),
    ({"code": "overloaded", "after_ms": 3000}, "because (overloaded). Try again in 3 seconds."),
    (
        {
            "code": "budget_exceeded",
            "scope": "user",
            "dimension": "day",
            "remaining": 36_700,
            "resets_at_ms": NOW_MS + 3_600_000,
        },
        "Your budget for today has $0.0000367 left, too little for this request; it begins anew at 13:00. An "
        "administrator can raise it.",
    ),
    (
        {"code": "insufficient_quota", "scope": "tenant", "dimension": "wallet", "remaining": 1_500_000_000},
        "The prepaid credit has $1.50 left, too little for this request. An administrator can add to it.",
    ),
    ({"code": "id_conflict"}, "because (id_conflict)"),
    ({"code": "overloaded", "after_ms": 1000}, "because (overloaded). Try again in 1 second."),
    ({"code": "rate_limited", "after_ms": 0}, "because (rate_limited). Try again in 1 second."),
    (
        {"code": "budget_exceeded", "resets_at_ms": NOW_MS + DAY_MS - 1},
        "The budget is used up; it begins anew at 11:59. An administrator can raise it.",
    ),
    (
        {"code": "budget_exceeded", "resets_at_ms": NOW_MS + DAY_MS},
        "The budget is used up; it begins anew on 22 November at 12:00. An administrator can raise it.",
    ),
]


@pytest.mark.parametrize(("error", "said"), CASES, ids=[said for _, said in CASES])
def test_a_refusal_says_whose_limit_it_is_and_when_it_ends(error: dict[str, object], said: str):
    """Whose budget is used up, and when it begins anew, in the reader's own time."""
    assert error_text(ProtocolError({"message": "because", **error}), NOW_MS, UTC) == said


def test_the_hour_is_told_where_a_window_begins_within_a_day_of_the_reader():
    """A month of a tenant in UTC begins in the evening of a reader in New York."""
    error = {"code": "budget_exceeded", "scope": "user", "dimension": "month", "resets_at_ms": DECEMBER_MS}
    said = error_text(ProtocolError({"message": "because", **error}), NOW_MS, ZoneInfo("America/New_York"))
    assert "begins anew on 30 November at 19:00." in said

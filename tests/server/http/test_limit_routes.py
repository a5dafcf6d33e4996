"""What a caller reads of a limit and of a budget, and which rate the headers tell."""

from dataclasses import replace
from typing import Any

import pytest

from billing.api import LimitUse
from server.http.limit_routes import _budget, _headers, _limit, _of

RATE = LimitUse("key", "k1", "*", "requests_per_minute", False, True, 60, 5, 7, 0, 53, 4_001)
SHARED = {"scope_id": "k1", "scope": "key", "dimension": "requests_per_minute", "resets_at_ms": 4_001}


def test_a_limit_and_a_budget_say_all_that_is_known():
    """Money in nano-units, under names of its own."""
    assert _limit(RATE, "ann") == SHARED | {
        "models": "*",
        "limit": 60,
        "burst": 5,
        "used": 7,
        "remaining": 53,
    }
    assert _budget(replace(RATE, held=9), "ann") == SHARED | {
        "hard": True,
        "limit_nano": 60,
        "spent_nano": 7,
        "held_nano": 9,
        "remaining_nano": 53,
    }


@pytest.mark.parametrize(
    ("changes", "user", "told"),
    [
        ({}, "ann", "k1"),
        ({"scope_id": ""}, "ann", None),
        ({"scope": "user"}, "ann", "ann"),
        ({"scope": "user"}, "", None),
    ],
)
def test_a_limit_is_of_an_id_or_of_the_callers_name(changes: dict[str, Any], user: str, told: str | None):
    """A user's id is nobody's to read."""
    assert _of(replace(RATE, **changes), user) == told


def test_headers_tell_the_rate_with_the_least_left():
    """Of requests and of tokens; money and answers at once are no rates."""
    tokens = replace(RATE, dimension="tokens_per_minute", remaining=8, resets_at_ms=None)
    used = [
        replace(RATE, remaining=2, limit=10),
        RATE,
        tokens,
        replace(tokens, dimension="input_tokens_per_minute", remaining=9),
        replace(RATE, dimension="concurrency", remaining=0),
        replace(RATE, dimension="month", remaining=0),
    ]
    told = {
        "x-ratelimit-limit-requests": "10",
        "x-ratelimit-remaining-requests": "2",
        "x-ratelimit-reset-requests": "4",
        "x-ratelimit-limit-tokens": "60",
        "x-ratelimit-remaining-tokens": "8",
        "x-ratelimit-reset-tokens": "0",
    }
    assert _headers(used, 1) == _headers(used[::-1], 1) == told

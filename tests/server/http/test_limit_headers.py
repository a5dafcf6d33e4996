"""The HTTP headers of refusals."""

from dataclasses import replace
from typing import Any

import pytest

from core.errors import Refusal
from server.http.limit_headers import of_refusal
from server.http.replies import refused_reply

MINUTE = Refusal(
    "rate_limited",
    "too many requests",
    retry=True,
    after_ms=1200,
    scope="key",
    limit=60,
    dimension="requests_per_minute",
    remaining=0,
)
BUDGET = Refusal(
    "budget_exceeded",
    "the budget is used up",
    scope="user",
    limit=5_000_000,
    dimension="month",
    remaining=0,
    spent=4_999_000,
    held=1_000,
    resets_at_ms=1_796_083_200_000,
)


def test_a_rate_says_when_to_come_again_and_whose_it_is():
    """Retry-After is there, whole seconds and never too early, and the limit is named."""
    reply = refused_reply(MINUTE)
    assert reply.status_code == 429
    assert reply.headers["retry-after"] == "2"
    assert reply.headers["x-ratelimit-limit-requests"] == "60"
    assert reply.headers["x-ratelimit-remaining-requests"] == "0"
    assert reply.headers["x-ratelimit-reset-requests"] == "2"
    assert reply.headers["x-ratelimit-scope"] == "key"
    assert b'"dimension":"requests_per_minute"' in reply.body


def test_a_budget_is_not_to_be_retried():
    """402: no Retry-After, and SDKs that obey `x-should-retry` do not hammer."""
    reply = refused_reply(BUDGET)
    assert reply.status_code == 402
    assert reply.headers["x-should-retry"] == "false"
    assert "retry-after" not in reply.headers
    assert reply.headers["x-ratelimit-scope"] == "user"
    assert b'"spent":4999000' in reply.body
    assert b'"held":1000' in reply.body
    assert b'"resets_at_ms":1796083200000' in reply.body


def test_every_429_and_503_says_when():
    """Also where nobody knows better than `soon`."""
    for code, status in (("rate_limited", 429), ("overloaded", 503)):
        reply = refused_reply(Refusal(code, "later", retry=True))
        assert (reply.status_code, reply.headers["retry-after"]) == (status, "1")


def test_concurrency_has_no_rate_headers():
    """Answers at once are no rate: the headers of rates would lie about them."""
    refused = Refusal(
        "rate_limited", "x", retry=True, after_ms=5, scope="user", limit=4, dimension="concurrency"
    )
    names = {name for name in refused_reply(refused).headers if name.startswith("x-ratelimit")}
    assert names == {"x-ratelimit-scope"}


@pytest.mark.parametrize(
    ("changes", "status", "headers"),
    [
        ({}, 429, ["2", "60", "0", "2"]),
        ({"after_ms": 1_000, "remaining": 7}, 429, ["1", "60", "7", "1"]),
        ({"after_ms": 1_001, "remaining": None}, 429, ["2", "60", "0", "2"]),
        ({"after_ms": 0}, 429, ["0", "60", "0", "0"]),
        ({"after_ms": None}, 429, ["1", "60", "0", "0"]),
        ({"after_ms": None}, 400, [None, "60", "0", "0"]),
        ({"after_ms": 1}, 400, ["1", "60", "0", "1"]),
        ({"resets_at_ms": 3_001}, 429, ["2", "60", "0", "3"]),
        ({"resets_at_ms": 3_002}, 429, ["2", "60", "0", "4"]),
        ({"resets_at_ms": 1}, 429, ["2", "60", "0", "0"]),
        ({"remaining": -1}, 429, ["2", "60", "0", "2"]),
        ({"limit": None}, 429, ["2", None, None, None]),
    ],
)
def test_a_rate_has_whole_seconds_and_nothing_below_nothing(
    changes: dict[str, Any], status: int, headers: list[str | None]
):
    """Until it is whole, from now on; only a 402 or 429 names a scope."""
    found = of_refusal(replace(MINUTE, **changes), status, 1)
    rates = [found.get(f"x-ratelimit-{name}-requests") for name in ("limit", "remaining", "reset")]
    assert [found.get("retry-after"), *rates] == headers
    assert found.get("x-ratelimit-scope") == ("key" if status == 429 else None)

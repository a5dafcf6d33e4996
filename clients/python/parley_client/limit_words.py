"""Words for a terminal about a limit that refuses: whose it is, of what, and when it begins anew. Pure.

The chat page has the same in its own limit_words.js.
"""

from datetime import UTC, datetime, timedelta, tzinfo

from parley_client.answer import ProtocolError

NANO = 1_000_000_000
OWNERS = {
    "tenant": "Your organization's",
    "project": "This project's",
    "key": "This key's",
    "user": "Your",
    "model": "This model's",
}
CONCURRENCY = "concurrency"
PERIODS = {"day": " for today", "week": " for this week", "month": " for this month"}
RATES = {
    "requests_per_minute": ("request a minute", "requests a minute"),
    "tokens_per_minute": ("token a minute", "tokens a minute"),
    "input_tokens_per_minute": ("token asked a minute", "tokens asked a minute"),
    "output_tokens_per_minute": ("token answered a minute", "tokens answered a minute"),
    CONCURRENCY: ("answer at once", "answers at once"),
}
TO_RAISE = "An administrator can raise it."


def error_text(error: ProtocolError, now_ms: int, zone: tzinfo | None = None) -> str:
    """A refusal, for people; times in `zone`, None: the machine's own."""
    text = _limit_text(error, now_ms, zone) or f"{error.message} ({error.code})"
    if error.after_ms is None or error.dimension == CONCURRENCY:  # nobody knows when an answer ends
        return text
    seconds = max(1, -(-error.after_ms // 1000))
    return f"{text.rstrip('.')}. Try again in {seconds} second{'s' * (seconds > 1)}."


def _limit_text(error: ProtocolError, now_ms: int, zone: tzinfo | None) -> str:
    """A limit's refusal in words; empty where the refusal is not about a limit."""
    if error.code == "insufficient_quota" and error.dimension in RATES:
        return f"{_owner(error)} limit allows no {RATES[error.dimension][1]}. {TO_RAISE}"
    if error.code == "insufficient_quota":
        return f"The prepaid credit {_spent(error.remaining)}. An administrator can add to it."
    if error.code == "budget_exceeded":
        return _budget_text(error, now_ms, zone)
    return _rate_text(error) if error.code == "rate_limited" else ""


def _budget_text(error: ProtocolError, now_ms: int, zone: tzinfo | None) -> str:
    size = "" if error.limit is None else f" of {_money(error.limit)}"
    if error.limit == 0:
        return (
            f"{_owner(error)} budget{PERIODS.get(error.dimension or '', '')} allows no spending. {TO_RAISE}"
        )
    what = f"{_owner(error)} budget{size}{PERIODS.get(error.dimension or '', '')}"
    resets = error.resets_at_ms
    anew = f"; it begins anew {_when(resets, now_ms, zone)}" if resets else ""
    return f"{what} {_spent(error.remaining)}{anew}. {TO_RAISE}"


def _rate_text(error: ProtocolError) -> str:
    words = RATES.get(error.dimension or "")
    if words is None:
        return ""
    one, many = words
    units = many if error.limit is None else f"{error.limit:,} {one if error.limit == 1 else many}"
    free = " Try again when one has ended." if error.dimension == CONCURRENCY else ""
    return f"{_owner(error)} limit of {units} is reached.{free}"


def _owner(error: ProtocolError) -> str:
    return OWNERS.get(error.scope or "", "The")


def _spent(remaining: int | None) -> str:
    """Words for the part that is left, which is not enough."""
    if not remaining:
        return "is used up"
    return f"has {_money(remaining)} left, too little for this request"


def _when(at_ms: int, now_ms: int, zone: tzinfo | None) -> str:
    at = datetime.fromtimestamp(at_ms / 1000, tz=UTC).astimezone(zone)
    time = f"{at:%H:%M}"
    if at_ms - now_ms < timedelta(days=1) / timedelta(milliseconds=1):
        return f"at {time}"
    day = f"{at.day} {at:%B}"
    return f"on {day}" if time == "00:00" else f"on {day} at {time}"


def _money(nano: int) -> str:
    """An exact amount: at least two digits after the point, at most nine."""
    whole, fraction = divmod(abs(nano), NANO)
    digits = f"{fraction:09d}".rstrip("0").ljust(2, "0")
    return f"{'-' if nano < 0 else ''}${whole}.{digits}"

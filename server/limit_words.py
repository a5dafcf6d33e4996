"""What a terminal says of a limit that refuses: whose it is, of what, and when it begins anew. Pure.

The chat page says the same (web/limit_words.js).
"""

from datetime import UTC, datetime, timedelta, tzinfo

from billing.api import to_display
from server.client_answer import ProtocolError

OWNERS = {
    "tenant": "Your organization's",
    "project": "This project's",
    "key": "This key's",
    "user": "Your",
    "model": "This model's",
}
PERIODS = {"day": " for today", "week": " for this week", "month": " for this month"}
RATES = {
    "requests_per_minute": "requests a minute",
    "tokens_per_minute": "tokens a minute",
    "input_tokens_per_minute": "tokens asked a minute",
    "output_tokens_per_minute": "tokens answered a minute",
    "concurrency": "answers at once",
}


def error_text(error: ProtocolError, now_ms: int, zone: tzinfo | None = None) -> str:
    """A refusal, for people; times in `zone`, None: the machine's own."""
    text = _limit_text(error, now_ms, zone) or f"{error.message} ({error.code})"
    if error.after_ms is None:
        return text
    seconds = max(1, -(-error.after_ms // 1000))
    return f"{text.rstrip('.')}. Try again in {seconds} second{'s' * (seconds > 1)}."


def _limit_text(error: ProtocolError, now_ms: int, zone: tzinfo | None) -> str:
    owner = OWNERS.get(error.scope or "", "The")
    if error.code == "insufficient_quota":
        return f"{_spent('The prepaid credit', error.remaining)}."
    if error.code == "budget_exceeded":
        resets = error.resets_at_ms
        anew = f"; it begins anew {_when(resets, now_ms, zone)}" if resets else ""
        what = f"{owner} budget{PERIODS.get(error.dimension or '', '')}"
        return f"{_spent(what, error.remaining)}{anew}."
    rate = RATES.get(error.dimension or "")
    return f"{owner} limit of {rate} is reached." if error.code == "rate_limited" and rate else ""


def _spent(what: str, remaining: int | None) -> str:
    """What is left of it does not do."""
    if not remaining:
        return f"{what} is used up"
    left = to_display(remaining)
    return f"{left} of {what[0].lower()}{what[1:]} is left, which does not pay for this request"


def _when(at_ms: int, now_ms: int, zone: tzinfo | None) -> str:
    at = datetime.fromtimestamp(at_ms / 1000, tz=UTC).astimezone(zone)
    time = f"{at:%H:%M}"
    if at_ms - now_ms < timedelta(days=1) / timedelta(milliseconds=1):
        return f"at {time}"
    day = f"{at.day} {at:%B}"
    return f"on {day}" if time == "00:00" else f"on {day} at {time}"

"""HTTP headers about limits: when to come again, how much is left, whose limit it is. Pure.

Waiting does not help with money (402): `x-should-retry: false`, which the usual SDKs obey, and no
`Retry-After`.
"""

from core.errors import Refusal

COUNTED = {
    "requests_per_minute": "requests",
    "tokens_per_minute": "tokens",
    "input_tokens_per_minute": "tokens",
    "output_tokens_per_minute": "tokens",
}
RETRY_AFTER_MS = 1000


def of_refusal(refused: Refusal, status: int, now_ms: int) -> dict[str, str]:
    """The headers of a refused call, by its HTTP status; `now_ms` is Unix time."""
    headers: dict[str, str] = {}
    if refused.scope is not None and status in (402, 429):
        headers["x-ratelimit-scope"] = refused.scope
    if status == 402:
        return headers | {"x-should-retry": "false"}
    if refused.after_ms is not None or status in (429, 503):
        after_ms = RETRY_AFTER_MS if refused.after_ms is None else refused.after_ms
        headers["retry-after"] = str(_seconds(after_ms))
    counted = COUNTED.get(refused.dimension or "")
    if counted is not None and refused.limit is not None:
        reset_ms = refused.after_ms if refused.resets_at_ms is None else refused.resets_at_ms - now_ms
        headers |= rate(counted, refused.limit, refused.remaining or 0, reset_ms or 0)
    return headers


def rate(counted: str, limit: int, remaining: int, reset_ms: int) -> dict[str, str]:
    """Headers of one rate: `counted` is requests or tokens, `reset_ms` the time until it is whole again."""
    return {
        f"x-ratelimit-limit-{counted}": str(limit),
        f"x-ratelimit-remaining-{counted}": str(max(0, remaining)),
        f"x-ratelimit-reset-{counted}": str(_seconds(max(0, reset_ms))),
    }


def _seconds(milliseconds: int) -> int:
    """Whole seconds, rounded up."""
    return -(-milliseconds // 1000)

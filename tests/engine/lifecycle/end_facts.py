"""What an end is told of."""

from typing import Any

from engine.api import (
    EndFacts,
    EndReason,
)
from tests.engine.builders import START_MS


def facts(**changes: Any) -> EndFacts:
    """The facts of an answer of seven tokens, six of them shown, to a prompt of ten, four of them cached."""
    fields: dict[str, Any] = {
        "tenant": "t1",
        "request": "r1",
        "pool": "default",
        "reason": EndReason.STOP,
        "text": "Grüße 🙂",
        "prompt_tokens": 10,
        "n": 7,
        "covered": 6,
        "input_cached": 4,
        "claims": 1,
        "claimed_ms": START_MS + 20,
        "first_token_ms": START_MS + 50,
        "ended_ms": START_MS + 900,
        "recomputed_tokens": 3,
        **changes,
    }
    return EndFacts(**fields)

"""Answers about a tenant's move as the API gives them, for pages that tests play them to."""

from typing import Any

IDS = [f"0198b2c{at}-6d2f-7a10-9c00-00000000{at}{at:03x}" for at in range(10)]
MISFIT = {
    **{"id": IDS[1], "tenant": "t", "source": "eu-1", "to": "big", "moved": False, "reason": "too_large"},
    "message": "no worker of pool big holds more than 32768 tokens",
}


def preview(streams: int = 8, waiting: int = 3, **changes: Any) -> dict[str, Any]:
    """A dry run: all fits but one stream, where there is one more."""
    facts: dict[str, Any] = {
        **{"streams": streams, "streams_of": streams, "waiting": waiting, "waiting_of": waiting},
        **{"stay": [], "stay_total": 0, "slots": 48, "free": 20, "without_slot": 0, "waiting_there": 0},
        **{"kv": 0.54, "kv_after": 0.71, "recomputed_tokens": 41_208, "price": ""},
    }
    return {**facts, **changes}


def stream(at: int, state: str, pause_ms: int | None = None, why: str = "") -> dict[str, Any]:
    """A stream of a move."""
    return {"id": IDS[at], "state": state, "pause_ms": pause_ms, "why": why}


STREAMS = [
    stream(0, "moved", 410),
    stream(1, "stays", why="no worker of pool big holds more than 32768 tokens"),
    *(stream(at, "moved", ms) for at, ms in ((2, 620), (3, 380), (4, 440), (5, 500))),
    stream(6, "moving"),
    stream(7, "waits"),
    stream(8, "next"),
]
NOTHING: dict[str, Any] = {
    **{"pool": "eu-1", "to": "big", "tenant": "initech", "leaves": [], "enters": True, "moved": 0},
    **{"stay": [], "newcomers": False, "streams": [], "streams_moved": 0, "streams_to_move": 0},
    **{"lost": 0, "doubled": 0, "longest_pause_ms": None, "preview": None},
}
WOULD: dict[str, Any] = {
    **NOTHING,
    **{"moved": 11, "stay": [MISFIT]},
    "preview": preview(
        streams_of=9,
        stay=[MISFIT],
        stay_total=1,
        without_slot=2,
        price="as before: by token, of its own book",
    ),
}
SO_FAR: dict[str, Any] = {
    **NOTHING,
    **{"moved": 6, "stay": [MISFIT], "streams": STREAMS, "streams_moved": 5, "streams_to_move": 8},
    "longest_pause_ms": 620,
}
BEGUN = {"run": "run-2", "operation": "pools.move"}
LISTED: dict[str, Any] = {
    **BEGUN,
    **{"state": "running", "by": "Ann", "begun": None, "ended": None, "stop_asked": False},
    "move": {"tenant": "initech", "pool": "eu-1", "to": "big", "streams_moved": 5, "streams_to_move": 8},
}
GOING: dict[str, Any] = {**LISTED, "events": [], "answer": SO_FAR, "problem": None}

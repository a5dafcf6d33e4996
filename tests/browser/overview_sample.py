"""An answer of GET /api/overview as a fleet in trouble gives it, and as one that is well does."""

from datetime import UTC, datetime, timedelta
from typing import Any

NOW = datetime(2026, 11, 26, 14, 32, 7, tzinfo=UTC)
MINUTES = [(NOW - timedelta(minutes=59 - each)).isoformat() for each in range(60)]


def worker(
    name: str, state: str = "serving", kv: float | None = 0.62, age: int | None = 31
) -> dict[str, Any]:
    """One worker's row."""
    return {
        "worker": name,
        "node": "gpu-01",
        "state": state,
        "kv": kv,
        "step_age_ms": age,
        "running": 12,
        "slots": 16,
        "why": "node gpu-05 sent nothing for 48 s" if state == "lost" else "",
    }


def light(check: str, title: str, state: str = "equal", why: str = "") -> dict[str, Any]:
    """One check of the books."""
    return {
        "check": check,
        "title": title,
        "state": state,
        "difference": "0" if state == "equal" else "",
        "age_seconds": 40.0 if state == "equal" else None,
        "why": why,
        "command": f"parley reconcile --check {check}",
    }


def pool(name: str, workers: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    """One pool."""
    given = {
        "pool": name,
        "model": "qwen3-32b v4",
        "shared": True,
        "tenants": [],
        "running": 82,
        "slots": 112,
    }
    return {**given, "kv": 0.62, "waiting": 2, "workers": workers, **more}


STATES = ["serving", "serving", "slow", "serving", "lost", "serving", "starting"]
FULL = [
    worker(
        f"eu-1-w{each}",
        state,
        None if state in ("lost", "starting") else 0.95,
        2400 if state == "slow" else 41,
    )
    for each, state in enumerate(STATES)
]
MANY = [
    worker(f"big-w{each}", "lost" if each % 60 == 7 else "slow" if each % 40 == 3 else "serving")
    for each in range(117)
]


def overview(state: str = "bad") -> dict[str, Any]:
    """The whole answer: `bad` or `well`."""
    running = [130 + each % 7 for each in range(60)]
    waiting = [0] * 55 + [3, 9, 20, 37, 51]
    bad = state == "bad"
    text = "Pool eu-1 is full: 37 interactive requests wait, next free in about 12 s." if bad else "All well."
    return {
        "at": NOW.isoformat(),
        "verdict": {"state": state, "text": text, "detail": "138 requests run on 14 workers in 3 pools."},
        "remedies": [
            {
                "lead": "Move acme out of eu-1.",
                "text": "8 of its 9 streams fit into acme-1, which has 20 free slots.",
                "action": "move_tenant",
                "target": {"pool": "eu-1", "tenant": "acme"},
                "command": "parley requests migrate-all --from eu-1 --to acme-1",
            }
        ]
        if bad
        else [],
        "strip": {
            "running": {"value": 138, "of": 208, "series": running},
            "output": {"tokens_per_second": 5881.2, "series": [5800 + 9 * (each % 11) for each in range(60)]},
            "first_token": {
                "p50": 0.21,
                "p95": 0.42,
                "p99": 0.88,
                "series": [None, *[0.4 + each % 5 / 50 for each in range(59)]],
            },
            "between_tokens": {"p50": 0.023, "p95": 0.031, "p99": 0.052, "series": [0.03] * 60},
            "errors": {"share": 0.0003, "count": 6, "of": 18392, "series": [0.0003] * 60},
            "unbilled": {"seconds": 0.8, "ended_unread": 0, "quarantined": 0, "series": []},
        },
        "pools": [
            pool("eu-1", FULL, running=96, slots=96, waiting=51) if bad else pool("eu-1", FULL[:2]),
            pool(
                "acme-1",
                [worker(f"acme-1-w{each}") for each in range(4)],
                shared=False,
                tenants=["acme"],
                waiting=0,
            ),
            pool("big", MANY),
        ],
        "waiting": [
            {"class": "interactive", "waiting": 37, "oldest_seconds": 9.8, "next_seconds": 12.0},
            {"class": "standard", "waiting": 0, "oldest_seconds": None, "next_seconds": None},
        ],
        "load": {"minutes": MINUTES, "running": running, "waiting": waiting, "slots": [208] * 60},
        "books": [
            light("R1", "Usage lines = revenue"),
            light("R4", "Stripe = our books", "unknown", "not connected"),
            light("R5", "Live balances = posted", "differs"),
        ],
        "happened": [
            {
                "at": NOW.isoformat(),
                "state": "bad",
                "text": "eu-1-w5 lost: node gpu-05 sent nothing for 3 s",
                "by": "supervisor",
            },
            {
                "at": MINUTES[20],
                "state": "info",
                "text": "globex may run 40 at once, was 30: “launch week”",
                "by": "operator",
            },
        ],
    }

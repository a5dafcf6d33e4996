"""Answers about pools as the API gives them, for pages that tests play them to."""

from datetime import UTC, datetime, timedelta
from typing import Any

from playwright.async_api import Page

from tests.browser.overview_sample import overview

SECONDS = ("ready", "busy", "idle", "committed", "overage", "reserved")


def usd(units: int) -> dict[str, str]:
    """An amount."""
    return {"nano": str(units * 10**9), "currency": "USD"}


def use(pool: str, *seconds: int) -> dict[str, Any]:
    """What a pool did in a month, in the order of SECONDS."""
    given = {f"{name}_gpu_seconds": value for name, value in zip(SECONDS, seconds, strict=True)}
    money = {"gpu": usd(0), "tokens": usd(300), "cost": usd(200), "margin_per_gpu_hour": usd(1)}
    return {"pool": pool, "tenant": "", "gpu_type": "h100", **given, **money}


def request(number: int, tenant: str, status: str) -> dict[str, Any]:
    """A request that has not ended, accepted at `number` seconds."""
    names = ("claims", "prompt_tokens", "tokens", "log_head", "claimed_ms", "first_token_ms", "deadline_ms")
    texts = {"pool": "eu-1", "priority": "interactive", "lane": "", "worker": "", "model": "m", "reason": ""}
    row = {"id": f"r{number}", "tenant": "t", "tenant_name": tenant, "status": status}
    return {**dict.fromkeys(names, 0), **texts, **row, "accepted_ms": number * 1000}


REQUESTS = [request(1, "initech", "running"), request(2, "initech", "queued"), request(3, "umbra", "queued")]
DESIRED: dict[str, Any] = {
    **{"tenant": None, "project": None, "let_in": [], "state": "active", "generation": 1, "made": None},
    **{"reserve_interactive_tokens": 0, "reserve_standard_tokens": 0},
}


def desired(pool: str, workers: int, why: str = "", **more: Any) -> dict[str, Any]:
    """What a pool should be, and what the fleet sees of it."""
    facts = {"pool": pool, "model": "m", "version": "v4", "workers": workers, "labels": {"zone": "eu"}}
    since = (datetime.now(UTC) - timedelta(minutes=4)).isoformat()
    seen: dict[str, Any] = {"ready": workers, "as_desired": not why, "why": why, "since": since, "seen": None}
    seen["versions"] = [{"version": "v4", "workers": workers, "ready": workers, "requests": 0, "until": None}]
    return {**facts, **DESIRED, "observed": seen, **more}


def share(tenant: str, waiting: int, share: float) -> dict[str, Any]:
    """What a tenant takes of a pool."""
    facts = {"tenant": "t", "tenant_name": tenant, "running": 1, "waiting": waiting, "at_cap": False}
    return {**facts, "share": share, "fair_share": 0.5}


def hours(pool: str) -> list[dict[str, Any]]:
    """A day of four GPUs, of which some were busy."""
    last = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    ready = {"pool": pool, "ready_gpu_seconds": 4 * 3600}
    return [
        {**ready, "at": (last - timedelta(hours=24 - each)).isoformat(), "busy_gpu_seconds": each % 5 * 2000}
        for each in range(24)
    ]


def idle_share(pool: str, tenant: str, tokens: int, of_tokens: int, idle: int | None) -> dict[str, Any]:
    """A tenant's share of a shared pool's idle cost."""
    facts = {"pool": pool, "tenant": tenant, "name": tenant, "tokens": tokens, "of_tokens": of_tokens}
    return {**facts, "idle": None if idle is None else usd(idle)}


IDLE = [
    idle_share("eu-1", "initech", 3_000_000, 4_000_000, 30),
    idle_share("eu-1", "umbra", 1_000_000, 4_000_000, 10),
    idle_share("cpu-1", "", 0, 0, None),
]
WHY = "waits for users in Redis: run `parley redis acl --url URL --pool eu-1`"
PLAYED: dict[str, Any] = {
    "**/api/overview": overview(),
    "**/api/pools?*": {
        "items": [
            desired("eu-1", 7, WHY, next_version="v5"),
            desired("acme-1", 4, tenant="acme"),
            desired("new", 1, "no room"),
        ],
        "next": None,
    },
    "**/api/pools/hours*": {"items": [*hours("eu-1"), *hours("big")], "next": None},
    "**/api/chargeback/idle*": {"month": "2026-11", "from": None, "to": None, "shares": IDLE},
    "**/api/pools/*/shares": {"pool": "eu-1", "tenants": [share("initech", 1, 0.8), share("umbra", 1, 0.2)]},
    "**/api/pools/usage*": {
        "from": None,
        "to": None,
        "uses": [use("eu-1", 360_000, 180_000, 180_000, 0, 0, 0)],
    },
    "**/api/requests?*": {"items": REQUESTS, "next": None, "now_ms": 12_000},
    "**/api/workers?*": {"items": [], "next": None},
    "**/api/search?*": {
        "items": [
            {
                "kind": "worker",
                "id": "eu-1-w2",
                "title": "eu-1-w2",
                "tenant": "",
                "tenant_name": "",
                "pool": "eu-1",
                "exact": True,
            }
        ]
    },
}

STEPS = [("r1", "moved"), ("r2", "stays: acme-1 takes 32768 tokens")]
EVENTS = [
    {"done": each, "of": 3, "what": f"{id} {how}", "at_ms": 1} for each, (id, how) in enumerate(STEPS, 1)
]
STARTED = {"run": "run-1", "operation": "requests.migrate_all"}
RUNNING: dict[str, Any] = {
    **STARTED,
    **{"state": "running", "by": "Ann", "begun": None, "ended": None, "stop_asked": False},
    **{"events": EVENTS, "answer": None, "problem": None},
}
MOVED = {"pool": "eu-1", "to": "acme-1", "moved": 1, "stay": [{"id": "r2"}], "newcomers": False}


async def play(page: Page, answers: dict[str, Any]) -> None:
    """Answer what the page asks from these, by the patterns of their addresses."""

    async def one(pattern: str, answer: Any) -> None:
        await page.route(pattern, lambda route: route.fulfill(json=answer))

    for pattern, answer in answers.items():
        await one(pattern, answer)

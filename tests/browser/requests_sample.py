"""Answers of the operations on requests as a page of the console gets them: played ones."""

from typing import Any

NOW_MS = 1_764_081_127_000
ENDED = "0198b2c4-6f1e-7a42-9c31-5f0b8e27d1aa"
RUNNING = "0198b2c4-7777-7a42-9c31-5f0b8e27d1bb"


HELD_BACK = {
    "event_sha256": "e" * 64,
    "reason": "bad_seal",
    "detail": "its seal is of another request",
    "since_ms": NOW_MS,
    "resolution": "",
}


def usd(nano: int) -> dict[str, str]:
    """An amount as the API gives it."""
    return {"nano": str(nano), "currency": "USD"}


def live_row(id: str = RUNNING, status: str = "running", **others: Any) -> dict[str, Any]:
    """A request that has not ended, as requests.list has it."""
    row = {"tenant": "t1", "id": id, "pool": "eu-1", "status": status, "priority": "interactive", "lane": "b"}
    row |= {"worker": "eu-1-w5", "model": "qwen3-32b", "claims": 1, "prompt_tokens": 3187, "tokens": 118}
    row |= {"log_head": 40, "accepted_ms": NOW_MS - 4_800, "claimed_ms": NOW_MS - 4_700}
    row |= {"first_token_ms": NOW_MS - 4_400, "deadline_ms": NOW_MS + 600_000, "reason": ""}
    row |= {"user": "ann", "user_id": "u-5596", "key": "pk_chat", "key_name": "chat-web"}
    return row | {"tenant_name": "acme"} | others


def ended_row(id: str = ENDED, reason: str = "stop", **others: Any) -> dict[str, Any]:
    """A request that ended, as requests.find has it."""
    row = {"id": id, "tenant": "t2", "tenant_name": "initech", "ended_ms": NOW_MS, "took_ms": 29_380}
    row |= {"accepted_ms": NOW_MS - 29_380, "first_token_after_ms": 9_440, "user": "u-2210", "user_id": "u1"}
    row |= {"project": "p1", "key": "pk_chat", "model": "qwen3-32b", "pool": "eu-1", "reason": reason}
    row |= {"code": "", "input_uncached": 1164, "input_cached": 2048, "output_text": 654}
    row |= {"output_reasoning": 0, "cost": usd(515_040), "corrected": usd(0), "currency": "USD"}
    return row | {"claims": 2, "ended": None, "accepted": None} | others


def refused_row(**others: Any) -> dict[str, Any]:
    """Refusals of a minute, as requests.find_refused has them."""
    row = {"minute_ms": NOW_MS - NOW_MS % 60_000, "tenant": "t1", "tenant_name": "acme", "user": "u-7"}
    row |= {"user_id": "u7", "key": "pk_batch", "code": "rate_limited", "number": 1204}
    row |= {"why": "requests per minute of the key", "last_ids": [ENDED, RUNNING], "others": False}
    return row | {"minute": None} | others


def _line(number: int, meter: str, quantity: int, price: int, amount: int) -> dict[str, Any]:
    line = {"line": number, "kind": "usage", "meter": meter, "quantity": quantity, "price": usd(price)}
    return line | {
        "amount": usd(amount),
        "adjusts": None,
        "cause": "",
        "counts_ms": NOW_MS,
        "posted_ms": NOW_MS,
    }


LIFE = {"queued": 4, "room": 30, "claimed": 9_120, "decode": 9_440, "lost": 19_420}
LIFE_AFTER = {"claimed": 22_660, "decode": 23_180, "ended": 29_380}


def lived(*phases: tuple[str, int]) -> list[dict[str, Any]]:
    """Phases as the API gives them."""
    return [{"kind": kind, "at_ms": ms} for kind, ms in phases]


def booked() -> dict[str, Any]:
    """A request in the books that waited, was moved off a lost worker, and ended normally."""
    at = {"accepted": 0, "claimed": 9_120, "first token": 9_440, "ended": 29_380, "booked": 29_394}
    begun = NOW_MS - 29_380
    steps = [{"name": name, "at_ms": begun + ms, "after_ms": 0} for name, ms in at.items()]
    price = {"book": "b1", "book_name": "EU 2026-11", "version": 3, "model": "qwen3-32b", "from_ms": 1}
    price |= {"until_ms": None, "why": "it was pinned when the request was admitted", "tiers": {}}
    lines = [
        _line(1, "input", 1164, 120_000_000, 139_680),
        _line(2, "cached_input", 2048, 30_000_000, 61_440),
        _line(3, "output", 654, 480_000_000, 313_920),
    ]
    found = {key: value for key, value in ended_row().items() if key in BOOKED}
    found |= {"amount": usd(515_040), "lines": lines, "price": price, "paid": [], "owed": None}
    found |= {
        "steps": steps,
        "priority": "interactive",
        "trace_id": "4bf92f3577b34da6a3ce929d0e0e4736",
    }
    found |= {"months": [{"month": "2026-11", "amount": usd(515_040), "closed_ms": None}]}
    found |= {"phases": lived(*LIFE.items()) + lived(*LIFE_AFTER.items())}
    return found | {"recomputed_tokens": 3614, "policy": "a1" * 32, "verdicts": {"secrets": {"mask": 2}}}


BOOKED = (
    *("project", "key", "user", "user_id", "model", "pool", "reason", "code", "input_uncached"),
    *("input_cached", "output_text", "output_reasoning", "claims", "cost", "currency"),
)


def explained(**others: Any) -> dict[str, Any]:
    """An answer of requests.explain: one that ended, unless `others` say so."""
    found = {"id": ENDED, "tenant": "t2", "tenant_name": "initech", "state": "booked", "booked": booked()}
    found |= {"held_back": [], "holds": None, "in_pool": None, "refused": [], "unread": ""}
    names = {"pk_chat": "chat-web", "p1": "web", "u-5596": "ann"}
    return found | {"names": names, "limits": [], "share": None} | others


def detail(status: str = "running", **others: Any) -> dict[str, Any]:
    """What a pool tells of a request that has not ended."""
    row = {key: value for key, value in live_row(status=status).items() if key != "tenant_name"}
    found = {"row": row, "warm": "", "fingerprint": "", "epoch": 1, "visible": 100, "covered": 3300}
    found |= {"granted": 512, "input_cached": 2048, "recomputed_tokens": 0, "deaths": 0, "preempts": 0}
    found |= {"phases": lived(("queued", 3), ("claimed", 100), ("decode", 400))}
    found |= {"control": 0, "moved_to": "", "older": None, "log_first": 1, "now_ms": NOW_MS, "parked_ms": 0}
    return found | {"readers": {"gateway-a": "reading", "gateway-b": "stuck"}} | others


def standing(scope: str, id: str, dimension: str, limit: Any, used: Any, **others: Any) -> dict[str, Any]:
    """A limit of an open request, as requests.explain has it."""
    row = {
        "scope": scope,
        "scope_id": id,
        "models": "*",
        "dimension": dimension,
        "limit": limit,
        "used": used,
    }
    row |= {"held": None, "remaining": limit, "resets_ms": None, "known": True, "verdict": "go"}
    return row | others


def reader(connection: str, gateway: str, **others: Any) -> dict[str, Any]:
    """One reader, as requests.show has it."""
    row = {"connection": connection, "session": "s1", "gateway": gateway, "client": "parley-js 1.2"}
    row |= {"protocol": "parley.v1.json", "since_ms": NOW_MS - 80_000, "state": "reading", "sent": 40}
    row |= {"acked": 38, "behind": 2, "unacked_events": 2, "window_events": 256, "unacked_bytes": 12}
    return row | {"window_bytes": 65_536, "paused_since_ms": 0, "stuck_since_ms": 0} | others


def running(**others: Any) -> dict[str, Any]:
    """An answer of requests.explain: one that runs, with what it holds."""
    limits = [("money", "tenant", "acme", "month"), ("rate", "key", "pk_chat", "requests per minute")]
    counted = [
        {"kind": kind, "scope": scope, "scope_id": id, "of": of, "shadow": False}
        for kind, scope, id, of in limits
    ]
    holds = {"state": "open", "pool": "eu-1", "project": "p1", "key": "pk_chat", "user_id": "u-5596"}
    holds |= {"model": "qwen3-32b", "input_tokens": 3187, "granted": 512, "held": usd(491_000)}
    holds |= {"admitted_ms": NOW_MS - 4_800, "deadline_ms": NOW_MS + 600_000, "cancelled": False}
    holds |= {"book": "b1", "version": 3, "counted_in": counted}
    limits = [
        standing("tenant", "", "concurrency", 48, 41),
        standing("key", "pk_chat", "requests_per_minute", 60, 60, verdict="refuse"),
        standing("tenant", "", "month", usd(6_000 * 10**9), usd(4_120 * 10**9), held=usd(491_000)),
    ]
    share = {"pool": "eu-1", "running": 12, "slots_max": 12, "tokens": 90_112, "tokens_max": None}
    facts = {"id": RUNNING, "tenant": "t1", "tenant_name": "acme", "state": "running", "booked": None}
    facts |= {"limits": limits, "share": share | {"waits": True}}
    return explained(**facts, holds=holds, in_pool=detail()) | others

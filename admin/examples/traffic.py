"""Requests that example tenants sent over some days: by day and night, on weekdays and weekends. Pure."""

import json
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from random import Random
from zoneinfo import ZoneInfo

from admin.examples.tenants import ExampleKey, ExampleTenant, Rhythm
from billing.api import Counts

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
NOW_MS = 120_000  # the last one ends that long before now, at least
BY_HOUR = {
    Rhythm.OFFICE: (1, 1, 1, 1, 1, 2, 4, 12, 30, 46, 52, 48, 36, 44, 52, 50, 44, 34, 20, 12, 9, 7, 4, 2),
    Rhythm.NIGHT: (8, 60, 80, 60, 20, 2, *[0] * 17, 2),
    Rhythm.ALWAYS: (
        12,
        10,
        9,
        9,
        9,
        10,
        12,
        16,
        22,
        28,
        30,
        30,
        28,
        28,
        30,
        30,
        28,
        25,
        24,
        24,
        22,
        20,
        17,
        14,
    ),
}
WEEKEND = {Rhythm.OFFICE: 0.15, Rhythm.NIGHT: 0.7, Rhythm.ALWAYS: 0.75}
GROWTH = 0.9  # how much more there is in the end than in the beginning
# Parts of a thousand; the rest stops by itself.
ENDS = (
    ("length", "", 31),
    ("cancelled", "", 14),
    ("blocked", "safety_blocked", 9),
    ("error", "internal", 5),
    ("error", "engine_lost", 3),
    ("deadline", "", 2),
    ("slow_reader", "", 2),
)
CACHED_PART = 0.55  # of requests that begin as one before
CACHE_BLOCK = 16
FLAGGED_PART = 0.02
TAGGED_PART = 0.6
ANSWERS_IN_FULL = ("stop", "length", "deadline")
ANSWER_MAX = 2_048


@dataclass(frozen=True)
class ExampleRequest:
    """A request that ended. `tenant`, `key`, `user`, `project`: names; `user` empty: nobody's; `labels`: as
    its client gave them."""

    id: str
    tenant: str
    project: str
    key: str
    user: str
    priority: str
    model: str
    accepted_ms: int
    claimed_ms: int
    first_token_ms: int
    ended_ms: int
    reason: str
    code: str
    counts: Counts
    asked_input: int
    asked_output: int
    labels: bytes
    verdicts: dict[str, dict[str, int]]


@dataclass(frozen=True)
class ExampleDays:
    """How much there is to be: `requests` a day of all tenants together, up to `end_ms`. `models`: names, the
    most used first; `context`: tokens of a prompt with its answer at most."""

    days: int
    requests: int
    seed: int
    end_ms: int
    models: Sequence[str]
    context: int = 8_192


def example_requests(tenants: Sequence[ExampleTenant], of: ExampleDays) -> list[ExampleRequest]:
    """All requests, in the order of their ends. The same seed and end give the same."""
    every = sum(tenant.share for tenant in tenants)
    made: list[ExampleRequest] = []
    for tenant in tenants:
        shares = sum(key.share for key in tenant.keys)
        for number, key in enumerate(tenant.keys):
            chance = Random(f"{of.seed} {tenant.name} {key.name}")
            part = tenant.share / every * key.share / shares
            count = max(1, round(of.days * of.requests * part))
            times = _times(chance, key, ZoneInfo(tenant.zone), of, count)
            made += [_request(chance, tenant, key, of, at_ms, number) for at_ms in times]
    return sorted(made, key=lambda each: (each.ended_ms, each.id))


def _times(chance: Random, key: ExampleKey, zone: ZoneInfo, of: ExampleDays, count: int) -> Iterator[int]:
    start_ms = of.end_ms - of.days * DAY_MS
    hours = range(start_ms // HOUR_MS, of.end_ms // HOUR_MS + 1)
    weights = [
        _weight(key.rhythm, hour, zone, (hour * HOUR_MS - start_ms) / (of.days * DAY_MS)) for hour in hours
    ]
    for hour in chance.choices(hours, weights, k=count):
        at_ms = hour * HOUR_MS + int(chance.random() * HOUR_MS)
        # The hour that began before the first day, and the present one, are no whole ones.
        yield min(max(at_ms, start_ms), of.end_ms - NOW_MS - int(chance.random() * HOUR_MS / 2))


def _weight(rhythm: Rhythm, hour: int, zone: ZoneInfo, part: float) -> float:
    local = datetime.fromtimestamp(hour * 3_600, UTC).astimezone(zone)
    by_day = WEEKEND[rhythm] if local.weekday() >= 5 else 1.0
    return BY_HOUR[rhythm][local.hour] * by_day * (1 + GROWTH * part)


def _request(
    chance: Random, tenant: ExampleTenant, key: ExampleKey, of: ExampleDays, at_ms: int, number: int
) -> ExampleRequest:
    reason, code = _end(chance, tenant.strict)
    prompt = _tokens(chance, key.input, 0.7, of.context - ANSWER_MAX)
    answer = _answer(chance, key, reason)
    counts = _counts(chance, key, reason, prompt, answer)
    ran = counts.input_uncached + counts.input_cached > 0
    claimed_ms = at_ms + int(chance.expovariate(1 / 60)) + 4 if ran else 0
    first_ms = claimed_ms + 90 + prompt // 12 + int(chance.expovariate(1 / 80)) if ran else 0
    took_ms = (first_ms - at_ms if ran else 900) + answer * chance.randint(14, 34)
    night = key.rhythm is Rhythm.NIGHT
    return ExampleRequest(
        id=_id(chance, at_ms),
        tenant=tenant.name,
        project=key.project,
        key=key.name,
        user="" if night or not tenant.users else tenant.users[int(chance.random() ** 2 * len(tenant.users))],
        priority=key.priority,
        model=_model(chance, of.models, number),
        accepted_ms=at_ms,
        claimed_ms=claimed_ms,
        first_token_ms=first_ms if answer and ran else 0,
        ended_ms=min(at_ms + took_ms, of.end_ms),
        reason=reason,
        code=code,
        counts=counts,
        asked_input=prompt,
        asked_output=ANSWER_MAX,
        labels=_labels(chance, key),
        verdicts=_verdicts(chance, tenant, reason),
    )


def _end(chance: Random, strict: bool) -> tuple[str, str]:
    """Reason and code. Only strict rules block; the usual ones redact."""
    drawn = chance.randrange(1_000)
    for reason, code, part in ENDS:
        if drawn < part:
            return (reason, code) if strict or reason != "blocked" else ("stop", "")
        drawn -= part
    return "stop", ""


def _tokens(chance: Random, usual: int, spread: float, most: int) -> int:
    return min(most, max(8, int(usual * chance.lognormvariate(0, spread))))


def _answer(chance: Random, key: ExampleKey, reason: str) -> int:
    """Tokens that were sampled."""
    whole = _tokens(chance, key.output, 0.6, ANSWER_MAX)
    if reason == "length":
        return ANSWER_MAX if key.output > 500 else 512
    return whole if reason in ANSWERS_IN_FULL else int(whole * chance.random())


def _counts(chance: Random, key: ExampleKey, reason: str, prompt: int, answer: int) -> Counts:
    """What is billed: of an error no answer, and of one that came before any worker nothing."""
    if reason == "error" and chance.random() < 0.5:
        return Counts()
    part = chance.uniform(0.3, 0.95) if chance.random() < CACHED_PART else 0.0
    cached = int(prompt * part) // CACHE_BLOCK * CACHE_BLOCK
    output = 0 if reason == "error" else answer
    reasoning = int(output * chance.uniform(0.2, 0.7)) if key.reasons else 0
    return Counts(prompt - cached, cached, output - reasoning, reasoning)


def _model(chance: Random, models: Sequence[str], number: int) -> str:
    """One of them; each key has its own usual one, and tries others."""
    usual = models[number % len(models)]
    return usual if chance.random() < 0.85 else chance.choice(models)


def _labels(chance: Random, key: ExampleKey) -> bytes:
    if not key.tags or chance.random() > TAGGED_PART:
        return b"{}"
    return json.dumps(dict(key.tags), sort_keys=True).encode()


def _verdicts(chance: Random, tenant: ExampleTenant, reason: str) -> dict[str, dict[str, int]]:
    """Verdicts on the answer: by the rules of all, or by the tenant's stricter ones."""
    if reason == "blocked":
        return {"card": {"block": 1}}
    if chance.random() >= FLAGGED_PART:
        return {}
    email = "redact" if tenant.strict else "flag"
    return chance.choice(
        [{"email": {email: chance.randint(1, 3)}}, {"phone": {"flag": 1}}, {"iban": {"redact": 1}}]
    )


def _id(chance: Random, at_ms: int) -> str:
    """A UUIDv7 of this time."""
    bits = at_ms << 80 | 0x7 << 76 | chance.getrandbits(12) << 64 | 0b10 << 62 | chance.getrandbits(62)
    return str(uuid.UUID(int=bits))

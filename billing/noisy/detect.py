"""Detects noisy neighbours: tenants that take far more of a pool than their share while others wait longer
than before. Pure: takes sums of a pool's short spans of time, returns a decision.

Work is counted with the queue's weights, by which tenants take turns. Others are only tenants within their
own share: tenants over it, who wait behind their own backlog, are left out. Their wait is compared with the
wait of the same tenants in earlier spans, so a pool that is slow for all is nobody's fault.
"""

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import accumulate

WAIT_EDGES_MS = tuple(round(50 * 2 ** (step / 4)) for step in range(60))  # up to 23 minutes
HEADROOM = 1.25


@dataclass(frozen=True)
class Rules:
    """Thresholds of detection. A window is `window_spans` spans; streaks are counted in spans."""

    span_ms: int = 30_000
    window_spans: int = 10
    hot_spans: int = 4
    calm_spans: int = 10
    baseline_windows: int = 12
    baseline_windows_min: int = 3
    share_min: float = 0.2
    share_multiple: float = 1.5
    wait_multiple: float = 2.0
    wait_ms_min: int = 1_000
    requests_min: int = 10
    relapse_ms: int = 24 * 3_600_000
    relapses_max: int = 4
    dismissed_ms: int = 24 * 3_600_000

    @property
    def spans_kept(self) -> int:
        """Most spans that a decision reads."""
        return (1 + self.baseline_windows) * self.window_spans + self.calm_spans * 2**self.relapses_max


@dataclass
class TenantLoad:
    """Load of one tenant in a pool in some time. `work`: tokens by the queue's weights; `slot_ms`,
    `token_ms`: time that requests, and their tokens, were in the workers' memory; `waits`: number of requests
    by wait for the first token, as the index of its upper edge in WAIT_EDGES_MS."""

    requests: int = 0
    tokens: int = 0
    work: int = 0
    slot_ms: int = 0
    token_ms: int = 0
    waits: Counter[int] = field(default_factory=Counter[int])

    def add(self, other: "TenantLoad") -> None:
        """Add another load."""
        self.requests += other.requests
        self.tokens += other.tokens
        self.work += other.work
        self.slot_ms += other.slot_ms
        self.token_ms += other.token_ms
        self.waits.update(other.waits)


Span = Mapping[str, TenantLoad]  # by tenant


@dataclass(frozen=True)
class Noise:
    """Observation of one tenant in one window. Shares are of the work of all; waits are p95 in ms, None with
    too few requests. `hot`: noisy by the rules."""

    tenant: str
    share: float
    fair: float
    used: TenantLoad
    slots: float
    tokens_in_flight: float
    pool_slots: float
    others_requests: int
    others_wait_ms: int | None
    baseline_wait_ms: int | None
    hot: bool


class FindingState(StrEnum):
    """State of a finding. ACCEPTED: an operator throttles the tenant until it is calm."""

    OPEN = "open"
    ACCEPTED = "accepted"
    CALM = "calm"
    DISMISSED = "dismissed"


@dataclass(frozen=True)
class KnownFindings:
    """Earlier knowledge of a tenant in a pool: its open finding, and its relapses.

    `relapses`: number of findings that became calm within the last `Rules.relapse_ms`."""

    open_since_ms: int | None = None
    baseline_wait_ms: int | None = None
    throttled_since_ms: int | None = None
    slots_max: int | None = None
    relapses: int = 0
    dismissed_ms: int | None = None


class FindingStep(StrEnum):
    """Action on a tenant's finding in a pool."""

    NOTHING = "nothing"
    OPEN = "open"
    KEEP = "keep"
    CLOSE = "close"


def decide(
    tenant: str,
    spans: Sequence[Span],
    weights: Mapping[str, float],
    known: KnownFindings,
    now_ms: int,
    rules: Rules,
) -> tuple[FindingStep, Noise | None]:
    """Return the action, and the last observation. `spans`: oldest first, the last one ended at `now_ms`.

    Opens after the tenant was hot at the end of each of the last `hot_spans` spans; closes after it was calm
    at the end of the last `calm_spans`, twice as many for each relapse, so that it does not flap."""
    if known.open_since_ms is None:
        if known.dismissed_ms is not None and now_ms - known.dismissed_ms < rules.dismissed_ms:
            return FindingStep.NOTHING, None
        seen = [observe(tenant, spans, weights, rules, back) for back in range(rules.hot_spans)]
        return (FindingStep.OPEN if all(noise.hot for noise in seen) else FindingStep.NOTHING), seen[0]
    needed = rules.calm_spans * 2 ** min(known.relapses, rules.relapses_max)
    since = known.throttled_since_ms or known.open_since_ms  # the later time: a throttle belongs to a finding
    latest = observe(tenant, spans, weights, rules, 0, known.baseline_wait_ms)
    if now_ms - since < needed * rules.span_ms or len(spans) < needed:
        return FindingStep.KEEP, latest
    for back in range(needed):
        noise = observe(tenant, spans, weights, rules, back, known.baseline_wait_ms)
        if not _is_calm(noise, known, rules):
            return FindingStep.KEEP, latest
    return FindingStep.CLOSE, latest


def _is_calm(noise: Noise, known: KnownFindings, rules: Rules) -> bool:
    """True where the tenant is calm, or hardly any others are there to suffer. Under a throttle, a tenant at
    its cap whose requests wait would still take more, so it is not calm."""
    if noise.others_requests < rules.requests_min:
        return True
    if known.throttled_since_ms is not None and known.slots_max is not None:
        own_wait = _p95(noise.used.waits, rules.requests_min)
        waits = own_wait is None or own_wait >= rules.wait_ms_min
        return noise.slots < 0.8 * known.slots_max or not waits
    return not noise.hot


def suspects(spans: Sequence[Span], weights: Mapping[str, float], rules: Rules) -> list[str]:
    """Tenants well over their share in the last window, whatever others waited."""
    window = _sum(spans[-rules.window_spans :])
    shares, fair = _shares(window, weights)
    return [tenant for tenant in sorted(shares) if shares[tenant] >= _much(fair[tenant], rules)]


def observe(
    tenant: str,
    spans: Sequence[Span],
    weights: Mapping[str, float],
    rules: Rules,
    back: int = 0,
    baseline_ms: int | None = None,
) -> Noise:
    """Observe a tenant, and the others' waits, in the window that ended `back` spans ago.

    `baseline_ms`: the others' usual wait, where it is known; else it is taken from the windows before."""
    until = max(0, len(spans) - back)
    first = max(0, until - rules.window_spans)
    window = _sum(spans[first:until])
    window_ms = max(1, until - first) * rules.span_ms
    shares, fair = _shares(window, weights)
    victims = {other for other in window if other != tenant and shares[other] <= fair[other]}
    waits = _waits(window, victims)
    wait = _p95(waits, rules.requests_min)
    baseline = baseline_ms if baseline_ms is not None else _baseline(spans[:first], victims, rules)
    used = window.get(tenant, TenantLoad())
    much = shares.get(tenant, 0.0) >= _much(fair.get(tenant, 1.0), rules)
    slow = (wait is not None and baseline is not None) and (
        wait >= max(rules.wait_ms_min, rules.wait_multiple * baseline)
    )
    return Noise(
        tenant=tenant,
        share=shares.get(tenant, 0.0),
        fair=fair.get(tenant, 1.0),
        used=used,
        slots=used.slot_ms / window_ms,
        tokens_in_flight=used.token_ms / window_ms,
        pool_slots=sum(use.slot_ms for use in window.values()) / window_ms,
        others_requests=sum(use.requests for other, use in window.items() if other != tenant),
        others_wait_ms=wait,
        baseline_wait_ms=baseline,
        hot=much and slow,
    )


def throttle_slots(noise: Noise, reserve_tokens: int) -> int:
    """Cap on a noisy tenant's running requests: its fair share of those that ran, but enough to use its
    reserve."""
    per_request = noise.used.token_ms / noise.used.slot_ms if noise.used.slot_ms else 0.0
    at_least = max(1, math.ceil(reserve_tokens / per_request)) if per_request else 1
    return max(at_least, math.floor(noise.fair * noise.pool_slots))


def own_pool(noise: Noise, worker_slots: int) -> dict[str, int]:
    """Size of a dedicated pool for the tenant's observed load plus a quarter."""
    slots = max(1, math.ceil(noise.slots * HEADROOM))
    return {
        "slots": slots,
        "kv_tokens": math.ceil(noise.tokens_in_flight * HEADROOM),
        "workers": math.ceil(slots / max(1, worker_slots)),
    }


def _shares(window: Span, weights: Mapping[str, float]) -> tuple[dict[str, float], dict[str, float]]:
    """Shares of all active tenants: of the work, and by weight."""
    work = sum(use.work for use in window.values())
    weight = sum(weights.get(tenant, 1.0) for tenant in window)
    shares = {tenant: use.work / work if work else 0.0 for tenant, use in window.items()}
    return shares, {tenant: weights.get(tenant, 1.0) / weight for tenant in window}


def _much(fair: float, rules: Rules) -> float:
    """The share that counts as well above the fair one. Stays below 1 even for a tenant with most of the
    weight."""
    above = min((rules.share_multiple - 1) * fair, 0.5 * (1 - fair))
    return max(rules.share_min, fair + above) if fair < 1 else math.inf


def _baseline(spans: Sequence[Span], tenants: set[str], rules: Rules) -> int | None:
    """Median of these tenants' p95 waits in the windows before, which noise in a few of them does not
    raise."""
    found: list[int] = []
    for window in range(1, rules.baseline_windows + 1):
        until = len(spans) - (window - 1) * rules.window_spans
        if until < rules.window_spans:
            break
        sums = _sum(spans[until - rules.window_spans : until])
        wait = _p95(_waits(sums, tenants), rules.requests_min)
        if wait is not None:
            found.append(wait)
    return sorted(found)[len(found) // 2] if len(found) >= rules.baseline_windows_min else None


def _sum(spans: Iterable[Span]) -> dict[str, TenantLoad]:
    total: dict[str, TenantLoad] = {}
    for span in spans:
        for tenant, use in span.items():
            total.setdefault(tenant, TenantLoad()).add(use)
    return total


def _waits(window: Span, tenants: Iterable[str]) -> Counter[int]:
    waits: Counter[int] = Counter()
    for tenant in tenants:
        if tenant in window:
            waits.update(window[tenant].waits)
    return waits


def _p95(waits: Counter[int], requests_min: int) -> int | None:
    """Upper edge of the 95th percentile; None with fewer than `requests_min` waits."""
    total = sum(waits.values())
    if total < requests_min:
        return None
    slowest = sorted(waits, reverse=True)
    counted = list(accumulate(waits[place] for place in slowest))
    beyond = total - total * 95 // 100
    return WAIT_EDGES_MS[slowest[bisect_left(counted, beyond)]]

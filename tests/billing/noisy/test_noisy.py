"""Who is a noisy neighbour, and who is not: decisions over histories of what a pool did."""

import random
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pytest

from billing.noisy.detect import (
    WAIT_EDGES_MS,
    FindingStep,
    KnownFindings,
    Noise,
    Rules,
    Span,
    TenantLoad,
    decide,
    observe,
    own_pool,
    suspects,
    throttle_slots,
)

RULES = Rules()
QUIET, HOG = "quiet", "hog"
BEFORE = 40  # spans of peace


def use(work: int, wait_ms: int, requests: int = 6, slots: float = 1.0) -> TenantLoad:
    """What a tenant did in a span: its requests all waited equally long."""
    place = min(bisect_left(WAIT_EDGES_MS, wait_ms), len(WAIT_EDGES_MS) - 1)
    slot_ms = round(slots * RULES.span_ms)
    return TenantLoad(
        requests, work, work, slot_ms, slot_ms * 100, Counter({place: requests} if requests else {})
    )


def peace(spans: int = BEFORE) -> list[Span]:
    """Two tenants that take about as much, and hardly wait."""
    return [{QUIET: use(500, 200), HOG: use(500, 200)} for _ in range(spans)]


def noise(spans: int, wait_ms: int = 3_000, share: float = 0.9) -> list[Span]:
    """One takes most of the work and the other waits."""
    work = round(1_000 * share)
    return [{QUIET: use(1_000 - work, wait_ms), HOG: use(work, 9_000, slots=8 * share)} for _ in range(spans)]


def step(spans: Sequence[Span], tenant: str = HOG, weights: Mapping[str, float] | None = None) -> FindingStep:
    """What is decided of a tenant of whom nothing is known."""
    return decide(tenant, spans, weights or {}, KnownFindings(), len(spans) * RULES.span_ms, RULES)[0]


@dataclass
class Played:
    """The times, in spans, at which a finding was opened and closed."""

    opened: list[int] = field(default_factory=list[int])
    closed: list[int] = field(default_factory=list[int])


def play(spans: Sequence[Span], throttle: int | None = None) -> Played:
    """Decide at the end of every span, as the biller does; `throttle`: the cap that each finding brings."""
    played, known = Played(), KnownFindings()
    for until in range(1, len(spans) + 1):
        now = until * RULES.span_ms
        done, seen = decide(HOG, spans[:until], {}, known, now, RULES)
        if done is FindingStep.OPEN:
            assert seen is not None
            played.opened.append(until)
            known = KnownFindings(
                now, seen.baseline_wait_ms, now if throttle else None, throttle, known.relapses
            )
        elif done is FindingStep.CLOSE:
            played.closed.append(until)
            known = KnownFindings(relapses=known.relapses + 1)
    return played


def test_who_takes_far_more_than_its_share_while_others_wait_is_noisy() -> None:
    """Opened within minutes; who is made to wait is not."""
    played = play(peace() + noise(20))
    assert len(played.opened) == 1
    assert BEFORE < played.opened[0] <= BEFORE + 12
    assert step(peace() + noise(20), QUIET) is FindingStep.NOTHING
    assert suspects(peace() + noise(20), {}, RULES) == [HOG]


def test_a_tenant_that_is_alone_on_a_pool_is_never_noisy() -> None:
    """INV-29: However much it takes, and however long it waits for itself."""
    alone: list[Span] = [{HOG: use(10_000, 60_000, slots=16)} for _ in range(60)]
    assert step(alone) is FindingStep.NOTHING
    assert suspects(alone, {}, RULES) == []


def test_a_tenant_within_its_weight_is_not_noisy() -> None:
    """INV-29: Who pays for most of a pool may use it."""
    spans = peace() + noise(20, share=0.8)
    assert step(spans, weights={HOG: 4.0, QUIET: 1.0}) is FindingStep.NOTHING
    assert step(spans) is FindingStep.OPEN


def test_nobody_is_noisy_while_others_do_not_wait_longer() -> None:
    """An idle pool is anybody's; and what is slow now was slow before."""
    assert step(peace() + noise(20, wait_ms=250)) is FindingStep.NOTHING
    slow: list[Span] = [{QUIET: use(500, 2_500), HOG: use(500, 2_500)} for _ in range(BEFORE)]
    assert step(slow + noise(20, wait_ms=3_000)) is FindingStep.NOTHING


def test_who_waits_behind_its_own_backlog_is_nobodys_victim() -> None:
    """A third tenant is not blamed for what a flood makes its own requests wait."""
    spans: list[Span] = [
        {QUIET: use(100, 200), HOG: use(600, 200), "third": use(300, 200)} for _ in range(BEFORE)
    ]
    spans += [{QUIET: use(100, 250), HOG: use(600, 90_000), "third": use(300, 250)} for _ in range(20)]
    assert [step(spans, tenant) for tenant in (QUIET, HOG, "third")] == [FindingStep.NOTHING] * 3


def test_nobody_is_noisy_where_nothing_is_known_of_before() -> None:
    """A pool that just came up, others that just came, or hardly any requests."""
    assert step(noise(20)) is FindingStep.NOTHING
    assert step([{HOG: use(500, 200)} for _ in range(BEFORE)] + noise(20)) is FindingStep.NOTHING
    few: list[Span] = [{QUIET: use(10, 3_000, requests=0), HOG: use(990, 200)} for _ in range(20)]
    assert step(peace() + few) is FindingStep.NOTHING
    assert step([]) is FindingStep.NOTHING


def test_a_short_burst_is_not_noise() -> None:
    """What is over before it was seen four times in a row."""
    for spans in (1, 2, 3):
        burst = [{QUIET: use(500, 300), HOG: use(900, 300)}] * spans
        assert play(peace() + burst + peace(30)).opened == []


def test_noise_that_comes_and_goes_does_not_flap() -> None:
    """Each relapse takes twice as much calm: half a day has a handful of findings, not one a quarter hour."""
    spans = peace()
    for _ in range(24):
        spans += noise(16) + peace(14)
    played = play(spans)
    assert 1 <= len(played.opened) <= 5
    gaps = [closed - opened for opened, closed in zip(played.opened, played.closed, strict=False)]
    assert all(gap >= RULES.calm_spans for gap in gaps)


@pytest.mark.parametrize(("relapses", "calm"), [(0, 10), (1, 20), (2, 40), (4, 160), (9, 160)])
def test_each_relapse_takes_twice_as_much_calm(relapses: int, calm: int) -> None:
    """INV-29: One span less is not enough; it doubles four times at most."""

    def after(quiet: int) -> FindingStep:
        spans = peace() + noise(16) + peace(quiet)
        known = KnownFindings(BEFORE * RULES.span_ms, 200, relapses=relapses)
        return decide(HOG, spans, {}, known, len(spans) * RULES.span_ms, RULES)[0]

    first_calm = next(quiet for quiet in range(200) if after(quiet) is FindingStep.CLOSE)
    assert first_calm >= calm
    assert first_calm < calm + RULES.window_spans
    assert after(first_calm - 1) is FindingStep.KEEP


def test_a_throttle_stays_while_the_tenant_is_at_its_cap() -> None:
    """It no longer hurts anybody then, but only because it cannot; it is lifted when it wants less."""
    capped: list[Span] = [{QUIET: use(500, 200), HOG: use(500, 60_000, slots=4.0)} for _ in range(60)]
    less: list[Span] = [{QUIET: use(500, 200), HOG: use(300, 200, slots=1.5)} for _ in range(40)]
    assert play(peace() + noise(12) + capped, throttle=4).closed == []
    played = play(peace() + noise(12) + capped + less, throttle=4)
    assert len(played.opened) == len(played.closed) == 1
    assert played.closed[0] >= BEFORE + 12 + 60 + RULES.calm_spans


def test_a_throttle_that_holds_nobody_back_is_lifted() -> None:
    """Who uses its cap and waits for nothing wants no more than it has."""
    content: list[Span] = [{QUIET: use(500, 200), HOG: use(500, 200, slots=1.0)} for _ in range(40)]
    assert len(play(peace() + noise(12) + content, throttle=1).closed) == 1


def test_a_throttle_is_lifted_when_the_others_are_gone() -> None:
    """Nobody is held back for others who are not there."""
    alone: list[Span] = [{HOG: use(500, 60_000, slots=4.0)} for _ in range(40)]
    assert len(play(peace() + noise(12) + alone, throttle=4).closed) == 1


def test_what_was_dismissed_is_not_found_again_for_a_day() -> None:
    """An operator who knows better is not asked every two minutes."""
    spans = peace() + noise(20)
    now = len(spans) * RULES.span_ms
    assert decide(HOG, spans, {}, KnownFindings(dismissed_ms=now - 1), now, RULES)[0] is FindingStep.NOTHING
    long_ago = KnownFindings(dismissed_ms=now - RULES.dismissed_ms)
    assert decide(HOG, spans, {}, long_ago, now, RULES)[0] is FindingStep.OPEN


def test_a_throttle_is_the_fair_share_of_what_ran_and_never_below_the_reserve() -> None:
    """What was sold as a reserve can be used; at least one request runs."""
    seen = observe(HOG, peace() + noise(10), {}, RULES)
    assert (round(seen.share, 2), seen.fair) == (0.9, 0.5)
    assert throttle_slots(seen, reserve_tokens=0) == 4  # half of the 8.2 that ran
    assert throttle_slots(seen, reserve_tokens=650) == 7  # of 100 tokens each
    small = Noise(HOG, 0.9, 0.1, TenantLoad(), 1.0, 1.0, 1.0, 10, 1, 1, hot=True)
    assert throttle_slots(small, reserve_tokens=500) == 1
    assert own_pool(seen, worker_slots=4) == {"slots": 9, "kv_tokens": 900, "workers": 3}


def test_in_random_histories_nobody_within_its_share_is_ever_noisy() -> None:
    """Whatever others do, and whatever anybody waits."""
    seed = random.SystemRandom().getrandbits(32)
    print(f"seed {seed}")
    dice = random.Random(seed)
    for _ in range(30):
        weights = {tenant: dice.choice((0.5, 1.0, 4.0)) for tenant in "abc"}
        spans: list[Span] = [
            {
                tenant: use(dice.randrange(1, 1_000), dice.choice((100, 900, 9_000)))
                for tenant in "abc"
                if dice.random() < 0.9
            }
            for _ in range(60)
        ]
        for tenant in "abc":
            done, seen = decide(tenant, spans, weights, KnownFindings(), len(spans) * RULES.span_ms, RULES)
            assert seen is not None
            if done is FindingStep.OPEN:
                assert seen.share > seen.fair
                assert seen.others_wait_ms is not None
                assert seen.baseline_wait_ms is not None
                assert seen.others_wait_ms >= RULES.wait_multiple * seen.baseline_wait_ms


def a_history(chosen: random.Random) -> list[Span]:
    """What up to four tenants did in a pool that was calm and then crowded, or was not."""
    tenants = ["a", "b", "c", "d"][: chosen.choice((1, 2, 3, 4))]
    takes = {tenant: chosen.choice((1, 10, 100, 1_000)) for tenant in tenants}
    slow_ms = chosen.choice((200, 3_000, 20_000))
    before: list[Span] = [{tenant: use(100, 200) for tenant in tenants} for _ in range(BEFORE)]
    return before + [{tenant: use(takes[tenant], slow_ms) for tenant in tenants} for _ in range(14)]


def test_nobody_who_is_alone_or_within_its_share_is_ever_found() -> None:
    """INV-29: Whatever was done, by however many of whatever weights; of the others some are."""
    seed = random.randrange(1 << 30)
    print("seed", seed)
    chosen = random.Random(seed)
    found = 0
    for _ in range(60):
        spans = a_history(chosen)
        weights = {tenant: chosen.choice((0.5, 1.0, 4.0)) for tenant in spans[0]}
        work = {
            tenant: sum(span[tenant].work for span in spans[-RULES.window_spans :]) for tenant in spans[0]
        }
        for tenant in spans[0]:
            within = work[tenant] * sum(weights.values()) <= weights[tenant] * sum(work.values())
            is_found = step(spans, tenant, weights) is FindingStep.OPEN
            assert not (is_found and within), (tenant, work, weights)
            found += is_found
    assert found

"""The numbers by which somebody is a noisy neighbour, each just on either side of its limit."""

from collections import Counter
from dataclasses import replace

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

HOUR_MS = 3_600_000
AT_100, AT_200, AT_400, AT_800, AT_1600 = (WAIT_EDGES_MS.index(edge) for edge in (100, 200, 400, 800, 1_600))
# Windows of two spans, and few requests are enough.
SMALL = Rules(
    span_ms=1_000,
    window_spans=2,
    hot_spans=2,
    calm_spans=3,
    baseline_windows=3,
    baseline_windows_min=2,
    wait_ms_min=1_000,
    requests_min=4,
)


def did(work: int, place: int = AT_100, requests: int = 2, slot_ms: int = 1_000) -> TenantLoad:
    """What a tenant did in a span: its requests waited equally long, and held 10 tokens each."""
    return TenantLoad(requests, work, work, slot_ms, slot_ms * 10, Counter({place: requests}))


def pool(hog: int, quiet: int, *windows: int) -> list[Span]:
    """Windows in which the quiet one waited up to these edges; in the last one both did so much, before
    equally much."""
    before: list[Span] = [{"hog": did(50), "quiet": did(50, place)} for place in windows[:-1] for _ in "ab"]
    return before + [{"hog": did(hog), "quiet": did(quiet, windows[-1])} for _ in "ab"]


def test_the_rules_are_those_that_operators_are_told() -> None:
    """Five minutes are looked at, of the hours before the last; a throttle is bounded."""
    assert Rules() == Rules(
        span_ms=30_000,
        window_spans=10,
        hot_spans=4,
        calm_spans=10,
        baseline_windows=12,
        baseline_windows_min=3,
        wait_ms_min=1_000,
        requests_min=10,
        relapse_ms=24 * HOUR_MS,
        relapses_max=4,
        dismissed_ms=24 * HOUR_MS,
    )
    assert Rules().spans_kept == 13 * 10 + 10 * 16
    assert (len(WAIT_EDGES_MS), WAIT_EDGES_MS[0], WAIT_EDGES_MS[4], WAIT_EDGES_MS[-1]) == (
        60,
        50,
        100,
        1_377_725,
    )


def test_what_was_done_adds_up() -> None:
    """Nothing at first; each fact by itself."""
    whole = TenantLoad()
    assert whole == TenantLoad(0, 0, 0, 0, 0, Counter())
    for _ in range(2):
        whole.add(TenantLoad(1, 2, 3, 4, 5, Counter({6: 7})))
    assert whole == TenantLoad(2, 4, 6, 8, 10, Counter({6: 14}))


@pytest.mark.parametrize(
    ("weight", "fair", "much"), [(1, 0.1, 200), (2, 0.2, 301), (5, 0.5, 750), (9, 0.9, 950)]
)
def test_how_much_is_far_more_than_a_share(weight: int, fair: float, much: int) -> None:
    """Half as much again, half of what the others have, a fifth at least; to the thousandth."""
    weights = {"hog": float(weight), "quiet": float(10 - weight)}

    def found(share: int) -> list[str]:
        return [
            each for each in suspects(pool(share, 1_000 - share, AT_100), weights, SMALL) if each == "hog"
        ]

    assert (found(much - 1), found(much)) == ([], ["hog"])
    assert observe("hog", pool(much, 1_000 - much, AT_100), weights, SMALL).fair == fair
    seen = [
        observe("hog", pool(each, 1_000 - each, *[AT_100] * 4, AT_1600), weights, SMALL)
        for each in (much - 1, much)
    ]
    assert [each.hot for each in seen] == [False, True]


def test_only_the_last_window_makes_a_suspect() -> None:
    """What was before it is over."""
    assert suspects([*pool(900, 100, AT_100), *pool(500, 500, AT_100)], {}, SMALL) == []
    assert suspects([*pool(500, 500, AT_100), *pool(900, 100, AT_100)], {}, SMALL) == ["hog"]


@pytest.mark.parametrize(
    ("windows", "wait_ms_min", "hot"),
    [
        ((AT_800, AT_800, AT_1600), 1_000, True),  # twice as long as before
        ((AT_800, AT_800, AT_1600 - 1), 1_000, False),
        ((AT_100, AT_100, AT_1600), 1_600, True),  # so long at least
        ((AT_100, AT_100, AT_1600), 1_601, False),
    ],
)
def test_how_long_others_wait_where_somebody_is_noisy(
    windows: tuple[int, ...], wait_ms_min: int, hot: bool
) -> None:
    """Both bounds belong to noise."""
    assert observe("hog", pool(900, 100, *windows), {}, replace(SMALL, wait_ms_min=wait_ms_min)).hot is hot


@pytest.mark.parametrize(
    ("windows", "baseline_ms"),
    [
        ((AT_800, AT_100, AT_200, AT_400, AT_1600), 200),  # of the last three windows
        ((AT_800, AT_100, AT_200, AT_1600), 200),
        ((AT_400, AT_200, AT_1600), 400),
        ((AT_200, AT_1600), None),  # two at least
        ((AT_1600,), None),
    ],
)
def test_what_others_used_to_wait_is_the_median_of_the_windows_before(
    windows: tuple[int, ...], baseline_ms: int | None
) -> None:
    """Of whole windows only; what is known of it goes before."""
    spans = pool(900, 100, *windows)
    assert observe("hog", spans, {}, SMALL).baseline_wait_ms == baseline_ms
    half: Span = {"hog": did(50), "quiet": did(50, AT_1600)}
    assert observe("hog", [half, *spans], {}, SMALL).baseline_wait_ms == baseline_ms
    assert observe("hog", spans, {}, SMALL, baseline_ms=7).baseline_wait_ms == 7


@pytest.mark.parametrize(
    ("waits", "p95"),
    [
        ({AT_100: 95, AT_400: 5}, 400),
        ({AT_100: 96, AT_400: 4}, 100),
        ({AT_100: 94, AT_200: 2, AT_400: 4}, 200),
        ({AT_100: 20}, 100),
        ({AT_100: 4}, 100),
        ({AT_100: 3}, None),  # too few to say so
        ({59: 4}, 1_377_725),
    ],
)
def test_of_waits_it_is_the_edge_that_95_of_100_are_below(waits: dict[int, int], p95: int | None) -> None:
    """As far as there are enough of them."""
    span: Span = {"hog": did(900), "quiet": replace(did(100), waits=Counter(waits))}
    assert observe("hog", [span], {}, SMALL).others_wait_ms == p95


def test_a_victim_is_who_has_its_share_or_less() -> None:
    """Who takes more than that waits for itself."""
    for even, wait_ms in ((300, 800), (301, 100)):
        span: Span = {"hog": did(800 - even), "even": did(even, AT_800, 4), "low": did(100, requests=4)}
        assert observe("hog", [span], {}, SMALL).others_wait_ms == wait_ms


def test_what_is_seen_of_a_window_is_per_time() -> None:
    """Of a short history too, of a moment before, and of none."""
    span: Span = {"hog": did(900, requests=3, slot_ms=4_000), "quiet": did(100, slot_ms=500)}
    for spans, back in (([span], 0), ([span, span], 0), ([span, span, {}], 1), ([{}, span, span], 0)):
        seen = observe("hog", spans, {}, SMALL, back)
        assert (seen.slots, seen.tokens_in_flight, seen.pool_slots) == (4.0, 40.0, 4.5)
    assert (seen.others_requests, seen.used.requests, seen.share) == (4, 6, 0.9)
    for spans, back in (([], 0), ([span], 1), ([span], 2)):
        nothing = observe("hog", spans, {}, SMALL, back)
        assert (nothing.used, nothing.share, nothing.fair, nothing.slots) == (TenantLoad(), 0.0, 1.0, 0.0)
        assert (nothing.others_requests, nothing.hot) == (0, False)


def test_a_finding_is_closed_when_it_was_calm_for_so_long() -> None:
    """Since it was opened, or throttled, and as far as is known; not a span sooner."""
    calm: list[Span] = [{"hog": did(50), "quiet": did(50)}] * 3

    def after(now: int, known: KnownFindings, spans: list[Span] = calm) -> FindingStep:
        step, noise = decide("hog", spans, {}, replace(known, baseline_wait_ms=100), now, SMALL)
        assert noise == observe("hog", spans, {}, SMALL, baseline_ms=100)
        return step

    opened = KnownFindings(open_since_ms=10_000)
    assert (after(12_999, opened), after(13_000, opened)) == (FindingStep.KEEP, FindingStep.CLOSE)
    assert after(13_000, opened, calm[:2]) is FindingStep.KEEP
    throttled = KnownFindings(open_since_ms=10_000, throttled_since_ms=11_000)
    assert (after(13_999, throttled), after(14_000, throttled)) == (FindingStep.KEEP, FindingStep.CLOSE)
    loud = pool(900, 100, AT_1600)
    assert after(20_000, opened, [*loud, *calm, *calm[:1]]) is FindingStep.CLOSE
    assert after(20_000, opened, [*loud, *calm]) is FindingStep.KEEP, "a window of its end was loud"
    assert after(20_000, opened, [*calm, *loud]) is FindingStep.KEEP
    assert after(20_000, opened, [*calm[:1], *loud, *calm[:2]]) is FindingStep.KEEP


@pytest.mark.parametrize(
    ("others", "slot_ms", "own_wait", "closed"),
    [
        (2, 4_000, AT_1600, False),  # at four fifths of its cap, and waits
        (2, 3_999, AT_1600, True),
        (2, 4_000, AT_1600 - 1, True),
        (1, 4_000, AT_1600, True),  # hardly anybody else is there
    ],
)
def test_a_throttle_is_kept_for_who_would_take_more(
    others: int, slot_ms: int, own_wait: int, closed: bool
) -> None:
    """Each bound by itself."""
    rules = replace(SMALL, wait_ms_min=1_600)
    span: Span = {"hog": did(50, own_wait, slot_ms=slot_ms), "quiet": did(50, requests=others)}
    known = KnownFindings(1_000, 100, 1_000, slots_max=5)
    assert (decide("hog", [span] * 4, {}, known, 9_000, rules)[0] is FindingStep.CLOSE) is closed


def test_of_whom_hardly_anything_is_known_its_throttle_stays() -> None:
    """Too few requests of its own to say that it waits for nothing."""
    span: Span = {"hog": did(50, requests=1, slot_ms=5_000), "quiet": did(50)}
    assert (
        decide("hog", [span] * 4, {}, KnownFindings(1_000, 100, 1_000, slots_max=5), 9_000, SMALL)[0]
        is FindingStep.KEEP
    )


def test_noise_is_found_when_it_was_seen_so_often_in_a_row() -> None:
    """And what is returned with it is the last of it; nothing of who was dismissed lately."""
    spans = pool(500, 500, *[AT_100] * 4)
    loud = pool(2_000, 50, AT_1600)
    found = [decide("hog", [*spans, *loud[:count]], {}, KnownFindings(), 1, SMALL) for count in (1, 2)]
    assert [step for step, _ in found] == [FindingStep.NOTHING, FindingStep.OPEN]
    assert found[1][1] == observe("hog", [*spans, *loud], {}, SMALL)
    assert decide("hog", [*spans, *loud], {}, KnownFindings(dismissed_ms=1), 1, SMALL) == (
        FindingStep.NOTHING,
        None,
    )


def test_a_throttle_and_a_proposal_of_next_to_nothing() -> None:
    """One request at least, and one worker."""
    idle = Noise("hog", 0.5, 0.5, TenantLoad(), 0.0, 0.0, 0.0, 0, None, None, hot=False)
    assert throttle_slots(idle, reserve_tokens=0) == throttle_slots(idle, reserve_tokens=99) == 1
    assert own_pool(idle, worker_slots=4) == {"slots": 1, "kv_tokens": 0, "workers": 1}
    busy = replace(
        idle, slots=4.0, tokens_in_flight=400.0, used=TenantLoad(slot_ms=2, token_ms=20), pool_slots=3.9
    )
    assert own_pool(busy, worker_slots=0) == {"slots": 5, "kv_tokens": 500, "workers": 5}
    assert [throttle_slots(busy, reserve) for reserve in (0, 10, 11)] == [1, 1, 2]
    assert throttle_slots(replace(busy, pool_slots=6.0), reserve_tokens=0) == 3

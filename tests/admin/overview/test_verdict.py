"""The sentence of the overview: the first thing that is not well, in the order of how much it hurts."""

from collections import Counter
from dataclasses import replace

import pytest

from admin.overview.answer import VerdictState
from admin.overview.check_lights import lights_of
from admin.overview.facts import OverviewFacts
from admin.overview.verdict import IDLE, verdict_of
from billing.pages import TenantNeed
from billing.reconciliation.comparison import Check, Comparison
from billing.reconciliation.tenant_keys import EndedStreams
from core.observability.recent_figures import FigureMinute, RecentFigures
from tests.admin.overview.platforms import (
    NOW_MS,
    a_platform,
    a_pool,
    a_worker,
    compared,
    noisy,
    waiting,
)

SERVING = a_pool("acme-1", [a_worker("w9", running=3)])
FULL = a_pool("eu-1", [a_worker(running=16)], waiting(37), pace_ms=12_000.0)
EMPTY = a_pool("eu-1", [], waiting(4, 48_000))
LOST = a_pool("eu-1", [a_worker(), a_worker("w5", "restarting", node="gpu-05", why="ended with code -9")])
FULL_AND_LOST = a_pool("eu-2", [*LOST.workers[1:], a_worker(running=16)], waiting(1, 1_500))
AT_CAPS = a_pool("eu-1", [a_worker(running=2)], waiting(5, 60_000, ready=0))
BULK = a_pool("eu-1", [a_worker(running=16)], bulk=waiting(200, 900_000))
DIFFERS = compared(Comparison(Check.R4, "t1", "cost", "tokens", 12, 0, age_ms=180_000))
UNREAD = EndedStreams((), 312, NOW_MS - 240_000)


def said(facts: OverviewFacts) -> tuple[VerdictState, str, str]:
    """What the overview says first."""
    found = verdict_of(facts, lights_of(facts.sql.compared, facts.now_ms, facts.names))
    return found.state, found.text, found.detail


def test_all_is_well() -> None:
    """What runs, what waits and what the books say. What is at a tenant's own cap, or in bulk, may wait."""
    state, text, detail = said(a_platform(SERVING, a_pool("eu-1", [a_worker(running=2)], waiting(1, 300))))
    assert (state, text) == ("well", "All well.")
    assert detail == (
        "5 requests run on 2 workers in 2 pools. No interactive request waits longer than 0.3 s. "
        "The books agree to the nano."
    )
    assert said(a_platform(AT_CAPS))[:2] == said(a_platform(BULK))[:2] == (state, text)
    assert said(a_platform(BULK))[2].startswith(
        "16 requests run on 1 worker in 1 pool. No interactive request waits."
    )


def test_a_tenant_that_needs_somebody_is_named() -> None:
    """As its list does; it is no alarm, for the platform is well."""
    needs = {"t2": [TenantNeed.EMPTY_WALLET, TenantNeed.OWES]}
    state, text, _ = said(a_platform(SERVING, needs=needs))
    assert (state, text) == ("well", "The platform is well; 1 tenant needs you: globex (wallet empty, owes).")
    needs = {**needs, "t1": [TenantNeed.OVER_BUDGET]}
    assert "2 tenants need you: acme (over budget) and globex (" in said(a_platform(SERVING, needs=needs))[1]
    assert said(a_platform(FULL, needs=needs))[1].startswith("Pool eu-1 is full")


def test_an_idle_platform_says_why_its_numbers_are_empty() -> None:
    """And where those are that it has; not once something ran."""
    idle = a_platform(a_pool("eu-1", [a_worker()]))
    assert IDLE in said(idle)[2]
    assert IDLE not in said(a_platform(SERVING))[2]
    minutes = (FigureMinute(), FigureMinute(ended=Counter({("interactive", "done"): 1})))
    figures = RecentFigures((NOW_MS - 60_000, NOW_MS), NOW_MS, minutes)
    assert idle.redis is not None
    assert IDLE not in said(replace(idle, redis=replace(idle.redis, figures=figures)))[2]
    assert IDLE not in said(a_platform(sees_pools=False))[2]


@pytest.mark.parametrize(
    ("facts", "state", "text"),
    [
        (OverviewFacts(NOW_MS, None), "unknown", "Redis does not answer: what runs and waits is not known."),
        (
            a_platform(FULL, EMPTY, SERVING),
            "bad",
            "Pool eu-1 has no worker: 4 requests wait, the oldest for 48 s.",
        ),
        (
            a_platform(FULL),
            "bad",
            "Pool eu-1 is full: 37 interactive requests wait, next free in about 12 s.",
        ),
        (
            a_platform(a_pool("a", [a_worker(running=16)], waiting(2), waiting(3))),
            "bad",
            "Pool a is full: 5 requests wait, the oldest for 9.8 s.",
        ),
        (
            a_platform(SERVING, result=DIFFERS, quarantined=2),
            "bad",
            "The books differ: R4 (Redis posted = SQL posted) by -12 tokens: acme: cost, for 4 min.",
        ),
        (a_platform(SERVING, quarantined=1), "warn", "1 usage event waits for a decision, unbilled."),
        (
            a_platform(SERVING, a_pool("eu-1"), models={"eu-1": ["qwen"]}),
            "warn",
            "Pool eu-1 has no worker: requests for qwen would wait.",
        ),
        (
            a_platform(a_pool("eu-1", [a_worker("w8", "starting")]), models={"eu-1": ["qwen"]}),
            "warn",
            "Pool eu-1 has no worker yet: w8 is starting.",
        ),
        (a_platform(), "warn", "No worker runs."),
        (a_platform(LOST), "warn", "w5 on gpu-05 of eu-1 is lost: ended with code -9."),
        (
            a_platform(SERVING, unread=UNREAD),
            "warn",
            "Nothing was billed for 4 min: 312 ended requests wait for the biller.",
        ),
        (
            a_platform(SERVING, result=compared(age_ms=720_000)),
            "warn",
            "The books were not compared for 12 min.",
        ),
        (a_platform(SERVING, noisy=[noisy()]), "warn", "initech takes 43 % of eu-1, its fair share is 14 %."),
        (
            a_platform(a_pool("eu-1", [a_worker("w3", step_age_ms=2_400)])),
            "warn",
            "w3 of eu-1 is slow: its last step is 2.4 s old.",
        ),
    ],
)
def test_what_is_wrong_is_said(facts: OverviewFacts, state: str, text: str) -> None:
    """Each thing in a sentence that says what and for how long."""
    assert said(facts)[:2] == (state, text)


def test_the_worst_comes_first() -> None:
    """Redis, then requests that wait, with the dead before the full; then the books, quarantine, the rest."""
    order = [
        a_platform(FULL, FULL_AND_LOST, EMPTY, result=DIFFERS, quarantined=1, noisy=[noisy()], unread=UNREAD),
        a_platform(FULL, FULL_AND_LOST, result=DIFFERS, quarantined=1, noisy=[noisy()], unread=UNREAD),
        a_platform(FULL, result=DIFFERS, quarantined=1, noisy=[noisy()], unread=UNREAD),
        a_platform(LOST, result=DIFFERS, quarantined=1, noisy=[noisy()], unread=UNREAD),
        a_platform(LOST, quarantined=1, noisy=[noisy()], unread=UNREAD),
        a_platform(LOST, noisy=[noisy()], unread=UNREAD),
        a_platform(SERVING, noisy=[noisy()], unread=UNREAD),
        a_platform(SERVING, noisy=[noisy()]),
    ]
    firsts = [
        "Pool eu-1 has no",
        "Pool eu-2 is full",
        "Pool eu-1 is full",
        "The books",
        "1 usage",
        "w5",
        "Nothing",
    ]
    for facts, first in zip(order, [*firsts, "initech takes"], strict=True):
        assert said(facts)[1].startswith(first)


def test_the_detail_tells_what_was_lost_and_what_is_well() -> None:
    """And how much is taken, what starts, and which others have no room."""
    starting = a_worker("w8", "starting", slots=None, kv_usage=None, step_age_ms=None)
    lost = a_worker("w5", "alarm", node="gpu-05", slots=None)
    broken = a_pool("eu-1", [a_worker(running=16), lost, starting], waiting(37))
    assert said(a_platform(broken, SERVING, FULL_AND_LOST))[2] == (
        "w5 on gpu-05 was lost: its model does not load. w8 is starting. All 16 slots of 1 worker are taken. "
        "eu-2 has no room either. acme-1 is well."
    )
    half = a_pool("eu-1", [a_worker(running=8)], waiting(1))
    assert said(a_platform(half))[2] == "8 of 16 slots are taken; what waits does not fit."


def test_finance_hears_of_money_alone() -> None:
    """Neither that no worker runs, nor who is noisy."""
    assert said(a_platform(sees_pools=False, noisy=[noisy()])) == (
        "well",
        "All well.",
        "The books agree to the nano.",
    )
    assert said(a_platform(sees_pools=False, result=DIFFERS))[0] == "bad"

"""What commands print of things, for people and for scripts: every fact, without a database."""

from typing import Any
from zoneinfo import ZoneInfo

import pytest

from billing.budgets.spent import SpendingScope
from billing.budgets.thresholds import WALLET_SCOPE
from billing.cli import (
    alerts,
    arguments,
    budgets,
    pools,
    price_periods,
    prices,
    unbilled,
    usage,
    wallet_undo,
    wallets,
)
from billing.cli.moves import MoneyMove
from billing.cli.operations import facts_of
from billing.closing.what_if import WhatIfResult as WhatIf
from billing.dedicated_pools.reports import PoolUse
from billing.limits import Mode
from billing.operations import pool_usage
from billing.operations.budget_facts import BudgetInUse, StoredBudget, budget_facts, standing_facts
from billing.operations.gpu_commitments import GpuCommitmentFacts
from billing.operations.wallet_views import GrantFacts, MovementFacts
from billing.operations.wallets import TakenMoney
from billing.periods import LAST_MS, UTC_ZONE, Calendar, PeriodWindow
from billing.prices.files import FlatPrices
from billing.quota.types import MoneySum
from billing.reconciliation.unbilled import EndedPoolHour
from billing.reports.usage_report import UsageSums
from billing.tables.dedicated_pools import Commitment
from billing.tables.limits import Budget
from billing.tables.prices import PeriodClose
from billing.tables.tenants import PriceVersion
from billing.tables.wallets import BudgetAlert, WalletGrant
from billing.wallets.budgets import BudgetStanding
from billing.wallets.statements import GrantLeft, WalletMovement
from billing.wallets.undo import UndoResult
from core.errors import StartupError
from tests.billing.cli.made_facts import BEGAN, DAY_MS, NAMES, made
from tests.billing.events import an_event


def test_a_threshold_that_was_reached() -> None:
    """Money for people; a wallet's has no window."""
    of: dict[str, Any] = {"tenant_id": "t", "scope_id": "u", "period": "day", "budget_id": "b"}
    numbers: dict[str, Any] = {"limit_nano": 2 * 10**9, "spent_nano": 10**9, "threshold": 50}
    row = BudgetAlert(scope="user", window_start_ms=DAY_MS, created_ms=2 * DAY_MS, **of, **numbers)
    said = {
        "reached": "1970-01-03T00:00:00+00:00",
        "scope": "user",
        "of": "u",
        "period": "day",
        "percent": 50,
    }
    last = {"budget": "b", "window": BEGAN}
    assert alerts._alert(row, True) == {**said, "limit_nano": 2 * 10**9, "spent_nano": 10**9, **last}
    assert alerts._alert(row, False) == {**said, "limit": "$2.00", "spent": "$1.00", **last}
    row.scope = WALLET_SCOPE
    assert alerts._alert(row, True)["window"] is None


def test_usage_of_a_group() -> None:
    """By name for people, by id for scripts; a day is a time to both, a user a name."""
    found = UsageSums("p1", 1, 2, 3, 4, 5, 6, 7 * 10**9)
    numbers = dict(zip(("requests", "errors", "input_uncached", "input_cached"), (1, 2, 3, 4), strict=True))
    numbers |= {"output_text": 5, "output_reasoning": 6}
    names = {"p1": "web"}
    assert usage._row("project", found, True, names) == {"project": "p1", **numbers, "amount_nano": 7 * 10**9}
    assert usage._row("project", found, False, names) == {"project": "web", **numbers, "amount": "$7.00"}
    assert usage._row("user", found, True, names)["user"] == "web"
    day = UsageSums(str(DAY_MS))
    assert {usage._row("day", day, as_json, {})["day"] for as_json in (True, False)} == {BEGAN}


def test_usage_of_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A month, or from a moment to another; not the other way round, nor none, nor beyond all time."""
    monkeypatch.setattr(usage, "now_ms", lambda: DAY_MS)
    calendar = Calendar(UTC_ZONE)
    assert usage._window(None, None, None, calendar) == PeriodWindow(0, 31 * DAY_MS)
    assert usage._window("1970-02", None, None, calendar) == PeriodWindow(31 * DAY_MS, 59 * DAY_MS)
    assert usage._window(None, "1970-01-01", None, calendar) == PeriodWindow(0, DAY_MS)
    last = ("1970-01-01", "9999-01-01T00:00:00+00:00")
    assert usage._window(None, *last, calendar) == PeriodWindow(0, LAST_MS)
    for start, end, says in (
        (None, "1970-01-02", "--to needs --from"),
        ("1970-01-02", None, "must be before"),
        ("1969-12-31", None, "must be before"),
        ("1970-01-01", "9999-01-01T00:00:01+00:00", "must be before"),
    ):
        with pytest.raises(StartupError, match=says):
            usage._window(None, start, end, calendar)


def test_prices_of_a_book() -> None:
    """Of a million tokens and of a request; what is in force began last, and was not withdrawn."""
    flat = FlatPrices(10**9, 5 * 10**8, 2 * 10**9, 3 * 10**14)
    amounts = {"input": "1.00", "cached_input": "0.50", "output": "2.00", "request": "0.30"}
    assert prices._amounts(flat) == amounts

    def version(number: int, from_ms: int, withdrawn_ms: int | None = None) -> PriceVersion:
        facts: dict[str, Any] = {"valid_from_ms": from_ms, "withdrawn_ms": withdrawn_ms}
        return made(PriceVersion, book_id="b", version=number, **facts)

    versions = [version(1, 0), version(2, 100), version(3, 100), version(4, 101), version(5, 50, 7)]
    assert prices._states(versions, 100) == {
        1: "over",
        2: "over",
        3: "in force",
        4: "planned",
        5: "withdrawn",
    }
    assert prices._states(versions[3:], 100) == {4: "planned", 5: "withdrawn"}


def test_what_other_prices_would_have_meant() -> None:
    """With a sign, and in per cents where there was anything."""
    more = WhatIf("t", "m", 3, 1, 10**9, 15 * 10**8, 1, 10**9)
    shown = {
        "tenant": "acme",
        "model": "m",
        "requests": 3,
        "unpriced": 1,
        "was": "$1.00",
        "would_be": "$1.50",
    }
    assert prices._in_words(more, NAMES) == {**shown, "by_tiers": "$1.00", "change": "+$0.50 (+50.0 %)"}
    assert prices._in_words(WhatIf("x", "m", was_nano=10**9), NAMES)["change"] == "-$1.00 (-100.0 %)"
    assert prices._in_words(WhatIf("x", "m"), NAMES)["change"] == "$0.00 (+0.0 %)"
    assert prices._in_nano(more)["change_nano"] == 5 * 10**8
    assert prices._in_nano(more)["was_true_up_nano"] == 1


def test_a_closed_month() -> None:
    """Money for people, what it was closed without in words."""
    lacks = {"pools": [], "redis_away": True, "more": False}
    facts: dict[str, Any] = {"end_ms": 2 * DAY_MS, "line_seq": 1, "closed_ms": DAY_MS, "time_zone": "UTC"}
    close = PeriodClose(
        tenant_id="t", start_ms=DAY_MS, month="1970-01", amount_nano=10**9, lacks=lacks, **facts
    )
    said = {"month": "1970-01", "from": BEGAN, "to": "1970-01-03T00:00:00+00:00", "time_zone": "UTC"}
    for_scripts = {**said, "closed": BEGAN, "trued_up_nano": 10**9, "closed_without": lacks}
    assert price_periods._period(close, True) == for_scripts
    words = price_periods.gaps_text(lacks)
    for_people = {**said, "closed": BEGAN, "trued_up": "$1.00", "closed_without": words}
    assert price_periods._period(close, False) == for_people
    close.lacks = None
    assert price_periods._period(close, False)["closed_without"] is None


def test_gpus_of_a_pool() -> None:
    """Seconds and nano-USD, or hours and dollars; what nobody said is empty, who has none is shared."""
    use = PoolUse("p", "t", "h200", 7_200, 3_600, 1_800, 900, 360, 4 * 10**9, 2 * 10**9, 10**9)
    seconds = {
        "ready": 7_200,
        "busy": 3_600,
        "idle": 3_600,
        "committed": 1_800,
        "overage": 900,
        "reserved": 360,
    }
    shown = pool_usage._facts(use, NAMES)
    assert pools._in_units(shown) == {
        **{"pool": "p", "tenant": "acme", "gpu_type": "h200"},
        **{f"{name}_gpu_seconds": number for name, number in seconds.items()},
        **{"gpu_nano": 4 * 10**9, "tokens_nano": 2 * 10**9, "cost_nano": 10**9},
        "margin_nano_per_gpu_hour": 25 * 10**8,
    }
    assert pools._in_words(shown) == {
        **{"pool": "p", "tenant": "acme", "gpu": "h200"},
        **{"ready": "2.000", "busy": "1.000", "idle": "1.000", "committed": "0.500", "overage": "0.250"},
        **{"reserved": "0.100", "gpus": "$4.00", "tokens": "$2.00", "cost": "$1.00"},
        "margin/GPU-hour": "$2.50",
    }
    nobodys = pools._in_words(pool_usage._facts(PoolUse("", "", "h200", cost_nano=None), NAMES))
    assert (nobodys["pool"], nobodys["tenant"]) == ("(any)", "(shared)")
    assert (nobodys["cost"], nobodys["margin/GPU-hour"]) == ("", "")
    assert pool_usage._facts(PoolUse("p", "x", "h200"), NAMES).tenant == "x"


@pytest.mark.parametrize(
    ("until_ms", "to", "to_people"),
    [(DAY_MS + 1, BEGAN, BEGAN), (DAY_MS, None, arguments.TAKEN_BACK)],
)
def test_a_commitment_to_gpus(until_ms: int, to: str | None, to_people: str) -> None:
    """One that was taken back held at no time."""
    row = made(
        Commitment,
        **{"id": "c", "gpu_type": "h200", "gpus": 8, "pool": "", "rate_nano": 1, "overage_nano": None},
        **{
            "payment": "monthly",
            "start_ms": DAY_MS,
            "ends_ms": until_ms,
            "end_ms": 2 * DAY_MS,
            "notice_days": 30,
        },
    )
    facts = {"id": "c", "gpu": "h200", "gpus": 8, "pool": "", "rate_nano": 1, "overage_nano": None}
    facts |= {
        "payment": "monthly",
        "from": BEGAN,
        "to": to,
        "agreed_to": "1970-01-03T00:00:00+00:00",
        "notice_days": 30,
    }
    commitment = GpuCommitmentFacts.of(row)
    assert pools._facts(commitment, True) == facts
    assert pools._facts(commitment, False) == {**facts, "to": to_people}


def test_where_unbilled_ends_are() -> None:
    """What is lost has no price; a time for people, Unix ms for scripts."""
    event = an_event(
        "r", "t", ended_ms=DAY_MS, input_uncached=3, input_cached=4, output_text=5, output_reasoning=6
    )
    of = {"state": "waiting", "pool": "p", "tenant": "t", "request": "r"}
    numbers = {"requests": 1, "input": 7, "output": 11}
    cost = {"cost_nano": event.cost_nano, "why": ""}
    assert unbilled._row("waiting", "p", event, True) == {**of, "ended": DAY_MS, **numbers, **cost}
    shown = {"cost": usage.to_display(event.cost_nano), "why": ""}
    assert unbilled._row("waiting", "p", event, False) == {**of, "ended": BEGAN, **numbers, **shown}
    hour = EndedPoolHour("p", DAY_MS, 9, 90, 4, 40, 2, 20)
    lost = {"state": "lost", "pool": "p", "tenant": "", "request": ""}
    lost_numbers = {"requests": 3, "input": 0, "output": 30}
    why = {"why": "in the hour from then on"}
    assert unbilled._lost(hour, True) == {**lost, "ended": DAY_MS, **lost_numbers, "cost_nano": 0, **why}
    assert unbilled._lost(hour, False) == {**lost, "ended": BEGAN, **lost_numbers, "cost": "", **why}


def a_budget(**facts: Any) -> Budget:
    """Of each user, in shadow mode."""
    of: dict[str, Any] = {"tenant_id": "t", "id": "b", "scope": "user", "scope_id": "", "period": "day"}
    of |= {
        "hard": True,
        "mode": Mode.SHADOW.value,
        "limit_nano": 10**9,
        "thresholds": [50, 100],
        "author": "ann",
    }
    return made(Budget, **of | {"override_nano": None, "override_until_ms": None} | facts)


def test_a_budget_and_what_overrides_it() -> None:
    """Until its time is over. Whom it is for is said by name."""

    def shown(row: Budget, as_json: bool) -> dict[str, Any]:
        return budgets._facts(StoredBudget(**budget_facts(row, {"u": "ann@acme"}, DAY_MS)), as_json)

    said = {"budget": "b", "scope": "user", "of": "each", "period": "day", "kind": "hard", "mode": "shadow"}
    last = {"thresholds": "50,100", "author": "ann", "by_tenant": False}
    assert shown(a_budget(), True) == {**said, "limit_nano": 10**9, **last}
    ended = a_budget(override_nano=0, override_until_ms=DAY_MS, hard=False)
    assert shown(ended, False) == {**said, "kind": "soft", "limit": "$1.00", **last}
    held = a_budget(override_nano=0, override_until_ms=DAY_MS + 1_000, scope="tenant")
    over = {"override": "$0.00", "override_until": "1970-01-02T00:00:01+00:00"}
    assert shown(held, False) == {
        **said,
        "scope": "tenant",
        "of": "",
        "limit": "$1.00",
        **over,
        **last,
    }
    assert shown(a_budget(scope_id="v"), True)["of"] == "v"
    assert shown(a_budget(scope_id="u"), True)["of"] == "ann@acme"


def test_where_a_budget_stands() -> None:
    """With what is held of the very same count; unknown where Redis does not answer, never below zero."""
    window = PeriodWindow(0, DAY_MS)

    def stands(counts: list[MoneySum] | None, as_json: bool = True, **facts: Any) -> dict[str, Any]:
        of: dict[str, Any] = {
            "limit_nano": 10,
            "spent_nano": 4,
            "exhausted_ms": DAY_MS,
            "window": window,
        } | facts
        row = a_budget()
        found = BudgetStanding(budget=row, counted=SpendingScope("user", "u"), **of)
        facts = standing_facts(found, NAMES, counts, ZoneInfo("Europe/Berlin"))
        whole = BudgetInUse(**budget_facts(row, NAMES, 0) | facts)
        return budgets._facts(whole, as_json)

    def count(**facts: Any) -> MoneySum:
        of: dict[str, Any] = {"scope": "user", "scope_id": "u", "period": "day", "window_start_ms": 0}
        numbers: dict[str, Any] = {"window_end_ms": DAY_MS, "seed_seq": 1, "posted_nano": 4, "open": 1}
        given: dict[str, Any] = {**of, **numbers, "shadow": True, "unbooked_nano": 2, "held_nano": 1, **facts}
        return MoneySum(**given)

    own = stands([count(), *(count(**{name: other}) for name, other in OTHERS.items())])
    assert own == {
        **budgets._facts(StoredBudget(**budget_facts(a_budget(), NAMES, 0)), True),
        **{"of": "u", "spent_nano": 4, "held_nano": 3, "left_nano": 3, "percent": 40},
        **{"resets": "1970-01-02T01:00:00+01:00", "exhausted": "1970-01-02T01:00:00+01:00"},
    }
    assert (stands([])["held_nano"], stands([])["left_nano"]) == (0, 6)
    assert (stands(None)["held_nano"], stands(None)["left_nano"]) == (None, 6)
    assert (stands(None, as_json=False)["held"], stands([], as_json=False)["held"]) == ("unknown", "$0.00")
    assert stands([count(held_nano=9)])["left_nano"] == 0
    assert stands([], window=PeriodWindow(0, LAST_MS))["resets"] is None
    assert stands([], exhausted_ms=None)["exhausted"] is None


OTHERS = {"scope": "key", "scope_id": "v", "period": "week", "window_start_ms": 1, "shadow": False}


@pytest.mark.parametrize(
    ("left_nano", "taken_nano", "expired", "state"),
    [
        (1, 0, False, "open"),
        (0, 0, False, "spent"),
        (1, 0, True, "expired"),
        (0, 9, False, "voided"),
        (1, 8, False, "open"),
    ],
)
def test_a_grant(left_nano: int, taken_nano: int, expired: bool, state: str) -> None:
    """What became of it; scripts are told of nothing that was taken back, too."""
    row = made(
        WalletGrant,
        **{"id": "g", "kind": "paid", "priority": 50, "amount_nano": 9, "left_nano": 0, "expires_ms": None},
        **{
            "taken_nano": taken_nano,
            "idempotency_key": "k",
            "author": "ann",
            "note": "n",
            "created_ms": DAY_MS,
        },
    )
    found = GrantFacts.of(GrantLeft(row, left_nano, expired))
    facts = wallets._facts(found, True)
    assert facts == {
        **{"grant": "g", "kind": "paid", "priority": 50, "amount_nano": 9, "left_nano": left_nano},
        **{"expires": None, "taken_back_nano": taken_nano, "state": state, "key": "k", "author": "ann"},
        **{"note": "n", "granted": BEGAN},
    }
    assert wallets._facts(found, False)["taken_back"] == (
        wallets.to_display(taken_nano) if taken_nano else ""
    )


def test_what_moved_a_wallet() -> None:
    """And what it held then."""
    said = {"time": BEGAN, "kind": "usage", "cause": "r"}
    moved = WalletMovement(1, DAY_MS, "usage", "r", -(10**9), 2 * 10**9)
    facts = MovementFacts.of(moved)
    assert facts_of(facts, True) == {**said, "amount_nano": -(10**9), "balance_nano": 2 * 10**9}
    assert facts_of(facts, False) == {**said, "amount": "-$1.00", "balance": "$2.00"}


@pytest.mark.parametrize(
    ("booked", "done", "proposed", "state"),
    [
        (True, False, False, "taken"),
        (True, True, False, "was taken before: nothing is changed"),
        (False, False, False, "not booked"),
        (False, True, False, "was taken before: nothing is changed"),
        (False, False, True, "proposed"),
    ],
)
def test_what_is_taken_out_of_a_wallet(booked: bool, done: bool, proposed: bool, state: str) -> None:
    """A grant a row: money for people, nano for scripts."""
    of: Any = made(WalletGrant, id="g", idempotency_key="k", kind="paid")
    taken = TakenMoney.of(UndoResult([(of, 10**9)], done))
    found = MoneyMove(taken, 10**9, booked, "it waits" if proposed else "")
    said = {"grant": "g", "key": "k", "kind": "paid", "state": state}
    assert wallet_undo._facts(found, True) == [{**said, "taken_nano": 10**9}]
    assert wallet_undo._facts(found, False) == [{**said, "taken": "$1.00"}]
    assert wallet_undo._facts(MoneyMove(TakenMoney([], True), 0, booked=False), False) == []

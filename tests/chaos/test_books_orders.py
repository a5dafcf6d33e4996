"""The oracle of the books: money taken out by hand, orders that were not carried out, commitments that ended,
and what reports and sends should say."""

from dataclasses import replace

from chaos.books.grant_spending import replay
from chaos.books.judge import expected_by, judge_refused
from chaos.books.pricing import KEPT_MS, least, steady_from
from chaos.books.reports import GROUPINGS, report
from chaos.books.terms import (
    CLAW_BACK,
    OUTPUT,
    PAY_OUT,
    PROMO,
    VOID,
    Corrected,
    CreditTaken,
    Granted,
    History,
    MonthClosed,
    MonthlyCommitment,
    Prices,
    Version,
)
from tests.chaos.books_cases import COST, CUSTOMER, PRICES, clean, off

DAY_MS = 86_400_000


def test_what_is_taken_out_comes_from_the_grant_or_from_what_was_paid_last() -> None:
    """A void takes all, a claw-back a part; 13 paid out: 10 of the newer paid grant, 3 of the older."""
    older, newer = Granted("t", "older", 20, 50), Granted("t", "newer", 10, 50)
    promo, wrong = Granted("t", "promo", 30, 10, kind=PROMO), Granted("t", "wrong", 40, 99)
    wallet = replay([older, newer, promo, wrong, CreditTaken("t", VOID, "wrong", 40, "wrong")])
    wallet.move(CreditTaken("t", CLAW_BACK, "k1", 7, "promo"))
    wallet.move(CreditTaken("t", PAY_OUT, "k2", 13))
    assert {key: kept.left for key, kept in wallet.grants.items()} == dict(
        older=17, newer=0, promo=23, wrong=0
    )
    wallet.move(CreditTaken("t", PAY_OUT, "k3", 18))  # a nano more than there is
    assert [kept.left for kept in wallet.grants.values()] == [-1, 0, 23, 0]


def test_an_order_that_nobody_carried_out_is_found() -> None:
    """Refused or not approved, and booked; carried out, and not booked; booked twice."""
    back = CreditTaken("t", CLAW_BACK, "k", 5, "g")
    history, rows = clean()
    history.facts.insert(1, back)
    assert "orders: booked once, or not at all" in off(history, rows)
    booked = {"tenant_id": "t", "seq": 9, "kind": CLAW_BACK, "idempotency_key": "claw_back:k", "posted_ms": 1}
    rows["ledger_txn"].append(booked)
    rows["wallet_grant"][0]["left_nano"] -= 5
    entries = [("wallet:paid:1", 5), ("stripe_clearing", -5)]
    rows["ledger_entry"].extend(
        {"tenant_id": "t", "account": name, "amount_nano": nano} for name, nano in entries
    )
    assert off(history, rows) == []
    del history.facts[1]
    assert "orders: booked once, or not at all" in off(history, rows)
    history.facts.insert(1, back)
    rows["ledger_txn"].append(booked)
    assert "orders: booked once, or not at all" in off(history, rows)


def test_what_a_send_takes_at_least() -> None:
    """12 x 2.5 = 30 and 1 x 7.5, rounded up to 8, each and one; and 3 a request; what is free is free."""
    assert least(12, PRICES) == 31 + 9 + 3
    assert least(12, Prices(0, 0, 7_500_000)) == 9
    assert least(12, replace(PRICES, cached_input=3_500_000)) == 43 + 9 + 3


def test_a_probe_waits_for_planned_prices() -> None:
    """Until none begins for so long, and gateways know; those that were withdrawn count as nothing."""
    planned = [Version("b", number, at_ms, {}) for number, at_ms in enumerate((90, 150, 9_000), 1)]
    assert steady_from(planned, 100, 40) == 100
    assert steady_from(planned, 100, 60) == 150 + KEPT_MS
    assert steady_from(planned, 100, 8_000) == 9_000 + KEPT_MS
    assert steady_from([replace(each, withdrawn=True) for each in planned], 100, 8_000) == 100


def test_a_commitment_holds_in_its_own_months() -> None:
    """From its first to the last before it ended; one that was taken back in none."""
    terms = MonthlyCommitment(5, from_ms=100)
    assert [terms.holds(at) for at in (99, 100, 1_000)] == [False, True, True]
    assert [replace(terms, until_ms=1_000).holds(at) for at in (100, 1_000)] == [True, False]
    assert not replace(terms, until_ms=100).holds(100)
    history, rows = clean()
    history.customers["t"] = replace(
        history.customers["t"], commitments=(MonthlyCommitment(10_000, until_ms=0),)
    )
    assert off(history, rows) == []
    history.customers["t"] = replace(
        history.customers["t"], commitments=(MonthlyCommitment(10_000, until_ms=1),)
    )
    assert "true-ups: month, model, meter" in off(history, rows)


def test_reports_have_true_ups_and_what_came_late_in_the_month_that_shows_them() -> None:
    """An answer of November, corrected after its close: each month's sums, by who and where."""
    history, rows = clean()
    history.facts += [Corrected("t", "r", "d", {OUTPUT: 0}), MonthClosed("t", 40 * DAY_MS)]
    expected = expected_by(history, rows)
    months = (0, 31 * DAY_MS), (31 * DAY_MS, 59 * DAY_MS)
    first, second = (
        {by: report(expected, "t", month, "UTC", by, {"u": "ann"}) for by in GROUPINGS} for month in months
    )
    used = (1, 0, 10, 3, 3, COST - 16)
    true_up = (0, 0, 0, 0, 0, 97)
    assert first["user"] == {"ann": used, "": true_up}
    assert first["cost_center"] == {"c": used, "": true_up}
    assert first["model"]["m"] == (1, 0, 10, 3, 3, COST + 81)
    assert first["day"] == {"1970-01-01T00:00:00+00:00": used, "1970-01-31T00:00:00+00:00": true_up}
    assert second["total"] == {"": (0, 0, 0, 0, -3, -22)}
    tokyo = report(expected, "t", months[0], "Asia/Tokyo", "day", {})
    assert list(tokyo) == ["1969-12-31T15:00:00+00:00", "1970-01-31T15:00:00+00:00"]


def test_who_pays_afterwards_is_never_refused_for_money() -> None:
    """Nor anybody for a budget that nobody reaches."""
    history = History({"t": CUSTOMER, "u": replace(CUSTOMER, name="cyd", prepaid=True)})
    assert not judge_refused(history, {("acme", "overloaded"): 3, ("cyd", "insufficient_quota"): 9}).off
    wrong = {("acme", "insufficient_quota"): 1, ("cyd", "budget_exceeded"): 1}
    assert judge_refused(history, wrong).off == 2

"""The oracle of the books: its arithmetic against cases computed by hand, and what it finds in a row that is
off."""

import ast
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import chaos.books
from chaos.books.expected import expected_of
from chaos.books.grant_spending import Charged, GrantEnded, replay
from chaos.books.judge import judge
from chaos.books.months import month_comes_to, month_of, name_of
from chaos.books.price_files import price_file, usd
from chaos.books.pricing import amount, cost, possible
from chaos.books.terms import (
    CACHED,
    INPUT,
    MINIMUM,
    OUTPUT,
    REQUEST,
    Corrected,
    Customer,
    Granted,
    MonthClosed,
    MonthlyCommitment,
    Tiers,
    Version,
)
from tests.chaos.books_cases import COST, CUSTOMER, FIRST, PRICES, SECOND, TOLD, clean, of, off

DAY_MS = 86_400_000
PRODUCT = {"billing", "core", "engine", "server", "admin"}
SHELLS = {
    "agreements",
    "asking",
    "command",
    "command_output",
    "operator_actions",
    "probing",
    "second_person",
    "testbed",
    "withdrawals",
}


def test_a_line_is_rounded_once_and_a_tie_goes_to_the_even_one() -> None:
    """Half a nano, one and a half, two and a half; and what a float would get wrong."""
    assert [amount(1, 500_000), amount(3, 500_000), amount(5, 500_000)] == [0, 2, 2]
    assert amount(9_007_199_254_740_993, 1_000_000) == 9_007_199_254_740_993
    assert cost({INPUT: 10, CACHED: 3, OUTPUT: 5, REQUEST: 1}, PRICES) == COST == 68


def under(versions: list[Version], sent: int, heard: int, customer: Customer = CUSTOMER) -> list[int]:
    """The versions that a request may count under."""
    return sorted(
        number for _, number in possible(versions, customer, replace(TOLD, sent_ms=sent, heard_ms=heard))
    )


def test_a_request_counts_under_the_version_in_force_when_it_was_admitted() -> None:
    """Both only where one began between its sending and its word; a withdrawn one never did."""
    both = [FIRST, SECOND]
    assert under(both, 2_000, 2_010) == [1]
    assert under(both, 4_900, 4_990) == [1]
    assert under(both, 4_990, 5_000) == [1, 2]
    assert under(both, 5_100, 5_200) == [2]
    assert under([FIRST, replace(SECOND, withdrawn=True)], 5_100, 5_200) == [1]
    assert under([FIRST, replace(SECOND, known_ms=6_000)], 5_100, 5_200) == [1, 2]
    assert under([FIRST, replace(SECOND, known_ms=6_000)], 9_000, 9_100) == [2]


def test_a_parent_has_the_prices_that_a_book_has_not() -> None:
    """By model, not by book."""
    own = Version("own", 1, 0, {"other": PRICES})
    child = replace(CUSTOMER, books=("own", "b"))
    found = possible([FIRST, own], child, TOLD)
    assert list(found) == [("b", 1)]
    assert list(possible([FIRST, replace(own, prices={"*": PRICES})], child, TOLD)) == [("own", 1)]


@pytest.mark.parametrize(
    ("tiers", "quantity", "comes_to"),
    [
        # 10 at 4, 10 at 3, the rest at 2.5: 40 + 30 + 12.5 = 82.5, to the even 82
        (Tiers("graduated", ((10, 4_000_000), (20, 3_000_000), (None, 2_500_000))), 25, 82),
        (Tiers("graduated", ((10, 4_000_000), (None, 1_000_000))), 10, 40),
        (Tiers("volume", ((10, 4_000_000), (None, 2_500_000))), 10, 40),
        (Tiers("volume", ((10, 4_000_000), (None, 2_500_000))), 11, 28),  # 27.5
        (Tiers("package", size=10, price=7), 21, 21),
        (Tiers("package", size=10, price=7), 20, 14),
        (Tiers("flat", minimum=500), 10, 500),
        (Tiers("flat", minimum=5), 10, 40),
        (Tiers("graduated", ((None, 1_000_000),), minimum=30), 0, 0),
    ],
)
def test_what_tiers_make_of_a_month(tiers: Tiers, quantity: int, comes_to: int) -> None:
    """The difference to what was charged at the flat price."""
    charged = 4 * quantity
    assert charged + month_comes_to([of(quantity, charged, tiers)], []).get(("m", OUTPUT), 0) == comes_to


def test_each_version_begins_its_tiers_anew_and_the_newest_has_the_minimum() -> None:
    """10 at 4 twice, not 20; and the minimum of the version that was used last, for both."""
    tiers = Tiers("graduated", ((10, 4_000_000), (None, 0)))
    assert month_comes_to([of(10, 40, tiers), of(10, 40, tiers, 2)], []) == {}
    least = replace(tiers, minimum=100)
    assert month_comes_to([of(10, 40, least), of(10, 40, tiers, 2)], []) == {}
    assert month_comes_to([of(10, 40, tiers), of(10, 40, least, 2)], []) == {("m", OUTPUT): 20}


def test_what_commitments_make_of_a_month() -> None:
    """Units are paid whether they are used or not, the oldest use first; a promise to spend is made up."""
    units = MonthlyCommitment(50, OUTPUT, "m", 12)
    # 12 of 20 are covered: 8 at 4 are 32 where 80 were charged, and the 50.
    assert month_comes_to([of(20, 80)], [units]) == {("m", OUTPUT): 32 + 50 - 80}
    assert month_comes_to([of(20, 80)], [replace(units, overage=500_000)]) == {("m", OUTPUT): 4 + 50 - 80}
    assert month_comes_to([], [units]) == {("m", OUTPUT): 50}
    assert month_comes_to([of(20, 80)], [replace(units, model="*")]) == {
        ("m", OUTPUT): -48,
        ("*", OUTPUT): 50,
    }
    assert month_comes_to([of(20, 80)], [MonthlyCommitment(100)]) == {("", MINIMUM): 20}
    assert month_comes_to([of(20, 80)], [MonthlyCommitment(80)]) == {}
    assert month_comes_to([of(20, 80)], [MonthlyCommitment(100), units]) == {
        ("m", OUTPUT): 2,
        ("", MINIMUM): 18,
    }


def test_months_begin_where_the_customer_is() -> None:
    """1 November 2026 in Kiritimati is 10:00 of 31 October in UTC; New York's has an hour more."""
    begins = 1_793_440_800_000
    assert month_of(begins, "Pacific/Kiritimati")[0] == begins
    assert month_of(begins - 1, "Pacific/Kiritimati")[1] == begins
    assert name_of(begins, "Pacific/Kiritimati") == "2026-11"
    assert name_of(begins, "UTC") == "2026-10"
    start, end = month_of(begins + 10 * 86_400_000, "America/New_York")
    assert end - start == (30 * 24 + 1) * 3_600_000


def test_grants_pay_in_their_order_and_get_back_in_the_reverse() -> None:
    """20 of 25 by the promotion that ends, 5 by the paid one; 8 back: 5 to the paid one, 3 to the other."""
    promo, paid = Granted("t", "promo", 20, 10, 900), Granted("t", "paid", 10, 50)
    one, two = ("t", "1"), ("t", "2")
    wallet = replay([promo, paid, Charged(one, 25, 100)])
    assert [kept.left for kept in wallet.grants.values()] == [0, 5]
    wallet.move(Charged(one, -8, 110))
    assert ([kept.left for kept in wallet.grants.values()], wallet.owed) == ([3, 10], 0)
    wallet.move(Charged(two, 20, 120))
    assert ([kept.left for kept in wallet.grants.values()], wallet.owed) == ([0, 0], 7)
    wallet.move(Charged(two, -9, 130))  # what was owed goes first
    assert ([kept.left for kept in wallet.grants.values()], wallet.owed) == ([0, 2], 0)
    late = replay([promo, paid, Charged(one, 5, 900), GrantEnded("promo")])
    assert [(kept.left, kept.lapsed) for kept in late.grants.values()] == [(0, 20), (5, 0)]
    late.move(Charged(two, 18, 899))  # asked before the end, and booked after
    assert [(kept.left, kept.lapsed) for kept in late.grants.values()] == [(0, 2), (5, 0)]


def test_the_next_grant_pays_what_is_owed_the_oldest_first() -> None:
    """Of 7 and 5 that are owed, a grant of 9 pays the older 5 whole and 4 of the other."""
    one, two = ("t", "1"), ("t", "2")
    wallet = replay([Charged(one, 7, 200), Charged(two, 5, 100), Granted("t", "g", 9, 50)])
    assert wallet.lacking == {one: 3}
    assert wallet.grants["g"].left == 0
    wallet.move(Charged(two, -5, 300))
    assert (wallet.grants["g"].left, wallet.owed) == (5, 3)


def test_books_that_hold_are_found_so() -> None:
    """And each comparison has something to compare."""
    history, rows = clean()
    checks = judge(history, rows, lambda tokens: 3)
    assert [(check.name, check.details) for check in checks if check.off] == []
    assert [check.name for check in checks if not check.compared] == ["wallets: what no grant paid yet"]


PLANTED = [
    ("usage_event", 0, "cost_nano", 1),
    ("usage_event", 0, "output_text", 1),
    ("usage_event", 0, "price_version", 1),
    ("usage_event", 0, "accepted_ms", -1_000),
    ("usage_event", 0, "ended_ms", 10_000),
    ("usage_event", 0, "user_id", "x"),
    ("usage_event", 0, "request_id", "x"),
    ("usage_line", 1, "amount_nano", -1),
    ("usage_line", 4, "quantity", 1),
    ("usage_line", 5, "amount_nano", 1),
    ("ledger_entry", 3, "amount_nano", 1),
    ("ledger_entry", 5, "amount_nano", 1),
    ("ledger_entry", 2, "amount_nano", 1),
    ("rollup_hour", 0, "amount_nano", 1),
    ("rollup_hour", 0, "user_id", "x"),
    ("rollup_hour", 0, "cost_center_id", "later"),
    ("usage_line", 1, "cost_center_id", ""),
    ("ledger_entry", 9, "amount_nano", 1),
    ("ledger_txn", 0, "idempotency_key", ":h"),
    ("ledger_txn", 2, "idempotency_key", "x"),
    ("rollup_hour", 0, "output_text", 1),
    ("wallet", 0, "posted_nano", 1),
    ("wallet_owed", 0, "owed_nano", 1),
    ("wallet_grant", 0, "left_nano", -1),
    ("usage_quarantine", 0, "resolved_ms", None),
]


@pytest.mark.parametrize(("table", "number", "column", "change"), PLANTED)
def test_one_row_that_is_off_is_found(table: str, number: int, column: str, change: Any) -> None:
    """A nano, a token, a time, a name."""
    history, rows = clean()
    rows.of["wallet_owed"] += [{"tenant_id": "t", "request_id": "r", "owed_nano": 0}]
    row = rows[table][number]
    row[column] = row[column] + change if isinstance(change, int) else change
    assert off(history, rows)


def test_a_row_that_is_missing_or_double_is_found() -> None:
    """In each table that the judge reads, but for what only names things."""
    for table in ("usage_event", "usage_line", "ledger_entry", "rollup_hour", "wallet", "wallet_grant"):
        history, rows = clean()
        del rows[table][0]
        if table == "wallet_grant":
            continue  # the ledger names it, and the books cannot be read without
        assert off(history, rows), table
    for table in ("usage_line", "ledger_entry", "rollup_hour"):
        history, rows = clean()
        rows[table].append(deepcopy(rows[table][0]))
        assert off(history, rows), table


def test_what_was_told_is_held_against_the_text_and_the_prices() -> None:
    """An answer that says of itself what its text and its time do not say."""
    for wrong in (
        {"characters": 4},
        {"asked_input": 12},
        {"cost": COST + 1},
        {"sent_ms": 0, "heard_ms": 1_000},
    ):
        history, rows = clean()
        history.facts[1] = replace(TOLD, **({"cost": COST} | wrong))
        assert off(history, rows), wrong


def test_only_where_held_letters_are_dropped_a_text_may_be_shorter_than_its_tokens() -> None:
    """By a few: a cancel ends what a safety policy was still holding."""

    def told_as(**told: Any) -> bool:
        history, rows = clean()
        history.facts[1] = replace(TOLD, cost=COST, **told)
        rows["usage_event"][0]["reason"] = history.facts[1].reason
        names = {check.name for check in judge(history, rows, lambda tokens: 3) if check.off}
        return "answers: tokens as their text says" not in names

    assert told_as(reason="cancelled", characters=TOLD.output - 1)
    assert not told_as(reason="cancelled", characters=TOLD.output + 1)
    assert not told_as(reason="length", characters=TOLD.output - 1)


def test_what_comes_late_is_in_its_own_month() -> None:
    """A correction after the close moves the month's true-up when the next one is closed."""
    history, _ = clean()
    history.facts += [Corrected("t", "r", "d", dict.fromkeys((INPUT, CACHED, OUTPUT, REQUEST), 0))]
    early = expected_of(history, {}, {}).true_ups
    assert early == {("t", 0): {("m", REQUEST): 97}}
    late = expected_of(history, {}, {}).moves[-1]
    assert (late.at_ms, late.amount) == (31 * 86_400_000, 16 - COST)  # where the first open month begins
    history.facts.append(MonthClosed("t", 40 * 86_400_000))
    assert expected_of(history, {}, {}).true_ups == {("t", 0): {}, ("t", 31 * 86_400_000): {}}


def test_price_files_say_what_the_oracle_means() -> None:
    """To the nano, with tiers in the product's own words."""
    tiers = {("m", REQUEST): Tiers("graduated", ((5, 2_000_000), (None, 1_000_000)), minimum=7)}
    text = price_file(Version("b", 1, 0, {"m": PRICES}, tiers), "acme", "shared", 1_793_440_800_123)
    assert usd(12_000_000_345) == "12.000000345"
    assert 'input = "0.002500000"' in text
    assert "valid_from = 2026-10-31T10:00:00.123Z" in text
    assert 'steps = [{ up_to = 5, price = "0.000000002" }, { price = "0.000000001" }]' in text


def test_the_oracle_imports_nothing_of_the_product() -> None:
    """Whoever judges shares no line with what is judged, not by another module of its own either."""
    folder = Path(chaos.books.__file__).parent
    judging = {path for path in folder.glob("*.py") if path.stem not in SHELLS}
    assert {"judge", "expected", "months", "pricing", "grant_spending", "rows", "terms"} <= {
        each.stem for each in judging
    }
    for path in judging:
        for node in ast.walk(ast.parse(path.read_text())):
            names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            for name in names:
                parts = name.split(".")
                assert parts[0] not in PRODUCT, f"{path.name} imports {name}"
                assert parts[0] != "chaos" or parts[1:2] == ["books"], f"{path.name} imports {name}"
                assert parts[:2] != ["chaos", "books"] or parts[2] not in SHELLS, (
                    f"{path.name} imports {name}"
                )

"""Books with one thing wrong."""

from dataclasses import replace
from typing import Any

from chaos.books.judge import judge
from chaos.books.months import Used
from chaos.books.rows import Rows
from chaos.books.terms import (
    CACHED,
    INPUT,
    OUTPUT,
    REQUEST,
    ClientAnswer,
    Corrected,
    CostCenterChanged,
    Customer,
    Fact,
    Granted,
    History,
    MonthClosed,
    Prices,
    Tiers,
    Version,
)

PRICES = Prices(2_500_000, 500_000, 7_500_000, 3)

FIRST, SECOND = Version("b", 1, 1_000, {"m": PRICES}), Version("b", 2, 5_000, {"*": Prices(1, 1, 1)})

CUSTOMER = Customer("t", "acme", "UTC", ("b",))

TOLD = ClientAnswer("t", "r", "p", "k", "u", "m", 2_000, 2_010, 2_500, "length", 13, 3, 5, 69, 5, 13)

# By hand: 10 x 2.5 = 25; 3 x 0.5 = 1.5, a tie, to the even 2; 5 x 7.5 = 37.5, to 38; and 3 a request.
COST = 25 + 2 + 38 + 3


def of(quantity: int, charged: int, tiers: Tiers | None = None, number: int = 1, meter: str = OUTPUT) -> Used:
    """A month's use of a meter at 4 nano a unit."""
    by = {("m", meter): tiers} if tiers else {}
    return Used(
        "m", meter, Version("b", number, number, {"m": Prices(*[4_000_000] * 3)}, by), quantity, charged
    )


def clean() -> tuple[History, Rows]:
    """A tenant with a wallet, one answer, a correction, and the rows that say so."""
    tiers = {("m", REQUEST): Tiers("package", size=10, price=100)}
    version = replace(FIRST, tiers=tiers)
    facts: list[Fact] = [
        Granted("t", "g", 60, 50),
        TOLD,
        Corrected("t", "r", "c", {OUTPUT: 3}),
        MonthClosed("t", 2_500),
    ]
    facts[1] = replace(TOLD, cost=COST)
    moved = [CostCenterChanged("t", "p", "c", 2_000), CostCenterChanged("t", "p", "later", 2_401)]
    history = History({"t": replace(CUSTOMER, prepaid=True)}, [version], facts, moved)
    of: dict[str, Any] = {"tenant_id": "t", "request_id": "r"}
    who = {"project_id": "p", "key_id": "k", "user_id": "u", "model": "m", "pool": "x"}
    event = of | who | {"accepted_ms": 2_005, "ended_ms": 2_400, "reason": "length", "input_uncached": 10}
    event |= {"input_cached": 3, "output_text": 5, "output_reasoning": 0, "price_book_id": "b"}
    event |= {"price_version": 1, "cost_nano": COST, "claims": 1}
    # Corrected, three tokens of output are 22.5, to the even 22: 16 less. The package costs 97 more.
    amounts = [(REQUEST, 1, 3), (INPUT, 10, 25), (CACHED, 3, 2), (OUTPUT, 5, 38), (OUTPUT, -2, -16)]
    lines: list[dict[str, Any]] = [
        of
        | {"seq": seq, "number": seq - 1, "kind": "usage", "meter": meter, "quantity": n, "amount_nano": nano}
        | {"cost_center_id": "c"}
        for seq, (meter, n, nano) in enumerate(amounts, 1)
    ]
    up = {"kind": "true_up", "meter": REQUEST, "quantity": 0, "amount_nano": 97, "request_id": "up", "seq": 6}
    txns = [("grant", "grant:g", 1, 0), ("usage", "usage:r", 1, 4), ("adjust", "adjust:r:c", 5, 5)]
    entries = [("wallet:paid:1", -60), ("wallet:paid:1", 60), ("wallet:paid:1", -8), ("receivable", 0)]
    entries += [("revenue:request", -100), ("revenue:input", -25), ("revenue:cached_input", -2)]
    entries += [("revenue:output", -22), ("receivable", 97), ("stripe_clearing", 60)]
    rollup = {"tenant_id": "t", "hour_ms": 0, **who, "requests": 1, "input_uncached": 10, "input_cached": 3}
    rollup |= {"cost_center_id": "c"}
    rows = {
        "usage_event": [event],
        "usage_line": [*lines, of | up],
        "ledger_txn": [
            {"tenant_id": "t", "seq": seq, "kind": kind, "idempotency_key": key, "posted_ms": 3_000}
            | {"first_line_seq": first, "last_line_seq": last}
            for seq, (kind, key, first, last) in enumerate(txns, 1)
        ],
        "ledger_entry": [{"tenant_id": "t", "account": name, "amount_nano": nano} for name, nano in entries],
        "rollup_hour": [rollup | {"output_text": 3, "output_reasoning": 0, "amount_nano": COST - 16}],
        "wallet": [{"tenant_id": "t", "posted_nano": COST - 16}],
        "wallet_grant": [{"tenant_id": "t", "id": "1", "left_nano": 8, "idempotency_key": "g"}],
        "wallet_owed": [],
        "charge": [{"tenant_id": "t", "id": "up", "model": "m", "start_ms": 0, "end_ms": 1}],
        "usage_quarantine": [{"request_id": "r", "reason": "conflicting", "detail": "", "resolved_ms": 1}],
    }
    return history, Rows(rows)


def off(history: History, rows: Rows) -> list[str]:
    """The names of the checks that find something."""
    return [check.name for check in judge(history, rows, lambda tokens: 3) if check.off]

"""Who takes part in a run of the books, and what they pay: odd prices, cached input, tiers, minimums,
commitments, wallets, other zones. Pure, and nothing of the product is in it."""

import random
from dataclasses import dataclass

from chaos.books.terms import CACHED, INPUT, OUTPUT, REQUEST, UNITS, MonthlyCommitment, Prices, Tiers

SHARED, TIERED, COVERED, OWN = "shared", "tiered", "covered", "own"
MODEL = "bytes"
USD = 1_000_000_000


@dataclass(frozen=True)
class CustomerPlan:
    """A customer to be made. `grants`: prepaid; `budget`: a hard one a month, in nano."""

    name: str
    zone: str
    book: str = SHARED
    commitments: tuple[MonthlyCommitment, ...] = ()
    grants: tuple[tuple[str, int], ...] = ()  # kind, nano
    budget: int = 0


CUSTOMERS = (
    CustomerPlan("ada", "UTC", budget=900 * USD),
    CustomerPlan("bob", "Pacific/Kiritimati"),
    CustomerPlan(
        "cyd", "Europe/Berlin", OWN, grants=(("promo", 123_457), ("paid", 50 * USD), ("paid", 7 * USD + 3))
    ),
    CustomerPlan("dee", "Asia/Kolkata", TIERED),
    CustomerPlan("eve", "America/St_Johns", commitments=(MonthlyCommitment(20 * USD + 1),)),
    CustomerPlan(
        "fay",
        "Pacific/Pago_Pago",
        COVERED,
        (
            MonthlyCommitment(3 * USD + 7, OUTPUT, MODEL, 1_500, 777_777_777),
            MonthlyCommitment(USD // 7, INPUT, "*", 9_001),
        ),
    ),
    CustomerPlan("gus", "America/New_York", grants=(("promo", 20_000), ("paid", 90_001))),
)


def flat(chosen: random.Random) -> Prices:
    """Prices whose lines never come out even: some nano a token, of nine digits."""
    odd = [chosen.randrange(1_000_001, 99_999_999) for _ in range(3)]
    return Prices(odd[0], odd[1] // 3, odd[2] * 5, chosen.choice((0, 1, 12_345)))


def tiers(chosen: random.Random, model: str) -> dict[tuple[str, str], Tiers]:
    """Each kind of tier, with bounds that a run of some hundred answers passes."""
    price = [chosen.randrange(1_000_001, 99_999_999) for _ in range(5)]
    return {
        (model, OUTPUT): Tiers(
            "graduated", ((333, price[0]), (1_001, price[1]), (None, price[2])), minimum=USD // 9
        ),
        (model, INPUT): Tiers("volume", ((500, price[3]), (None, price[4]))),
        (model, CACHED): Tiers(minimum=USD // 11 + 1),
        (model, REQUEST): Tiers("package", size=7, price=10_007),
    }


def request_tiers(chosen: random.Random, model: str) -> dict[tuple[str, str], Tiers]:
    """Tiers of what no commitment covers."""
    first, second = (chosen.randrange(1, 99_999) * UNITS for _ in range(2))
    return {(model, REQUEST): Tiers("graduated", ((5, first), (None, second)))}

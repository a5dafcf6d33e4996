"""Answers as one flat row, as commands print them."""

import msgspec
from msgspec import UNSET, UnsetType

from core.operations import MoneyAmount, flat_facts


class SpentOf(msgspec.Struct):
    """Money that may be untold or unknown."""

    spent: MoneyAmount | UnsetType | None = UNSET
    name: str | UnsetType = UNSET


def test_what_is_untold_is_left_out_and_what_nobody_knows_is_null() -> None:
    """Also in lists; JSON has no word for what is untold."""

    class SeveralSpent(msgspec.Struct):
        budgets: list[SpentOf]

    rows = [SpentOf(), SpentOf(None, "a"), SpentOf(MoneyAmount.of(5))]
    assert flat_facts(SeveralSpent(rows)) == {
        "budgets": [{}, {"spent_nano": None, "name": "a"}, {"spent_nano": 5}]
    }

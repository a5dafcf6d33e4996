"""What `parley chat` says of an answer: its tokens, its cost, what was taken out."""

from dataclasses import replace
from typing import Any

import pytest

from engine.safety.detectors import CATEGORIES
from parley_client import Ended, SafetyBlock, SafetyFlag, Usage
from server import chat_cli, chat_words


def test_every_category_has_a_word():
    """Of those that we look for ourselves."""
    assert set(chat_words.WORDS) == CATEGORIES


def test_names_of_own_rules_are_neither_one_nor_many():
    """Their author may have chosen a plural, or no noun at all."""
    flags = [
        SafetyFlag("city", "redact", "tenant", 0, 8),
        SafetyFlag("city", "redact", "tenant", 9, 8),
        SafetyFlag("project_names", "redact", "tenant", 18, 17),
    ]
    told = chat_words.removed_text("[CITY_1] [CITY_2] [PROJECT_NAMES_1]", flags)
    assert told == "Removed before it reached you: 2 × city, 1 × project names."


@pytest.mark.parametrize(
    ("nano", "told"),
    [
        (0, "0.00"),
        (1, "0.000000001"),
        (10_000_000, "0.01"),
        (999_999_999, "0.999999999"),
        (1_000_000_000, "1.00"),
        (12_500_000_000, "12.50"),
        (1_234_000_000, "1.234"),
    ],
)
def test_money_is_told_to_the_last_digit(nano: int, told: str):
    """At least two places; no zero behind them."""
    assert chat_cli._amount(nano) == told


def ended(reason: str = "stop", verified: bool = True, **money: Any) -> Ended:
    """An answer that ended so."""
    cost: dict[str, Any] = {"cost_nano": 6100, "currency": "usd"} | money
    return Ended(reason, None, Usage(1_037, None, 12, 1_049), **cost, timing={}, verified=verified)


@pytest.mark.parametrize(
    ("what", "told"),
    [
        (ended(), " · 0.0000061 USD"),
        (ended(cost_nano=0), " · 0.00 USD"),
        (ended(cost_nano=None), ""),
        (ended(currency=None), ""),
        (
            replace(ended("blocked", cost_nano=None), safety=SafetyBlock("private_key", "tenant")),
            " · blocked · private key, by a safety policy of the tenant",
        ),
        (ended("length", verified=False), " · 0.0000061 USD · length · the text does not have its hash"),
    ],
)
def test_what_is_said_of_an_answer(what: Ended, told: str):
    """Its tokens, its cost where that is shown, and whatever is not as usual."""
    assert chat_cli._facts(what) == "1,049 tokens (1,037 in, 12 out)" + told

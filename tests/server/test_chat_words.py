"""What `parley chat` says of an answer: its tokens, its cost, what was taken out."""

from dataclasses import replace
from typing import Any

import click
import pytest
from click.testing import CliRunner

from engine.safety.detectors import CATEGORIES
from parley_client import Ended, ProtocolError, SafetyBlock, SafetyFlag, SafetyPromptFlag, Usage
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


def test_what_happened_to_a_prompt_and_an_answer_is_a_line_each():
    """What was removed is counted, what was marked is named once."""
    prompt = [
        SafetyPromptFlag("card", "redact", "tenant", 0, 16, "[CARD_1]"),
        SafetyPromptFlag("card", "redact", "tenant", 20, 16, "[CARD_1]"),
        SafetyPromptFlag("water", "redact", "tenant", 40, 5, "[WATER_1]"),
        SafetyPromptFlag("email", "flag", "platform", 50, 5),
    ]
    flags = [
        SafetyFlag("card", "redact", "platform", 0, 8),
        SafetyFlag("project_names", "flag", "tenant", 9, 4),
    ]
    assert list(chat_words.prompt_lines(prompt)) == [
        "Removed from your text before the model got it: 1 card number, 1 × water.",
        "Marked in your text, and sent: e-mail address.",
    ]
    assert list(chat_words.answer_lines("[CARD_1] owls", flags)) == [
        "Removed before it reached you: 1 card number.",
        "Marked in this answer: project names.",
    ]
    assert [*chat_words.prompt_lines([]), *chat_words.answer_lines("owls", [])] == []


@pytest.mark.parametrize(
    ("category", "told"),
    [("card", "no card numbers in"), ("cold_water", "nothing in that it calls “cold water”")],
)
def test_a_refused_prompt_has_its_reason_and_its_place(category: str, told: str):
    """For people in words, for programs in the protocol's names."""
    place = {"category": category, "scope": "tenant", "p": 11, "n": 19}
    error = ProtocolError({"code": "safety_blocked", "message": "not sent", "safety": place})
    said = chat_words.refused_text(error, 0)
    assert said.startswith(f"not sent: your organization's safety policy lets {told} (characters 12 to 30)")
    assert chat_words.refusal_facts(error) == {"code": "safety_blocked", "retry": False, "safety": place}


def test_a_limits_refusal_has_its_numbers():
    """All that the protocol said, and nothing that it did not."""
    said = {
        "code": "rate_limited",
        "message": "m",
        "retry": True,
        "after_ms": 900,
        "scope": "user",
        "limit": 3,
    }
    facts = chat_words.refusal_facts(ProtocolError(said))
    assert facts == {name: value for name, value in said.items() if name != "message"}


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
            " · blocked · private key, by your organization's safety policy",
        ),
        (ended("length", verified=False), " · 0.0000061 USD · length · the text does not have its hash"),
    ],
)
def test_what_is_said_of_an_answer(what: Ended, told: str):
    """Its tokens, its cost where that is shown, and whatever is not as usual."""
    assert chat_cli._facts(what) == "1,049 tokens (1,037 in, 12 out)" + told


@pytest.mark.parametrize("typed", [["--once", "--json", "Name a river"], ["--once", "--model=m"]])
def test_an_option_in_the_prompts_place_is_answered_with_the_order(typed: list[str]):
    """Not with an argument too many, and not asked of a model."""
    told = CliRunner().invoke(chat_cli.command, typed)
    assert told.exit_code == 2
    assert 'put options before, as in parley chat --json --once "Name a river"' in told.output


def test_a_prompt_may_begin_like_an_option():
    """Where more words follow."""
    asked = "--force in git: what is it?"
    option = click.Option(["--once"])
    assert chat_cli._given_prompt(click.Context(chat_cli.command), option, asked) == asked

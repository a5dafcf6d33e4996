"""The filter: the same output for any cut and any takeover, and what a block, a redaction and a flag are."""

import json
import time

import pytest

from chaos.bench.safety.differences import difference, json_difference
from engine.safety.answer_views import FixedView
from engine.safety.constrained_names import ConstrainedNames
from engine.safety.filter import Filter
from engine.safety.json_view import JsonView
from engine.safety.verdicts import Block, Flag
from tests.engine.safety.filters import DEFAULT, filtered, flags, policy, shown
from tests.support.tiers import by_form

DOCUMENTS = by_form(500, 10_000)
CARD = "4111 1111 1111 1111"


def test_no_cut_and_no_takeover_changes_the_output():
    """Random documents, each cut in three ways and taken over, are what the definition makes of them."""
    assert [problem for seed in range(DOCUMENTS) if (problem := difference(seed))] == []


def test_json_stays_json_under_any_cut():
    """Answers in JSON: strings are replaced, what is more than a string ends the answer."""
    assert [problem for seed in range(DOCUMENTS * 3 // 20) if (problem := json_difference(seed))] == []


def test_a_block_ends_the_answer_where_its_span_begins():
    """Text before it is shown, nothing of it or after it, and what was decided is counted."""
    filter = Filter(policy(secret=("block", "xy{1,9}z")))
    assert filter.feed("ab xy") == ["ab "]
    assert filter.feed("yz and more") == []
    assert (filter.blocked, filter.raw, filter.visible) == (Block("secret", "tenant"), 3, 3)
    assert filter.feed("never", final=True) == []
    assert filter.counts == {("secret", "block"): 1}


def test_a_block_takes_what_it_overlaps_along():
    """The head of a redaction that a block overlaps is not shown: the merged span begins there."""
    both = policy(name=("redact", "ab{1,3}c"), worse=("block", "cd"))
    filter = Filter(both)
    assert filter.feed("x abbcd", final=True) == ["x "]
    assert filter.blocked == Block("worse", "tenant")


def test_what_is_held_at_the_end_is_text_like_any_other():
    """`final` decides what was held; without it nothing of it is shown."""
    filter = Filter(policy(secret=("redact", r"\bkey\b")))
    assert filter.feed("the key") == ["the "]
    assert filter.feed("", final=True) == ["[SECRET_1]", Flag("secret", "redact", "tenant", 4, 10)]
    assert filtered("the ke", policy(secret=("redact", r"\bkey\b"))) == "the ke"


def test_flags_stand_behind_their_text_and_on_no_placeholder():
    """A redaction's flag follows its placeholder; other flags are of visible text, one a category."""
    rules = policy(card=("redact", r"\d{4}"), word=("flag", "[A-Z]{4}"))
    out = Filter(rules).feed("12 1234 NEXT 5678 LAST", final=True)
    assert out[:3] == ["12 [CARD_1]", Flag("card", "redact", "tenant", 3, 8), " NEXT [CARD_2]"]
    assert flags(out)[-1] == Flag("word", "flag", "tenant", 12, 4)
    assert shown(out) == "12 [CARD_1] NEXT [CARD_2] LAST"


def test_a_placeholder_that_the_model_wrote_has_no_flag():
    """It is text; only flags say what was removed."""
    out = Filter(DEFAULT).feed("[CARD_1] is not one", final=True)
    assert out == ["[CARD_1] is not one"]


@pytest.mark.parametrize(
    "text", ["🙂" * 50, "a\u0301\u202e!", "日本語" * 100, "\u00a0", '{}[]\\"', "\x00\x7f"]
)
def test_text_of_any_script_passes_whole(text: str):
    """Emoji, bidi, combining marks, control characters: as they came, at once."""
    assert Filter(DEFAULT).feed(text) == [text]


def test_json_strings_are_replaced_and_stay_json():
    """Escaped secrets too; the rest of the answer is byte for byte what the model wrote."""
    text = '{"note": "pay \\u0034111 1111 1111 1111\\n", "n": 1}'
    out = filtered(text, view=JsonView(ConstrainedNames()))
    assert json.loads(out) == {"note": "pay [CARD_1]\n", "n": 1}


@pytest.mark.parametrize(
    ("text", "view"),
    [
        ('{"n": 4111111111111111}', JsonView(ConstrainedNames())),
        (f'{{"{CARD}": 1}}', JsonView(ConstrainedNames())),
        (f'{{"id": "{CARD}"}}', JsonView(ConstrainedNames(frozenset({"id"})))),
        (CARD, FixedView()),
    ],
)
def test_what_cannot_be_replaced_ends_the_answer(text: str, view: JsonView | FixedView):
    """A number, a name, a constrained string, a choice."""
    filter = Filter(DEFAULT, view)
    out = filter.feed(text, final=True)
    assert filter.blocked == Block("card", "platform")
    assert CARD[:4] not in shown(out)


def test_hostile_text_costs_a_bounded_time():
    """800 wrong IBANs, cards that fail their check, letters that all begin something, in one feed."""
    wrong = "DE89 3704 0044 0532 0130 0X " * 800
    cards = "4111 1111 1111 1112 " * 1_000
    begins = "-----BEGIN " * 2_000 + "sk-proj-" * 2_000
    for text in (wrong, cards, begins):
        began = time.thread_time()
        Filter(DEFAULT).feed(text)
        assert time.thread_time() - began < 0.5

"""Prompts under a policy: refused with the place, redacted with the places, or let through as they are."""

from random import Random

import pytest

from chaos.bench.safety.documents import document
from engine.safety.documents import PolicyDetector, PolicyDocument, PolicyPattern
from engine.safety.filter import Filter
from engine.safety.policy import compiled
from engine.safety.prompts import PromptBlock, PromptFlag, vetted
from engine.safety.verdicts import Flag
from tests.support.tiers import by_form

POLICY = compiled(
    PolicyDocument(
        detectors=(
            PolicyDetector("card", "flag", prompt="redact"),
            PolicyDetector("private_key", prompt="redact"),
            PolicyDetector("iban", prompt="block", scope="tenant"),
            PolicyDetector("email", prompt="flag"),
            PolicyDetector("phone", "block"),
        ),
        patterns=(PolicyPattern("employee_id", "EMP-[0-9]{6}", prompt="redact", scope="project"),),
    ),
    "prompt",
)
CARD, IBAN = "4111 1111 1111 1111", "DE89 3704 0044 0532 0130 00"


def test_a_redaction_names_the_place_in_what_was_sent_and_what_stands_there():
    """Behind letters of more than one byte too; the same card has the same number."""
    text = f"👩‍👩‍👧 {CARD}, EMP-123456 and {CARD}"
    found = vetted(text, POLICY)
    assert found.text == "👩‍👩‍👧 [CARD_1], [EMPLOYEE_ID_1] and [CARD_1]"
    assert [(each.x, text[each.p : each.p + each.n]) for each in found.sent] == [
        ("[CARD_1]", CARD),
        ("[EMPLOYEE_ID_1]", "EMP-123456"),
        ("[CARD_1]", CARD),
    ]
    assert [found.text[each.p : each.p + each.n] for each in found.flags] == [each.x for each in found.sent]
    assert [each.scope for each in found.sent] == ["platform", "project", "platform"]
    assert found.counts == {("card", "redact"): 2, ("employee_id", "redact"): 1}


def test_a_block_names_the_place_in_what_was_sent():
    """Whatever was redacted in front of it; nothing of the text is left."""
    text = f"{CARD} é {IBAN} and more"
    found = vetted(text, POLICY)
    assert found.block == PromptBlock("iban", "tenant", text.index(IBAN), len(IBAN))
    assert (found.text, found.flags, found.sent) == ("", (), ())


def test_a_flag_lets_the_text_through_as_it_is():
    """With its place in both texts, where something in front of it was replaced."""
    text = f"{CARD} is of ada@example.com"
    found = vetted(text, POLICY)
    assert found.text == "[CARD_1] is of ada@example.com"
    assert found.flags[1] == Flag("email", "flag", "platform", 15, 15)
    assert found.sent[1] == PromptFlag("email", "flag", "platform", 26, 15)


def test_a_private_key_is_taken_with_all_its_letters():
    """Its place is that of key and frame."""
    key = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\nabcd\n-----END PRIVATE KEY-----"
    text = f"Look: {key} End."
    found = vetted(text, POLICY)
    assert found.text == "Look: [PRIVATE_KEY_1] End."
    assert [text[each.p : each.p + each.n] for each in found.sent] == [key]


@pytest.mark.parametrize("text", ["", "Hello.", "[CARD_1]", "+49 30 1234567", "4111 1111 1111 1112"])
def test_what_has_nothing_in_it_stays_as_it_is(text: str):
    """A rule for answers is none for prompts."""
    found = vetted(text, POLICY)
    assert (found.text, found.flags, found.sent, found.block, found.counts) == (text, (), (), None, {})


def test_the_places_of_any_text_lead_from_what_was_sent_to_what_is_shown():
    """Applied to the text as it was sent they give the other one; by the filter of answers, whole."""
    policy = compiled(
        PolicyDocument(
            (
                *(
                    PolicyDetector(name, prompt="redact")
                    for name in ("private_key", "api_key", "card", "iban")
                ),
                *(PolicyDetector(name, prompt="flag") for name in ("email", "phone")),
            )
        ),
        "prompt",
    )
    redacted = 0
    for seed in range(by_form(300, 3_000)):
        text = document(Random(seed))
        found = vetted(text, policy)
        assert found.text == "".join(
            each for each in Filter(policy).feed(text, final=True) if isinstance(each, str)
        )
        pieces, at = list[str](), 0
        for each in found.sent:
            if each.action == "redact":
                pieces += [text[at : each.p], each.x]
                at = each.p + each.n
                redacted += 1
        assert "".join([*pieces, text[at:]]) == found.text, seed
        for sent, flag in zip(found.sent, found.flags, strict=True):
            if sent.action == "flag":
                assert text[sent.p : sent.p + sent.n] == found.text[flag.p : flag.p + flag.n], seed
    assert redacted > 100

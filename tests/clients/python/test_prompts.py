"""Prompts as model and history got them, in the Python client: placeholders where the flags say."""

from parley_client import SafetyPromptFlag, redacted

CARD = SafetyPromptFlag("card", "redact", "tenant", 2, 4, "[CARD_1]")
LATER = SafetyPromptFlag("email", "redact", "tenant", 7, 5, "[EMAIL_1]")
MARKED = SafetyPromptFlag("phone", "flag", "project", 0, 1)


def test_placeholders_stand_where_the_flags_say():
    """By code points; what was only flagged stays."""
    assert redacted("😀 4111 a@b.c!", [MARKED, CARD, LATER]) == "😀 [CARD_1] [EMAIL_1]!"
    assert redacted("nothing", []) == "nothing"


def test_of_several_messages_each_has_its_own():
    """A flag without a message is none of theirs."""
    first = SafetyPromptFlag("card", "redact", "tenant", 0, 1, "[CARD_1]", m=1)
    assert redacted("xy", [CARD, first], message=1) == "[CARD_1]y"
    assert redacted("xy", [first]) == "xy"

"""Policies compiled: what of a document is looked for in answers and in prompts, and what is not known."""

import pytest

from engine.safety.documents import DEFAULT_POLICY, PolicyDetector, PolicyDocument, PolicyPattern
from engine.safety.policy import BuiltInPolicies, UnknownPolicyError, compiled
from tests.engine.safety.filters import filtered


def test_a_policy_is_compiled_once():
    """Answers under one hash share what was compiled."""
    policies = BuiltInPolicies()
    assert policies.compiled(DEFAULT_POLICY) is policies.compiled(DEFAULT_POLICY)


def test_what_is_not_known_is_an_error():
    """A hash that is nobody's, a detector of a later release."""
    with pytest.raises(UnknownPolicyError, match="0000"):
        BuiltInPolicies().compiled("0" * 64)
    with pytest.raises(UnknownPolicyError, match="card version 9"):
        compiled(PolicyDocument((PolicyDetector("card", "redact", version=9),)))


def test_answers_and_prompts_have_actions_of_their_own():
    """An entry without an action for one of them is not looked for there."""
    document = PolicyDocument(
        (PolicyDetector("card", "redact"), PolicyDetector("email", prompt="redact")),
        (PolicyPattern("employee", "emp-[0-9]{3}", "redact", "redact", ignore_case=True),),
    )
    text = "EMP-123 4111111111111111 bob@example.com"
    assert filtered(text, compiled(document)) == "[EMPLOYEE_1] [CARD_1] bob@example.com"
    assert filtered(text, compiled(document, "prompt")) == "[EMPLOYEE_1] 4111111111111111 [EMAIL_1]"

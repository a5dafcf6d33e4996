"""Policies: their hashes, and those that are not known."""

import pytest

from engine.safety.policy import (
    DEFAULT,
    DEFAULT_POLICY,
    BuiltInPolicies,
    PolicyDetector,
    PolicyDocument,
    UnknownPolicyError,
    compiled,
    policy_hash,
)

HASH = "057aeed0010867d25b966072340013af7dbbe050dc2bd85fbf0a1b2261592a59"


def test_the_default_policy_has_its_published_hash():
    """A change of the default is a new document: the former one goes on the list of former ones."""
    assert DEFAULT_POLICY == policy_hash(DEFAULT) == HASH


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

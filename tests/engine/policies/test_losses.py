"""What a change of rules loses: by name and side, and by the words of a list."""

import pytest

from engine.policies.losses import Lost, Weakened, losses, one_sided
from engine.policies.merge import merged
from engine.safety.documents import DEFAULT, PolicyDetector, PolicyDocument, PolicyPattern, PolicyWords

OWN = PolicyDocument(
    (PolicyDetector("card", "block", prompt="redact"),),
    (PolicyPattern("ids", "EMP-[0-9]{6}", "redact"),),
    (PolicyWords("birds", ("heron", "owl", "wren"), "flag"),),
)


def test_what_replaces_the_default_loses_what_it_leaves_out() -> None:
    """Each name on each side on which it was looked for."""
    card = PolicyDocument((PolicyDetector("card", "block"),))
    found = losses(DEFAULT, card)
    assert [each.name for each in found.lost] == ["private_key", "api_key", "iban", "email", "phone"]
    assert {each.of for each in found.lost} == {"action"}
    assert not losses(card, DEFAULT).lost
    assert losses(card, DEFAULT).weakened == [Weakened("card", "action", "block", "redact")]


@pytest.mark.parametrize(
    ("after", "lost"),
    [
        (OWN, []),
        (PolicyDocument((PolicyDetector("card", "block", prompt="block"),), OWN.patterns, OWN.words), []),
        (
            PolicyDocument((PolicyDetector("card", "block"),), OWN.patterns, OWN.words),
            [Lost("card", "prompt", "redact")],
        ),
        (PolicyDocument(OWN.detectors, (PolicyPattern("ids", "E[0-9]{6}", "redact"),), OWN.words), []),
        (PolicyDocument(OWN.detectors, (), OWN.words), [Lost("ids", "action", "redact")]),
        (
            PolicyDocument(OWN.detectors, OWN.patterns, (PolicyWords("birds", ("owl", "tit"), "flag"),)),
            [Lost("birds", "action", "flag", 2)],
        ),
    ],
)
def test_a_side_a_rule_or_a_word_that_is_gone_is_lost(after: PolicyDocument, lost: list[Lost]) -> None:
    """What is stricter, added or written otherwise is not."""
    found = losses(OWN, after)
    assert (found.lost, found.weakened, bool(found)) == (lost, [], bool(lost))


def test_what_another_level_looks_for_is_not_lost() -> None:
    """A tenant that drops its rule for cards has the platform's, which may be weaker."""
    found = losses(merged(None, OWN), merged(None, PolicyDocument((), OWN.patterns, OWN.words)))
    assert found.lost == [Lost("card", "prompt", "redact")]
    assert found.weakened == [Weakened("card", "action", "block", "redact")]


def test_rules_for_one_side_are_named() -> None:
    """Where no level has the same for the other one."""
    assert one_sided(OWN, merged(PolicyDocument(), OWN)) == {"action": [], "prompt": ["ids", "birds"]}
    prompts = PolicyDocument((PolicyDetector("card", prompt="block"), PolicyDetector("iban", "flag")))
    assert one_sided(prompts, prompts) == {"action": ["card"], "prompt": ["iban"]}
    assert one_sided(prompts, merged(None, prompts)) == {"action": [], "prompt": ["iban"]}

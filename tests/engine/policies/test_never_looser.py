"""On texts: whatever a level does not let through, no level within it lets through."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.policies.merge import merged
from engine.safety.documents import Of, PolicyDetector, PolicyDocument, PolicyPattern, PolicyWords
from engine.safety.filter import Filter
from engine.safety.policy import compiled
from tests.engine.policies.documents import DOCUMENTS
from tests.support.tiers import by_form

PIECES = st.sampled_from(
    (
        "4111 1111 1111 1111",
        "a@b.example",
        "EMP-123456",
        "T1234",
        "blue heron",
        "ＢLUE",
        " heron",
        "stork",
        "1111",
        "emp-",
        " ",
        "\n",
        "é",
        "[CARD_1]",
        "T123",
        "4",
    )
)
TEXTS = st.lists(PIECES, max_size=10).map("".join)
EXAMPLES = by_form(150, 2_000)


def shown(text: str, document: PolicyDocument, of: Of) -> set[int]:
    """The code points that are let through."""
    filter = Filter(compiled(document, of))
    filter.feed(text, final=True)
    hidden = {point for start, end in filter.taken for point in range(start, end)}
    last = filter.taken[-1][0] if filter.blocked is not None else len(text)
    return {point for point in range(last) if point not in hidden}


def without_tails(document: PolicyDocument) -> PolicyDocument:
    """Without private keys: what stands in a key's tail is covered, and ends no answer any more."""
    rest = tuple(each for each in document.detectors if each.name != "private_key")
    return PolicyDocument(rest, document.patterns, document.words)


@pytest.mark.parametrize("of", ["answer", "prompt"])
@settings(max_examples=EXAMPLES)
@given(TEXTS, DOCUMENTS, DOCUMENTS, DOCUMENTS)
def test_what_one_level_hides_the_merged_document_hides(
    of: Of, text: str, platform: PolicyDocument, tenant: PolicyDocument, project: PolicyDocument
) -> None:
    """Of answers and of prompts, for each level alone."""
    levels = [without_tails(each) for each in (platform, tenant, project)]
    left = shown(text, merged(*levels), of)
    for document in levels:
        assert left <= shown(text, merged(document), of)


def test_a_levels_harmless_rule_takes_no_secret_with_it() -> None:
    """A tenant that flags, or names, what the platform blocks changes nothing of it."""
    floor = PolicyDocument((PolicyDetector("card", "block"),))
    for rule in (
        PolicyDocument((PolicyDetector("card", "flag"),)),
        PolicyDocument(patterns=(PolicyPattern("digits", "[0-9 ]{1,40}", "flag"),)),
        PolicyDocument(patterns=(PolicyPattern("digits", "[0-9 ]{1,40}", "redact"),)),
        PolicyDocument(words=(PolicyWords("digits", ("4111",), "redact"),)),
    ):
        assert max(shown("a 4111 1111 1111 1111 b", merged(floor, rule), "answer")) < 2

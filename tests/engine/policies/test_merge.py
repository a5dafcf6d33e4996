"""Merging the levels' documents: a lower level adds or tightens, and never loosens."""

import random
from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from engine.policies.level_files import level_file
from engine.policies.levels import level_facts, level_text
from engine.policies.merge import FIELDS, STRICTNESS, Entry, merged
from engine.policies.overrides import Override, overridden, overridden_below
from engine.safety.documents import (
    DEFAULT,
    DEFAULT_POLICY,
    PolicyDetector,
    PolicyDocument,
    PolicyPattern,
    PolicyWords,
    policy_hash,
    stored,
)
from tests.engine.policies.documents import DOCUMENTS, LEVELS
from tests.support.tiers import by_form

EXAMPLES = by_form(200, 2_000)
SCOPES = ("platform", "tenant", "project")
EMPTY = PolicyDocument()


def looked_for(entry: Entry) -> tuple[object, ...]:
    """What an entry finds, whatever is done about it."""
    match entry:
        case PolicyDetector():
            return "detector", entry.name, entry.version
        case PolicyPattern():
            return "pattern", entry.name, entry.pattern, entry.ignore_case
        case PolicyWords():
            return "words", entry.name, frozenset(entry.words)


def test_without_other_documents_the_default_holds_byte_for_byte() -> None:
    """So default traffic needs no document in a pool."""
    for document in (merged(None), merged(DEFAULT), merged(DEFAULT, EMPTY, EMPTY)):
        assert stored(document) == stored(DEFAULT)
        assert policy_hash(document) == DEFAULT_POLICY


@settings(max_examples=EXAMPLES)
@given(LEVELS, LEVELS, LEVELS)
def test_no_level_loosens_another(
    platform: PolicyDocument | None, tenant: PolicyDocument | None, project: PolicyDocument | None
) -> None:
    """Whatever a level asks is asked in the merged document, as strictly at least."""
    levels = (DEFAULT if platform is None else platform, tenant, project)
    found = merged(platform, tenant, project)
    for document in levels:
        for entry in (document or EMPTY).entries():
            for field in FIELDS:
                same = [each for each in found.entries() if looked_for(each) == looked_for(entry)]
                strictest = max(STRICTNESS[getattr(each, field)] for each in same)
                assert strictest >= STRICTNESS[getattr(entry, field)]


@settings(max_examples=EXAMPLES)
@given(LEVELS, LEVELS, LEVELS)
def test_each_rule_is_the_outermost_levels_that_asks_for_it(
    platform: PolicyDocument | None, tenant: PolicyDocument | None, project: PolicyDocument | None
) -> None:
    """And nothing is in the merged document that no level asks for; nothing is there twice."""
    levels = dict(zip(SCOPES, (DEFAULT if platform is None else platform, tenant, project), strict=True))
    found = list(merged(platform, tenant, project).entries())
    for field in FIELDS:
        rules = [each for each in found if getattr(each, field) is not None]
        assert len({looked_for(each) for each in rules}) == len(rules)
        for rule in rules:
            asking = [
                scope
                for scope, document in levels.items()
                for each in (document or EMPTY).entries()
                if looked_for(each) == looked_for(rule) and getattr(each, field) == getattr(rule, field)
            ]
            assert asking[0] == rule.scope
    assert all(each.action is not None or each.prompt is not None for each in found)


@settings(max_examples=EXAMPLES)
@given(LEVELS, LEVELS, LEVELS, st.randoms())
def test_the_order_of_entries_changes_nothing(
    platform: PolicyDocument | None,
    tenant: PolicyDocument | None,
    project: PolicyDocument | None,
    draw: random.Random,
) -> None:
    """Documents that say the same have one hash, and are compiled once."""
    found = merged(platform, tenant, project)
    shuffled = [each and _shuffled(each, draw) for each in (platform, tenant, project)]
    assert stored(merged(*shuffled)) == stored(found)


@settings(max_examples=EXAMPLES)
@given(LEVELS, DOCUMENTS)
def test_only_what_does_nothing_is_called_overridden(
    platform: PolicyDocument | None, tenant: PolicyDocument
) -> None:
    """Without what is overridden, the merged document is the same."""
    outer = merged(platform)
    told = {(each.name, each.of, each.asked) for each in overridden(outer, tenant)}
    for entry in tenant.entries():
        for field in FIELDS:
            same = [each for each in outer.entries() if looked_for(each) == looked_for(entry)]
            holds = max((STRICTNESS[getattr(each, field)] for each in same), default=0)
            asked = getattr(entry, field)
            if asked is not None and holds > STRICTNESS[asked]:
                assert (entry.name, field, asked) in told
                without = _without(tenant, entry, field)
                assert stored(merged(platform, without)) == stored(merged(platform, tenant))


def test_actions_of_two_levels_are_two_entries() -> None:
    """The platform redacts cards in answers, its tenant blocks them in prompts: each is its own level's."""
    tenant = PolicyDocument((PolicyDetector("card", "flag", prompt="block"),))
    cards = [each for each in merged(None, tenant).detectors if each.name == "card"]
    assert cards == [
        PolicyDetector("card", "redact", scope="platform"),
        PolicyDetector("card", None, scope="tenant", prompt="block"),
    ]
    assert overridden(merged(None), tenant) == [Override("card", "action", "flag", "redact", "platform")]


def test_a_new_floor_is_compared_with_all_that_stands_within_it() -> None:
    """A project's rules with its tenant's too."""
    flag, redact = (PolicyDocument((PolicyDetector("card", action),)) for action in ("flag", "redact"))
    levels = {("acme", ""): redact, ("acme", "web"): flag, ("beta", ""): flag}
    blocked = Override("card", "action", "flag", "block", "platform")
    floor = PolicyDocument((PolicyDetector("card", "block"),))
    assert list(overridden_below(floor, levels)) == [
        (("acme", ""), Override("card", "action", "redact", "block", "platform")),
        (("acme", "web"), blocked),
        (("beta", ""), blocked),
    ]
    assert list(overridden_below(EMPTY, levels)) == [
        (("acme", "web"), Override("card", "action", "flag", "redact", "tenant"))
    ]


def test_a_pattern_of_the_same_name_replaces_no_other() -> None:
    """A tenant that calls its harmless pattern as the platform calls one keeps the platform's."""
    floor = PolicyPattern("ticket", "T[0-9]{4}", "block")
    own = PolicyPattern("ticket", "x{200}", "flag")
    found = merged(PolicyDocument(patterns=(floor,)), PolicyDocument(patterns=(own,)))
    assert found.patterns == (floor, replace(own, scope="tenant"))


def test_a_levels_document_is_written_and_read_without_scopes() -> None:
    """Whose an entry is follows from where it is saved."""
    document = PolicyDocument((PolicyDetector("card", prompt="block"),), (PolicyPattern("a", "b", "flag"),))
    assert level_facts(document) == {
        "detectors": [{"name": "card", "version": 1, "prompt": "block"}],
        "patterns": [{"name": "a", "pattern": "b", "action": "flag"}],
    }
    assert level_file(level_text(document).encode(), lambda _: b"").document == document


def _shuffled(document: PolicyDocument, draw: random.Random) -> PolicyDocument:
    def mixed(entries: Sequence[Entry]) -> tuple[Entry, ...]:
        return tuple(draw.sample(list(entries), len(entries)))

    words = (replace(each, words=tuple(draw.sample(each.words, len(each.words)))) for each in document.words)
    return PolicyDocument(
        mixed(document.detectors),  # pyright: ignore[reportArgumentType]
        mixed(document.patterns),  # pyright: ignore[reportArgumentType]
        mixed(list(words)),  # pyright: ignore[reportArgumentType]
    )


def _without(document: PolicyDocument, gone: Entry, field: str) -> PolicyDocument:
    changed = {
        kind: tuple(
            replace(each, **{field: None}) if each is gone else each for each in getattr(document, kind)
        )
        for kind in ("detectors", "patterns", "words")
    }
    return replace(document, **changed)

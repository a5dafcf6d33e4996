"""What may become a policy: each refusal names the entry and the reason."""

import time
from collections.abc import Sequence
from random import Random
from typing import Any

import msgspec
import pytest

from engine.policies.merge import SCOPES
from engine.safety import cost_trial
from engine.safety.documents import DEFAULT, PolicyError, document_of
from engine.safety.filter import Filter
from engine.safety.policy import CompiledPolicy
from engine.safety.policy_checks import checked
from engine.safety.rules import Rule


def pattern(text: str, **more: Any) -> dict[str, Any]:
    """A document with one pattern."""
    return {"patterns": [{"name": "own", "pattern": text, "action": "flag", **more}]}


def words(*found: str, **more: Any) -> dict[str, Any]:
    """A document with one word list."""
    return {"words": [{"name": "own", "words": found, "action": "flag", **more}]}


def test_the_default_and_what_is_within_bounds_may():
    """Detectors, patterns and words as many as there may be."""
    checked(DEFAULT)
    names = [f"own{number}" for number in range(128)]
    patterns = [{"name": name, "pattern": f"{name}-[0-9]{{6}}", "prompt": "block"} for name in names]
    lists = [
        {"name": f"list{number}", "words": [f"w{at} w{number}" for at in range(625)], "action": "redact"}
        for number in range(16)
    ]
    checked(document_of(msgspec.json.encode({"patterns": patterns, "words": lists})))


@pytest.mark.parametrize(
    ("document", "why"),
    [
        ({"detectors": [{"name": "card", "version": 9, "action": "flag"}]}, "card version 9; .*card 1"),
        ({"detectors": [{"name": "card"}]}, "card: neither action nor prompt"),
        ({"detectors": [{"name": "card", "action": "flag"}] * 2}, "card is named twice"),
        (pattern("x", name="card"), "card is a detector's name"),
        (words(), "has no words"),
        (pattern(r"\ud800x"), "pattern own: .*matches nothing"),
        (pattern("x", name="A b"), "'A b': a name"),
        (pattern("x*"), r"pattern own: 'x\*': .*no bound"),
        (pattern("(?<=a)b"), r"pattern own: .*lookaround is not supported; \\b is"),
        (pattern("\bEMP"), r"U\+0008: did you mean \\b\? In JSON .* \"\\\\b\"$"),
        (pattern("a\x1bb"), r"U\+001B: did you mean \\x1b\?"),
        (pattern("EMP-[0-9]{6"), r"'EMP-\[0-9\]\{6': \{ at character 10 is not closed; .* write \\\{"),
        (pattern("x{6;}"), r"\{ at character 2 begins no repetition"),
        (pattern("x{a{2}"), r"\{ at character 2 begins no repetition"),
        (pattern("[0-9]6}"), r"\} at character 7 closes nothing"),
        ({"detectors": [{"name": "Cards", "action": "flag"}]}, "no detector Cards .*did you mean card"),
        (words("heron", "owl", " "), "words own, word 3: ' ': a word has a letter"),
        (pattern("a)|(b", ignore_case=True), "pattern own: .*unbalanced"),
        (pattern("x?"), "pattern own: .*empty"),
        (pattern("x{300}"), "pattern own: .*256"),
        (
            {"patterns": [pattern("x", name=f"n{at}")["patterns"][0] for at in range(129)]},
            "129 patterns; 128",
        ),
        ({"words": [words("x", name=f"n{at}")["words"][0] for at in range(17)]}, "17 word lists; 16"),
        (words(*map(str, range(10_001))), "10,001 words; 10,000"),
        (words("x" * 65), "'xxx.*: a word has 64"),
        (words("\u200b"), "a letter that can be seen"),
        (words("a\0"), "U\\+0000"),
        (pattern("|".join(f"[^{letter}]{{250}}" for letter in "abcde")), "own: .* instructions"),
        (pattern("(?:a[ab]{0,15}){1,15}c"), r"pattern own: '\(\?:a.* too dear: .*\d+ µs"),
        (pattern("a[ab]{200}c"), "own: .* too dear"),  # where text comes as tokens do
        (pattern("(?:x{250}|a[ab]{200}c)"), "own: .* too dear"),  # behind one that is longer, and harmless
        (pattern("|".join([*(f"{each}{{9}}" for each in "bdefghijkmnopq"), "a[ab]{200}c"])), "too dear"),
        (pattern("a(?:0[ab]){120}c"), "own: .* too dear"),  # by texts of its shape
        (pattern("[mn]o[ab]?m[a-z]{200}Q"), "own: .* too dear"),
        (pattern("a" + "[ab]" * 200 + "c"), "own: .* too dear"),  # without a repetition
        (pattern("|".join(f"{each}[ab]{{20}}" for each in map(chr, range(200, 240)))), "own: .*40 parts"),
        (pattern(r"a\bb"), r"own: .*nothing matches: \\b"),
        (words(*["x" * 64] * 4_000), "the document has .* bytes"),
    ],
)
def test_what_no_policy_may_have_is_refused(document: dict[str, Any], why: str):
    """Unknown detectors, names, too much of anything, patterns that cannot be filtered for."""
    with pytest.raises(PolicyError, match=why):
        checked(document_of(msgspec.json.encode(document)))


@pytest.mark.parametrize(
    "text", [r"\{6\}", "[{}]x", "[]{]x", "[^]{]x", r"[\]{]x", "a{2}", "a{2,4}", "a{,4}b", r"\N{EM DASH}x"]
)
def test_braces_that_are_meant_are_taken(text: str):
    """Escaped, in a class, or of a repetition."""
    checked(document_of(msgspec.json.encode(pattern(text))))


def test_patterns_are_tried_together():
    """Each is cheap alone; as many as these, which one text keeps alive, are not."""
    many = [
        {"name": f"n{at}", "pattern": f"[a-{chr(98 + at % 24)}]{{1,{100 + at}}}[0-9]", "action": "flag"}
        for at in range(128)
    ]
    with pytest.raises(PolicyError, match="too dear"):
        checked(document_of(msgspec.json.encode({"patterns": many})))
    checked(document_of(msgspec.json.encode({"patterns": many[:1]})))


def test_words_are_tried(monkeypatch: pytest.MonkeyPatch):
    """By the one that most others begin: lists may be too dear as well."""
    nested = words(*(" ".join("a" * count) for count in range(1, 33)))
    checked(document_of(msgspec.json.encode(nested)))
    monkeypatch.setattr(cost_trial, "MICROSECONDS_MAX", 0.5)
    with pytest.raises(PolicyError, match=r"words own: the lists are too dear: .* µs"):
        checked(document_of(msgspec.json.encode(nested)))


def test_levels_cost_together_what_each_costs():
    """Three that are tried apart and are nearly too dear have no expression in common, so costs add up."""
    document = document_of(msgspec.json.encode(pattern("a[ab]{40}c")))
    checked(document)
    rules = [
        Rule(f"a[ab]{{{40 + at}}}c", f"n{at}", "redact", scope, own=True) for at, scope in enumerate(SCOPES)
    ]
    text = "".join(Random(1).choices("ab", k=2_000))

    def cost(rules: Sequence[Rule]) -> float:
        filter = Filter(CompiledPolicy(rules))
        began = time.thread_time()
        for at in range(0, len(text), 4):
            filter.feed(text[at : at + 4])
        return time.thread_time() - began

    assert min(cost(rules) for _ in range(3)) < 2 * sum(min(cost([rule]) for _ in range(3)) for rule in rules)


@pytest.mark.parametrize(
    "text", ["[a-z]{1,250}", ".{1,250}x", "(?:[a-z ]{1,10}){1,25}x", r"\W{1,256}", "[^x]{256}"]
)
def test_wide_patterns_are_not_refused_for_their_width(text: str):
    """They get the memory that RE2 needs to be fast with them."""
    checked(document_of(msgspec.json.encode(pattern(text))))

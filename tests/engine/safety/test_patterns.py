"""Detectors' patterns: what is refused, and the law that every beginning of a match may become one."""

import re
from random import Random

import pytest
import re2
from hypothesis import given
from hypothesis import strategies as st

from engine.safety.detectors import DETECTORS
from engine.safety.patterns import PatternError, parsed
from engine.safety.stretches import walked

PATTERNS = [each.pattern for detector in DETECTORS.values() for each in detector.patterns]


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("a*", "no bound"),
        ("a+b", "no bound"),
        ("a{3,}", "no bound"),
        ("a?", "empty"),
        ("", "empty"),
        ("a{200}b{100}", "300 characters"),
        ("(ab){2,129}", "256"),
        ("(?=a)b", "lookaround"),
        ("(?<!a)b", "lookaround"),
        (r"(a)\1", "references"),
        ("^a", "everywhere"),
        ("a$", "everywhere"),
        ("a{1,3}+", "possessive"),
        ("(?>ab)", "atomic"),
        ("(a", "unterminated"),
        ("(?s)a.", "only i"),
        ("[[:alpha:]]x", "no class in it"),
        ("(?x: a b)", "only i"),
        ("(" * 41 + "a" + ")" * 41, "40 deep"),
        ("a" * 1_025, "1,024 characters"),
        (r"[^\x00-\U0010ffff]", "matches nothing"),
        (r"a\bb", r"nothing matches: \\b"),
        (r"é\b(?:é|ö)", r"nothing matches: \\b"),  # they are no characters of a word here
        (r"[a-z]{1,3}\b_?[0-9]", r"nothing matches: \\b"),
        (r"-(?:x|a\B-)", r"nothing matches: \\B"),
    ],
)
def test_what_cannot_be_filtered_for_is_refused(pattern: str, why: str):
    """No bound, no text, too wide, or not in RE2: an error that says so."""
    with pytest.raises(PatternError, match=why):
        parsed(pattern)


@pytest.mark.parametrize(
    "pattern", [r"\bab\b", r"a\b_?-", r"[a-z]\b[ -]?x", r"(?:-|a)\bb", r"a\Bb", r"x(?:\b|y)z"]
)
def test_an_edge_that_may_be_there_is_allowed(pattern: str):
    """Where one of the characters beside it can be of another kind, or is not known."""
    assert parsed(pattern)


@given(st.data())
def test_every_beginning_of_a_match_may_become_one(data: st.DataObject):
    """`begun` matches each beginning of what the pattern matches, and `firsts` has its byte."""
    pattern = data.draw(st.sampled_from(PATTERNS))
    found = parsed(pattern)
    text = data.draw(st.from_regex(re.compile(pattern, re.ASCII), fullmatch=True))
    assert len(text) <= found.width
    assert text.encode()[0] in found.firsts
    begun = re2.compile(f"(?:{found.begun})")
    for end in range(len(text) + 1):
        assert begun.fullmatch(text[:end]), text[:end]


@pytest.mark.parametrize(
    ("pattern", "good", "bad"),
    [
        ("(?i:key)s", ["KEYs", "kEys"], ["KEYS", "\u212aeys"]),
        (r"[^\d\s]x", ["ax", "éx"], ["1x", " x", "\x0bx"]),
        (r"\s", ["\x0b", " "], ["a", "\u00a0"]),
        ("(?:ab|cd){1,2}", ["ab", "abcd"], ["ababab"]),
    ],
)
def test_re2_matches_what_python_does(pattern: str, good: list[str], bad: list[str]):
    """Classes, cases and blanks are ASCII's, whoever matches."""
    compiled = re2.compile(parsed(pattern).whole)
    for text in [*good, *bad]:
        ours, theirs = compiled.fullmatch(text), re.compile(pattern, re.ASCII).fullmatch(text)
        assert (ours is not None) == (text in good), text
        assert (theirs is not None) == (text in good), text


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_sample_is_a_longest_match(pattern: str):
    """What hostile text is made of: it has the pattern's width, edges apart, and begins as a match does."""
    found = parsed(pattern)
    assert len(found.sample) == found.width
    assert found.sample.encode()[0] in found.firsts
    assert found.letters >= set(found.sample)


@pytest.mark.parametrize(
    ("pattern", "lead", "text"),
    [
        ("m[a-z]{20}", "m", "[amz]"),
        ("xy?(?:0[ab]){9}", "x", "0[ab]"),
        ("(?:q|k)[ab][ab]{2}[cd]{9}", "", "[qk][ab]{3}[cd]{9}"),
        ("(?:[0-9]{20}|q(?:ab|c){12})", "q", "ab|c"),
    ],
)
def test_stretches_have_the_shape_of_what_they_match(pattern: str, lead: str, text: str):
    """Repeated, or written out; letters of what leads there are among theirs."""
    shape = next(each.shape for each in parsed(pattern).stretches if each.lead == lead)
    for seed in range(20):
        assert re.fullmatch(text, walked(shape, Random(seed), lead))

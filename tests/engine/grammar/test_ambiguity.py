"""Which patterns take a text in more ways than can be counted, and that those from real life do not."""

import re
from collections.abc import Collection

import pytest

from engine.grammar.ambiguity import ambiguous_at
from engine.grammar.regex import check_pattern
from tests.engine.real_patterns import REAL_PATTERNS

AMBIGUOUS = {
    "((((.+)+.?)+.?)+.?)+": 8,
    "(.+)+": 5,
    "(a*)*": 5,
    "(?:x+x+)+y": 9,
    r"(\w+\s?)*\.": 9,
    r"(\w*\s*)*": 9,
    "(a|b|ab)*c": 9,
    "(a|a)*": 6,
    "(a{1,3})+": 9,
    "(a{2}|a{3})*": 12,
    "([a-c]x|[b-d]x)+": 16,
    r"(\d|[0-4])*": 11,
    r"(é|[à-ü])+": 10,
    "(a{2,}){3,}": 11,
    "-(a?a?)*": 8,
    r"x(, +|\s*){1,20}": 16,
    "(.*a){12}": 9,
    "(a+){0,9}ab*": 9,
    "(.*a){5}": 8,
    "((a|a)*b)*": 7,
    "(ab?c|ac)*": 10,
    "(ab*c|ac)*": 10,
}
PLAIN = [
    r"(\d+, )*\d+",
    "(a?)*",
    "(ab{3}|ab{5})*",
    "([a-c]x|[d-f]x)+",
    "(é|[α-ω])+",
    ".*a.*b.*",  # in many ways, but in no more than it has letters, squared
    "(a|b)*(a|c)*",
    "(.?){3}",
    "(.*a){3}",
    r"(\d{4}[ -]?){8}",
    r"((\d){8} ?)+",
    "(a{3})+",
    "(?:[^,]*,)*[^,]*",
    "(x{2,}y)*",
    "",
    "()*",
    "(|a)*",
    "a{0}(b)*",
    "a{0,2}|",
    "(?:[a-z]{1,5} )+",
    "([a-z]{0,5}-?[0-9]{2,4}x)*",
    "(.*a){4}",
    "(xa{5}a?)*",
    "(ab{2}c|abc)*",
    "(ab{2,}c|abc)*",
    "(ab{3}c|abbc)*",
    "(ab+c|ac)*",
]


@pytest.mark.parametrize(("pattern", "at"), AMBIGUOUS.items())
def test_an_ambiguous_repetition_is_found_at_its_end(pattern: str, at: int):
    """The innermost one, and nothing after it hides it."""
    check_pattern(pattern)
    assert ambiguous_at(pattern) == at
    assert ambiguous_at(f"[xyz]+-{pattern}") == at + 7


@pytest.mark.parametrize("pattern", PLAIN)
def test_others_are_let_through(pattern: str):
    """Texts in as many ways as they are long do not grow without bound."""
    check_pattern(pattern)
    assert ambiguous_at(pattern) is None


DIGITS, SPACES = range(48, 58), [*range(9, 14), 32, 160]
LETTERS = [*DIGITS, *range(65, 91), 95, *range(97, 123)]


@pytest.mark.parametrize(
    ("written", "codes"),
    [
        (r"\d", DIGITS),
        (r"\w", LETTERS),
        (r"\s", SPACES),
        (r"\D", set(range(256)) - {*DIGITS}),
        (r"[^\w]", set(range(256)) - {*LETTERS}),
        (".", set(range(256)) - {10, 13}),
        (r"\n", [10]),
        (r"\r", [13]),
        (r"\t", [9]),
        (r"\f", [12]),
        (r"\v", [11]),
        (r"\.", [46]),
        (r"\u0041", [65]),
        ("[b-d-]", [45, 98, 99, 100]),
        (r"[\d\n]", [10, *DIGITS]),
    ],
)
def test_which_characters_a_class_stands_for(written: str, codes: Collection[int]):
    """As the compiler has it: it is ambiguous beside each of them, and beside no other."""
    found = [code for code in range(256) if ambiguous_at(f"({written}|\\u{code:04x})*") is not None]
    assert found == sorted(codes)


def test_what_a_class_leaves_out_goes_to_the_end_of_unicode():
    """The last character is one."""
    assert ambiguous_at("([^a]|\U0010ffff)*") == 9


@pytest.mark.parametrize(("name", "pattern", "matching"), REAL_PATTERNS)
def test_patterns_from_real_life_pass(name: str, pattern: str, matching: str):
    """As people write them, none of them refused."""
    check_pattern(pattern)
    assert re.fullmatch(pattern, matching), name
    assert ambiguous_at(pattern) is None

"""Folding: what looks the same becomes the same, letter by letter, and each knows where it came from."""

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.safety.folding import BREAK, DROPPED_MAX, continues_a_word, folded
from engine.safety.look_alikes import COMPATIBLE, DROPPED, LOOK_ALIKES

TEXT = st.text(
    st.sampled_from("abZ 9_-\n\t\u00a0éß\ufb01İſσΣςжЖ\u0301\u200bｂ日한🙂\u0600\0")
    | st.characters(codec="utf-8")
)


def test_the_tables_are_of_folded_letters():
    """One letter for one, case folded: otherwise a word would not match itself in capitals."""
    for letter, like in LOOK_ALIKES.items():
        assert letter.casefold() == letter
        assert like in "abcdefghijklmnopqrstuvwxyz"
    assert not [letter for letter in (*COMPATIBLE, *LOOK_ALIKES) if letter.isascii()]


def test_every_letter_folds_as_its_other_case_does():
    """Of all that have one; nothing visible in ASCII is dropped."""
    for letter in map(chr, range(sys.maxunicode + 1)):
        if letter.upper() != letter and letter.upper().lower() == letter:
            assert folded(letter).alike == folded(letter.upper()).alike, letter
    assert not any(DROPPED.match(chr(point)) for point in range(128))


@given(TEXT, TEXT)
def test_a_cut_changes_only_blanks_and_runs_of_what_is_dropped(before: str, after: str):
    """From any letter on, the text folds as it does alone: that is why no cut of an answer matters."""
    whole, alone = folded(before + "x" + after), folded("x" + after)
    at = list(whole.places).index(len(before))
    assert (whole.plain[at:], whole.alike[at:]) == (alone.plain, alone.alike)
    assert [place - len(before) for place in whole.places[at:]] == list(alone.places)
    assert len(whole.plain) == len(whole.alike) == len(whole.places)


@pytest.mark.parametrize(
    ("text", "plain", "alike"),
    [
        ("Größe", "grosse", "grosse"),
        ("Ｆｉ ﬁ", "fi fi", "fi fi"),
        ("ΛΌΓΟΣ λόγος", "λογοσ λογοσ", "λoyoo λoyoo"),
        ("Ёлка", "елка", "eлka"),
        ("a \u00a0\n\u3000b", "a b", "a b"),
        ("a\u200b\u0301\ufe0fb", "ab", "ab"),
        ("काम", "काम", "काम"),
        ("がか", "か\u3099か", "か\u3099か"),
        ("a" + "\u200b" * DROPPED_MAX + "b", "ab", "ab"),
        ("a" + "\u200b" * (DROPPED_MAX + 1) + "b", f"a{BREAK}b", f"a{BREAK}b"),
    ],
)
def test_what_text_folds_to(text: str, plain: str, alike: str):
    """Width, case, marks, blanks, letters nobody sees; vowels of other scripts stay."""
    found = folded(text)
    assert (found.plain, found.alike) == (plain, alike)


def test_what_continues_a_word():
    """Letters, digits, marks and `_`; never in scripts without blanks."""
    assert all(map(continues_a_word, "aZ9_éжλ\u0301ि"))
    assert not any(map(continues_a_word, " -'.\u200b日ひカ한แ🙂"))

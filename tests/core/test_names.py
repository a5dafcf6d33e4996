"""Names: which texts are some, that one has one form, and what stands for a text that cannot be stored."""

import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from core.errors import Refused
from core.names import STORED_BYTES_MAX, UNSTORABLE, checked_user, forms_of, name_of, same_name, storable_name

ANY_TEXT = st.text(
    st.one_of(st.characters(), st.sampled_from("\x00\x1b\\{}0aé\u0301\u202e\ud800\ufdd0\ufdd1…")), max_size=30
)

REFUSED = {
    "empty": "",
    "zero": "free\x00rider",
    "escape": "a\x1b[2J",
    "C1": "a\x9b2J",
    "line": "a\nb",
    "half a pair": "a\ud800",
    "turns text": "a\u202eb",
    "invisible": "a\u200bb",
    "private use": "\ue000",
    "unassigned": "a\u0378",
    "noncharacter": "\ufdd0a",
    "no-break space": "a\u00a0b",
    "space at the start": " a",
    "space at the end": "a ",
    "too long": "x" * 201,
    "far too long": "x" * 1_000_000,
    "a number": 5,
    "none": None,
}


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED)
def test_what_is_no_name_is_refused_with_the_rule(text: object):
    """And the refusal repeats nothing of it."""
    with pytest.raises(
        Refused, match=r"^bad_request: user: expected a name of 1 to 200 printable"
    ) as refused:
        checked_user(text)
    assert refused.value.refusal.message.isprintable()


@pytest.mark.parametrize(
    "name", ["a", "x" * 200, "Zoë Müller", "李小龙", "ada+web@example.com", "=1+1", "[/x]"]
)
def test_people_s_names_are_names(name: str):
    """Also those that a terminal or a spreadsheet would read as more: that is the printer's matter."""
    assert checked_user(name) == name


def test_a_name_has_one_form():
    """Composed and decomposed text is one user's."""
    assert checked_user("Zoe\u0308") == checked_user("Zo\u00eb") == "Zo\u00eb"
    assert same_name("Zoe\u0308", "Zo\u00eb")
    assert not same_name("Zoe", "Zo\u00eb")
    assert not same_name("\ufb01", "fi"), "what only looks alike is another's"
    assert checked_user("\ufb01\u2460\uff21") == "\ufb01\u2460\uff21"
    assert checked_user("e\u0301" * 200) == "\u00e9" * 200


@given(ANY_TEXT)
def test_a_name_stays_itself(text: str):
    """Checked again and stored, a name is the same."""
    name = name_of(text)
    if name is not None:
        assert name_of(name) == name == storable_name(name)
        assert unicodedata.is_normalized("NFC", name)


@given(ANY_TEXT)
def test_what_is_mended_can_be_stored_and_is_nobody_s_name(text: str):
    """Also where it is too long for an index."""
    for each in (storable_name(text), storable_name(text, 4)):
        inner = each.removeprefix("\ufdd0").removeprefix("\ufdd1")
        assert not UNSTORABLE.search(inner)
        assert each == text or name_of(each) is None
        each.encode()


def test_a_name_is_looked_up_in_the_forms_that_it_may_be_stored_in():
    """As it was typed before there was a rule, and as it is now; never one that no database takes."""
    assert forms_of("Zoe\u0308") == ["Zoe\u0308", "Zo\u00eb"]
    assert forms_of("ann") == ["ann"]
    assert forms_of("a\x1b") == ["a\x1b"]
    for none in ("a\x00", "a\ud800", "\u20ac" * STORED_BYTES_MAX):
        assert forms_of(none) == []


@given(ANY_TEXT, ANY_TEXT)
@example("\x00\x00", "\x00\\{0}")
@example("x" * 16 + "\ud800", "x" * 16 + "\ud801")
@example("x" * 16 + "\ud800", "x" * 16 + "?")
def test_two_texts_are_mended_to_two(one: str, other: str):
    """Whoever names the escape of another's name does not become them."""
    for bytes_max in (4, STORED_BYTES_MAX):
        assert (storable_name(one, bytes_max) == storable_name(other, bytes_max)) == (one == other)
    assert storable_name(storable_name(one)) != storable_name(one) or storable_name(one) == one

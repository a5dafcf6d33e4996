"""What a conversation is called after its first message, or as its owner likes."""

import pytest

from core.errors import Refused
from server.conversations.titles import TITLE_CHARACTERS_MAX, checked_title, title_of


@pytest.mark.parametrize(
    ("content", "title"),
    [
        (" Plan \n a   trip ", "Plan a trip"),
        ("x" * 80, "x" * 80),
        ("word " * 16, "word " * 15 + "word"),
        ("word " * 17, "word " * 15 + "word…"),
        ("x" * 81, "x" * 79 + "…"),
        ("so " + "😀" * 90, "so " + "😀" * 76 + "…"),
        ("", ""),
        (" \u200b\u2060 ", "…"),
    ],
)
def test_a_long_title_ends_at_a_word_and_says_that_more_came(content: str, title: str):
    """It stands on one line; a word that fills most of it is cut."""
    assert title_of(content) == title
    assert len(title) <= TITLE_CHARACTERS_MAX


@pytest.mark.parametrize("title", ["x" * 80, "of  rivers\n", "👩‍👧", "می‌خواهم", "\u200eעברית", "\u200bseen"])
def test_a_title_may_say_anything_that_is_seen(title: str):
    """Joiners and marks of direction belong to emoji and to scripts."""
    assert checked_title(title) == " ".join(title.split())


@pytest.mark.parametrize(
    "title",
    ["", " ", "x" * 81, None, 7, "\u200b", "\u200d\ufeff", "a\0b", "a\x1bb", "a\u202eb", "\u2066a", "\ud800"],
)
def test_a_title_that_shows_nothing_or_something_else_is_refused(title: object):
    """Invisible characters alone, what turns text around, and what no database holds: a chat without a
    visible name could not be found again."""
    with pytest.raises(Refused) as refused:
        checked_title(title)
    assert refused.value.refusal.code == "bad_request"

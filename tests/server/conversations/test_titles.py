"""What a conversation is called after its first message."""

import pytest

from server.conversations.titles import TITLE_CHARACTERS_MAX, title_of


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
    ],
)
def test_a_long_title_ends_at_a_word_and_says_that_more_came(content: str, title: str):
    """It stands on one line; a word that fills most of it is cut."""
    assert title_of(content) == title
    assert len(title) <= TITLE_CHARACTERS_MAX

"""Detokenizing piece by piece: UTF-8 split across tokens, seams anywhere, special and unknown ids."""

import pytest
from tokenizers import Tokenizer

from engine.text.detokenize import Detokenizer
from tests.engine.tokens import EOS, byte_tokenizer, ids_of

TEXT = "Zażółć 日本語 👩‍👩‍👧 naïve\n\nعربى"


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    """Every byte is a token, so every character beyond ASCII is split."""
    return byte_tokenizer()


def test_a_character_appears_with_its_last_byte(tokenizer: Tokenizer):
    """No replacement characters on the way; the pieces join to the text."""
    stream = Detokenizer(tokenizer, ids_of("hi"))
    assert [stream.feed(id) for id in ids_of("ż!")] == ["", "ż", "!"]


def test_every_seam_gives_the_same_text(tokenizer: Tokenizer):
    """A stream that replays the ids before a seam goes on exactly where the first one stopped."""
    prompt, ids = ids_of("Tell me: "), ids_of(TEXT)
    for seam in range(len(ids) + 1):
        first = Detokenizer(tokenizer, prompt)
        before = "".join(first.feed(id) for id in ids[:seam])
        second = Detokenizer(tokenizer, prompt)
        assert "".join(second.feed(id) for id in ids[:seam]) == before
        assert before + "".join(second.feed(id) for id in ids[seam:]) == TEXT


def test_a_prompt_that_ends_inside_a_character_leaks_nothing(tokenizer: Tokenizer):
    """The prompt's text never comes out, whatever it ends with."""
    stream = Detokenizer(tokenizer, ids_of("secret ż")[:-1])
    assert "secret" not in "".join(stream.feed(id) for id in ids_of("abc"))


def test_bytes_that_are_no_utf8_do_not_break_the_stream(tokenizer: Tokenizer):
    """Text goes on after them, and the same ids give the same text again."""
    ids = [0xFF, 0xC3, *ids_of("ok "), 0xE6, 0x97, *ids_of("fine")]
    texts = {"".join(map(Detokenizer(tokenizer, []).feed, ids)) for _ in range(2)}
    assert len(texts) == 1
    assert texts.pop().endswith("fine")


def test_special_and_unknown_ids_have_no_text(tokenizer: Tokenizer):
    """End-of-sequence is counted, not shown; so is an id beyond the vocabulary."""
    stream = Detokenizer(tokenizer, [])
    ids = (*ids_of("a"), EOS, 1 << 20, 1 << 40, *ids_of("b"))
    assert [stream.feed(id) for id in ids] == ["a", "", "", "", "b"]

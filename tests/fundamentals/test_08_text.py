"""Text is what tokens become, and a character appears with its last byte."""

from engine.text.detokenize import Detokenizer
from tests.engine.tokens import byte_tokenizer, ids_of


def test_a_stream_begins_again_at_any_token():
    """Who takes over feeds the tokens of the log once more, and goes on in the middle of a character."""
    tokenizer, prompt, answer = byte_tokenizer(), ids_of("Say hi: "), ids_of("hi ż!")
    whole = Detokenizer(tokenizer, prompt)
    assert [whole.feed(id) for id in answer] == ["h", "i", " ", "", "ż", "!"]
    for taken_over_at in range(len(answer)):
        other = Detokenizer(tokenizer, prompt)
        assert "".join(other.feed(id) for id in answer[:taken_over_at] + answer[taken_over_at:]) == "hi ż!"

"""Token ids to text, one at a time, the same whether an answer ran in one piece or was continued.

The text is a function of the prompt's last ids and the answer's ids. A continuation therefore replays all ids
that are logged; it never resumes from text (docs/continuation.md, "At another worker").
"""

from collections.abc import Sequence

from tokenizers import Tokenizer
from tokenizers.decoders import DecodeStream

# Some decoders strip the space before the first token they see: the stream is primed with the prompt's end.
# More is not needed, and the first steps decode all of it again.
PRIMING_TOKENS = 16
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


class Detokenizer:
    """One answer's decode stream. Special tokens have no text; bytes that are no UTF-8 yet are held back."""

    def __init__(self, tokenizer: Tokenizer, prompt: Sequence[int]) -> None:
        self._tokenizer = tokenizer
        priming = list(prompt[-PRIMING_TOKENS:])
        if tokenizer.decode(priming).endswith(REPLACEMENT):
            priming = []  # primed inside a character the stream would release the priming's text with it
        self._stream = DecodeStream(ids=priming, skip_special_tokens=True)

    def feed(self, token: int) -> str:
        """The text that `token` completes, often its own, empty inside a character of several tokens."""
        try:
            return self._stream.step(self._tokenizer, token) or ""
        except (OverflowError, TypeError):  # an id that the tokenizer does not have: padded vocabularies
            return ""
        except Exception as error:  # the library raises Exception itself
            if not str(error).startswith("Invalid prefix"):
                raise
            # Bytes that are no UTF-8 made earlier text decode differently. The stream starts anew at the same
            # token in every replay, so the text stays a function of the ids.
            self._stream = DecodeStream(skip_special_tokens=True)
            return self._stream.step(self._tokenizer, token) or ""

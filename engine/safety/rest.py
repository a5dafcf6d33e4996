"""The rest of a secret that a length limit cut behind a valid match: what follows its placeholder. Pure.

Nobody knows the secret's letters any more, so no pattern tells where it ends. It is taken to end at a blank,
at a mark that is not of ASCII (`，`, `…`), and behind as many letters as a pattern may match.
"""

from unicodedata import category

from engine.safety.patterns import WIDTH_MAX


def ends_word(letter: str) -> bool:
    """True for a blank, and a mark that is not of ASCII."""
    return letter.isspace() or (letter > "\x7f" and category(letter)[0] == "P")


class RestOfWord:
    """Begins at `end`; `end` grows with the text that is shown to it."""

    def __init__(self, end: int) -> None:
        self.end = end
        self._left = WIDTH_MAX

    def grow(self, text: bytes, base: int) -> None:
        """Take the letters at `end`. `text` begins at `base` and reaches to the end of what is known."""
        if not self._left:
            return
        known = text[self.end - base :]
        for letter in known.decode():
            if not self._left or ends_word(letter):
                self._left = 0
                return
            self._left -= 1
            self.end += len(letter.encode())

"""The letters of a private key behind the line that begins it, as files, code and chats write them. Pure.

No finite pattern matches them, so they are covered as they come. A key is runs of base64 letters. Between two
long runs, or after a line's end (also written `\\n`), may stand what quotes, indents, numbers or joins lines;
headers (`Proc-Type: …`) may stand before the first. A short run with a blank behind it is prose and ends it.
"""

_LETTERS = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=")
_DIGITS = frozenset(b"0123456789")
_LINE_ENDS = frozenset(b"\r\n")
_BLANKS = frozenset(b" \t")
_QUOTES = frozenset(b"\"'")
_BETWEEN = _BLANKS | _QUOTES | frozenset(b",;>#*|-:)(")
_BACKSLASH, _MINUS, _COLON = b"\\-:"
RUN = 16  # letters of a run that is a key's, not a word
GAP_MAX = 24  # between two runs
HEADER_MAX = 200  # of one header's line


class Tail:
    """Begins at `end`; `end` grows with the text that is shown to it. `quoted`: within one string of an
    answer in JSON, whose end a quote is."""

    def __init__(self, end: int, quoted: bool = False) -> None:
        self.end = end
        self._over = False
        self._closing = ord('"') if quoted else None
        self._between = _BETWEEN - {self._closing}
        self._run = 0  # letters since what stood between
        self._digits = False  # the run has digits alone
        self._gap = 0
        self._new_line = False  # nothing but what stands between came since a line's end
        self._key = False  # a long run came
        self._header = 0  # letters of a header's line
        self._closed = False  # a quote came before any line's end or letter
        self._escaped = False

    def grow(self, text: bytes, base: int) -> None:
        """Take the letters at `end`. `text` begins at `base` and reaches to the end of what is known."""
        while not self._over and self.end - base < len(text):
            if self._takes(text[self.end - base]):
                self.end += 1
            else:
                self._over = True

    def _takes(self, letter: int) -> bool:
        escaped, self._escaped = self._escaped, letter == _BACKSLASH
        if letter in _LINE_ENDS or (escaped and letter in b"nr"):
            self._run = self._gap = self._header = 0
            self._new_line = True
            return True
        if self._header:
            self._header += 1
            return self._header <= HEADER_MAX and letter < 0x80 and letter != self._closing
        if letter == _BACKSLASH:
            return True
        return self._takes_letter(letter) if letter in _LETTERS else self._takes_other(letter)

    def _takes_letter(self, letter: int) -> bool:
        if not self._run and self._closed and not self._new_line and not self._key:
            return False
        self._digits = letter in _DIGITS and (self._digits or not self._run)
        self._run += 1
        self._key = self._key or self._run >= RUN
        return True

    def _takes_other(self, letter: int) -> bool:
        names_header = self._new_line and not self._key and self._run and not self._digits
        if names_header and letter in (_MINUS, _COLON):
            self._header = int(letter == _COLON)
            return True
        if letter not in self._between:
            return False
        if self._run and self._run < RUN and not (self._digits and self._new_line):
            return False
        if not self._new_line and not self._key and letter not in _BLANKS and letter not in _QUOTES:
            return False
        if self._run >= RUN:
            self._new_line = False
        self._closed = self._closed or letter in _QUOTES
        self._gap = 0 if self._run else self._gap + 1
        self._run = 0
        return self._gap <= GAP_MAX

"""The letters of a private key, line by line, behind the line that begins it. Pure.

No finite pattern matches them, so they are covered as they come: base64 letters, line ends (also written
`\\n`), and blanks that begin a line. A blank elsewhere ends them: it is prose.
"""

import re

_IN_A_LINE = re.compile(rb"(?:[A-Za-z0-9+/=\\]|[\r\n][ \t]*)*")
_AT_ITS_BEGIN = re.compile(rb"[ \t]*" + _IN_A_LINE.pattern)


class Tail:
    """Begins at `end`; `end` grows with the text that is shown to it."""

    def __init__(self, end: int) -> None:
        self.end = end
        self._over = False
        self._line_begins = False

    def grow(self, text: bytes, base: int) -> None:
        """Take the letters at `end`. `text` begins at `base` and reaches to the end of what is known."""
        if self._over:
            return
        letters = _AT_ITS_BEGIN if self._line_begins else _IN_A_LINE
        found = letters.match(text, self.end - base)
        assert found is not None
        if written := found.group().rstrip(b" \t"):
            self._line_begins = written.endswith((b"\r", b"\n"))
        self.end, self._over = base + found.end(), found.end() < len(text)

"""Text that others chose, made harmless where people read it: terminals, mails, spreadsheets. Pure.

A name can hold what a terminal obeys (ESC and other control characters), what turns the rest of a line
around (bidirectional overrides), or what a spreadsheet runs (OWASP, CSV injection).
"""

import re

_CONTROLS = r"\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufff9-\ufffb\U000e0000-\U000e007f"
_IN_A_LINE = re.compile(f"[{_CONTROLS}]")
_IN_PROSE = re.compile(rf"(?![\n\t])[{_CONTROLS}]")
_NUMBER = re.compile(r"-?\d+(\.\d+)?", re.ASCII)
_FORMULA = "=+-@＝＋－＠"


def plain(text: str) -> str:
    """One line, in which every control character, also a line break, stands as its escape: `\\x1b`."""
    return _IN_A_LINE.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def prose(text: str) -> str:
    """A text of several lines, as a model writes it: line breaks and tabs stay, other controls are gone. May
    be applied to any piece of a text."""
    return _IN_PROSE.sub("", text)


def spreadsheet_cell(value: object) -> str:
    """A cell of a CSV file: numbers stay numbers, text that would be a formula begins with an apostrophe."""
    text = plain("" if value is None else str(value))
    if _NUMBER.fullmatch(text):
        return text
    return f"'{text}" if text.lstrip()[:1] in tuple(_FORMULA) else text

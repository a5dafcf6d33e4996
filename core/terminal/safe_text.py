"""Text that others chose, made harmless where people read it: terminals, mails, spreadsheets. Pure.

A name can hold what a terminal obeys (ESC and other control characters), what turns the rest of a line
around (bidirectional overrides), or what a spreadsheet runs (OWASP, CSV injection).
"""

import re

_CONTROLS = r"\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufff9-\ufffb\U000e0000-\U000e007f"
# Invisible, or turning the text beside it: in a line of our own nobody misses them. (Joiners, U+200C and
# U+200D, are part of how some languages and emoji are written.)
_UNSEEN = r"\xad\u061c\u180e\u200b\u200e\u200f\u2060-\u2064\u206a-\u206f\ufeff"
_IN_A_LINE = re.compile(f"[{_CONTROLS}{_UNSEEN}]")
_IN_PROSE = re.compile(rf"(?![\n\t])[{_CONTROLS}]")
_NUMBER = re.compile(r"-?\d+(\.\d+)?", re.ASCII)
# Begins of cells: also behind a semicolon, at which spreadsheets of many countries divide a line.
_FORMULA = re.compile(r"(^|;)(?=[\s\u200c\u200d]*[=+\-@＝＋－＠])")


def printable_line(text: str) -> str:
    """One line, in which every control character, also a line break, stands as its escape: `\\x1b`."""
    return _IN_A_LINE.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def printable_text(text: str) -> str:
    """A text of several lines, as a model writes it: line breaks and tabs stay, other controls are gone. May
    be applied to any piece of a text."""
    return _IN_PROSE.sub("", text)


def spreadsheet_cell(value: object) -> str:
    """A cell of a CSV file: numbers stay numbers, text that would be a formula begins with an apostrophe."""
    text = printable_line("" if value is None else str(value))
    if _NUMBER.fullmatch(text):
        return text
    return _FORMULA.sub(r"\1'", text)

"""Finds slips of the pen in a pattern: what is taken for letters, and was surely meant otherwise. Pure.

Both look right and match nothing that anybody writes: JSON's `"\\bEMP"` is a backspace and EMP, and `{6` of
`[0-9]{6` are two letters.
"""

import re
import unicodedata

_MEANT = {"\b": r"\b", "\t": r"\t", "\n": r"\n", "\v": r"\v", "\f": r"\f", "\r": r"\r"}
_CLASS = r"\[\^?\]?(?:\\[\s\S]|[^\\\]])*\]"
_PIECE = re.compile(rf"\\N\{{[^}}]*\}}|\\[\s\S]|{_CLASS}|\{{\d+(?:,\d*)?\}}|\{{,\d+\}}|[\s\S]")


def slip_in(pattern: str) -> str:
    """What is to be written otherwise, and how; empty where nothing is."""
    for character in pattern:
        if unicodedata.category(character) == "Cc":
            meant = _MEANT.get(character, rf"\x{ord(character):02x}")
            return (
                f"it has the control character U+{ord(character):04X}: did you mean {meant}? "
                rf'In JSON a backslash is written twice: "\{meant}"'
            )
    for piece in _PIECE.finditer(pattern):
        if piece[0] == "{":
            closed = "}" in pattern[piece.end() :]
            why = "begins no repetition ({3}, {2,4})" if closed else "is not closed"
            return rf"{{ at character {piece.start() + 1} {why}; where the letter is meant, write \{{"
        if piece[0] == "}":
            return (
                rf"}} at character {piece.start() + 1} closes nothing; where the letter is meant, write \}}"
            )
    return ""

"""Decides which regular expressions may shape an answer: those that every worker compiles quickly. Pure.

The compiler ignores what it does not know (look-around, say) and takes seconds for large repetitions, so only
constructs that it handles right are accepted: literals, classes, groups, alternatives, repetitions of at most
128, anchors at both ends. A pattern always describes the whole text.
"""

import re
import warnings

PATTERN_CHARACTERS_MAX = 256
REPETITIONS_MAX = 128
GROUPS_DEEP_MAX = 8
SIZE_MAX = 512
COUNTED = re.compile(r"\{(\d{1,9})(,?)(\d{0,9})\}")
CLASSES = "dwsDWS"
PLAIN = "nrtfv"
PUNCTUATION = "\\^$.|?*+()[]{}/-\"'#&~@%!,:;<>=`_ "


def check_pattern(pattern: str, in_json: bool = False) -> int:
    """A pattern's size: its characters and classes, each counted as often as it may repeat. `in_json`: the
    pattern is of a JSON string, whose special characters the compiler does not escape. Raises ValueError."""
    if len(pattern) > PATTERN_CHARACTERS_MAX:
        raise ValueError(f"pattern: longer than {PATTERN_CHARACTERS_MAX} characters")
    size = _PatternReader(pattern, in_json).read()
    if size > SIZE_MAX:
        raise ValueError(f"pattern: repeats too much: {size} characters if written out, {SIZE_MAX} at most")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise ValueError(f"pattern: {error}") from None
    return size


class _PatternReader:
    """Reads a pattern once, from left to right."""

    def __init__(self, pattern: str, in_json: bool) -> None:
        self._pattern = pattern
        self._in_json = in_json
        self._at = self._deep = 0

    def read(self) -> int:
        """The size of the whole."""
        self._next("^")
        size = self._alternatives()
        if self._next(")"):
            raise self._wrong("a ) without its (")
        assert self._at == len(self._pattern), "only a ) ends what is read"
        return size

    def _alternatives(self) -> int:
        size = self._sequence()
        while self._next("|"):
            size += self._sequence()
        return size

    def _sequence(self) -> int:
        size = 0
        while self._at < len(self._pattern) and self._pattern[self._at] not in "|)":
            if self._pattern[self._at :] == "$":
                self._at += 1
                break
            size += self._atom() * self._times()
        return size

    def _atom(self) -> int:
        character = self._pattern[self._at]
        self._at += 1
        match character:
            case "(":
                return self._group()
            case "[":
                return self._class()
            case "\\":
                return self._escape()
            case "^" | "$":
                raise self._wrong(f"{character} inside the pattern")
            case "*" | "+" | "?" | "{":
                raise self._wrong(f"nothing before {character} to repeat")
            case _:
                self._literal(character)
                return 1

    def _group(self) -> int:
        if self._next("?") and not self._next(":"):
            raise self._wrong("(? is for groups without a name only, (?:…)")
        self._deep += 1
        if self._deep > GROUPS_DEEP_MAX:
            raise self._wrong(f"more than {GROUPS_DEEP_MAX} groups in each other")
        size = self._alternatives()
        self._deep -= 1
        if not self._next(")"):
            raise self._wrong("a ( without its )")
        return max(1, size)

    def _class(self) -> int:
        self._next("^")
        start = self._at
        while not self._next("]"):
            if self._at >= len(self._pattern):
                raise self._wrong("a [ without its ]")
            character = self._pattern[self._at]
            self._at += 1
            if character == "\\":
                self._escape()
            elif character == "[":
                raise self._wrong("a [ in a class needs an escape")
            else:
                self._literal(character)
        if self._at == start + 1:
            raise self._wrong("an empty class")
        return 1

    def _escape(self) -> int:
        character = self._pattern[self._at : self._at + 1]
        self._at += 1
        if character == "u":
            code = self._pattern[self._at : self._at + 4]
            self._at += 4
            if not re.fullmatch("[0-9A-Fa-f]{4}", code):
                raise self._wrong("\\u needs four hexadecimal digits")
            self._literal(chr(int(code, 16)))
        elif character in ("\\", '"') and self._in_json:
            self._literal(character)
        elif not character or character not in PUNCTUATION + CLASSES + ("" if self._in_json else PLAIN):
            raise self._wrong(f"\\{character} is not supported")
        return 1

    def _literal(self, character: str) -> None:
        if not character.isprintable():
            raise self._wrong("a character that does not print")
        if self._in_json and character in ("\\", '"'):
            raise self._wrong(f"{character} in a JSON string is not supported")

    def _times(self) -> int:
        """Read a repetition; the most times it allows, 1 for `*`, `+` and `?`, whose repeats count once."""
        times, counted = 1, COUNTED.match(self._pattern, self._at)
        if counted:
            least, most = int(counted[1]), int(counted[3] or counted[1])
            times, self._at = max(1, most), counted.end()
            if most > REPETITIONS_MAX:
                raise self._wrong(f"more than {REPETITIONS_MAX} repetitions")
            if least > most:
                raise self._wrong("a repetition from more to less")
        elif not (self._next("*") or self._next("+") or self._next("?")):
            return 1
        self._next("?")
        return times

    def _next(self, character: str) -> bool:
        found = self._pattern.startswith(character, self._at)
        self._at += found
        return found

    def _wrong(self, problem: str) -> ValueError:
        return ValueError(f"pattern: {problem}, at character {self._at}")

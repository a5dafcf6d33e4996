"""Shows the filter a streamed answer in JSON as what it says: strings unescaped, each code point with its raw
text and its place. Pure; takes any text, JSON or not."""

import re

from msgspec import Struct

from engine.safety.constrained_names import ConstrainedNames

DEPTH_MAX = 100  # objects and arrays in one another; no string further down may be replaced

_LETTERS = re.compile(r'[^"\\]*"?')
_SHORT = dict(zip('"\\/bfnrt', '"\\/\b\f\n\r\t', strict=True))
_HIGH, _LOW, _HEX = "[dD][89abAB][0-9a-fA-F]{2}", "[dD][c-fC-F][0-9a-fA-F]{2}", "[0-9a-fA-F]"
_ESCAPE = re.compile(rf'\\(?:(["\\/bfnrt])|u({_HIGH})\\u({_LOW})|u({_HEX}{{4}}))')
# The beginning of an escape, or of the second one of a surrogate pair, at the end of the text.
_UNFINISHED = re.compile(rf"\\(?:u(?:{_HEX}{{0,3}}|{_HIGH}(?:\\(?:u(?:[dD](?:[c-fC-F]{_HEX}?)?)?)?)?))?\Z")
_SURROGATE = re.compile("[\ud800-\udfff]")

# What is open: an object, an array whose own strings may be replaced, one whose own may not.
_OBJECT, _FREE, _FIXED = range(3)


def encodable(text: str) -> str:
    """The text with U+FFFD for each surrogate, which UTF-8 cannot hold and so no detector takes."""
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)


class Units(Struct, frozen=True):
    """A part of an answer. `text` has one code point for each unit, `raws` what the answer has there and
    `places` where it is: 0 outside strings, n in the n-th string, -n where that may not be replaced."""

    text: str
    raws: list[str]
    places: list[int]


class JsonView:
    """One answer in JSON, as far as it has come. A property name may not be replaced, nor a string whose
    nearest property name is a constrained one.

    An escape is held until it is whole; half of a surrogate pair is U+FFFD."""

    def __init__(self, constrained: ConstrainedNames) -> None:
        self._constrained = constrained
        self._name_length_max = max(map(len, constrained.names), default=0)
        self._name = ""  # of the open string, one character more than matters at most
        self._named = False  # the next string, or the open one, is a property name
        self._fixed = constrained.nameless  # the next string may not be replaced
        self._open = [_FIXED if self._fixed else _FREE]  # the answer itself, then each in the one before
        self._deeper = 0  # open beyond DEPTH_MAX
        self._strings = self._place = 0
        self._held = ""
        self._parts: list[str] = []
        self._raws: list[str] = []
        self._places: list[int] = []

    def feed(self, text: str, final: bool = False) -> Units:
        """The units that are known now, all there are where the answer ends here. No cut into feeds makes
        another unit."""
        text, self._held = self._held + text, ""
        self._parts, self._raws, self._places = [], [], []
        at = 0
        while at < len(text):
            if not self._place:
                at = self._outside(text, at)
            elif text[at] != "\\":
                at = self._letters(text, at)
            elif final or not _UNFINISHED.match(text, at):
                at = self._escape(text, at)
            else:
                self._held = text[at:]
                break
        return Units(encodable("".join(self._parts)), self._raws, self._places)

    def _outside(self, text: str, at: int) -> int:
        end = text.find('"', at) + 1
        part = text[at:end] if end else text[at:]
        self._add(part, 0)
        for character in part:
            if character in '{[]},"':
                self._structure(character)
        return at + len(part)

    def _structure(self, character: str) -> None:
        match character:
            case '"':
                self._strings += 1
                fixed = self._named or self._fixed or self._deeper
                self._place = -self._strings if fixed else self._strings
            case ",":
                self._named = self._open[-1] == _OBJECT
            case "{" | "[":
                self._opens(character == "{")
            case _:
                self._closes()

    def _opens(self, an_object: bool) -> None:
        if len(self._open) > DEPTH_MAX:
            self._deeper += 1
            return
        self._open.append(_OBJECT if an_object else _FIXED if self._fixed else _FREE)
        self._named = an_object

    def _closes(self) -> None:
        if self._deeper:
            self._deeper -= 1
        elif len(self._open) > 1:
            self._open.pop()
        self._fixed = self._open[-1] != _FREE

    def _letters(self, text: str, at: int) -> int:
        found = _LETTERS.match(text, at)
        assert found
        part = found[0]
        self._add(part, self._place)
        if self._named:
            self._spell(part.removesuffix('"'))
        if part[-1] == '"':
            self._places[-1] = 0
            self._close_string()
        return found.end()

    def _escape(self, text: str, at: int) -> int:
        found = _ESCAPE.match(text, at)
        raw = found[0] if found else "\\"  # no escape: a backslash that stands for itself
        letter = _meaning(found) if found else raw
        self._parts.append(letter)
        self._raws.append(raw)
        self._places.append(self._place)
        if self._named:
            self._spell(letter)
        return at + len(raw)

    def _add(self, part: str, place: int) -> None:
        self._parts.append(part)
        self._raws += part
        self._places += [place] * len(part)

    def _spell(self, part: str) -> None:
        self._name = (self._name + part)[: self._name_length_max + 1]

    def _close_string(self) -> None:
        self._place = 0
        if self._named:
            self._fixed = self._constrained.every or self._name in self._constrained.names
            self._named, self._name = False, ""


def _meaning(escape: re.Match[str]) -> str:
    short, high, low, other = escape.groups()
    if short:
        return _SHORT[short]
    if high:
        return chr(0x10000 + ((int(high, 16) & 0x3FF) << 10) + (int(low, 16) & 0x3FF))
    return chr(int(other, 16))

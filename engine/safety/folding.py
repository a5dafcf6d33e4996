"""Folds text for word lists: what looks the same becomes the same. Pure.

Code point by code point: those that nobody sees and the marks on letters are dropped, then width and case go
(NFKD, case folding), blanks in a row are one. `alike` has look-alikes of ASCII letters as those letters too.
What a letter folds to does not depend on its neighbours, so no cut of a text changes it.
"""

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache

from msgspec import Struct

from engine.safety.look_alikes import COMPATIBLE, DROPPED, LOOK_ALIKES, SPACELESS

DROPPED_MAX = 32  # in a row within a word, as in the stream-safe format of UAX #15; more of them break it
BREAK = "\0"
_BLANKS = "\t\n\v\f\r\x85\u2028\u2029\u1680"
_RUNS = re.compile(r"[!-~]{2,}|[\s\S]")  # of ASCII without blanks, or one code point
_BLANKS_IN_A_ROW = re.compile(r"[ \t-\r]{2}")
_ASCII_BLANKS = str.maketrans("\t\n\v\f\r", " " * 5)
_CACHED = 16_384


class Folded(Struct, frozen=True):
    """`plain` and `alike` are of one length; each character of them comes from the code point at that index
    of `places`."""

    plain: str
    alike: str
    places: Sequence[int]


def folded(text: str) -> Folded:
    """Any text. A run of more than DROPPED_MAX dropped code points leaves a BREAK."""
    if text.isascii() and not _BLANKS_IN_A_ROW.search(text):
        letters = text.lower().translate(_ASCII_BLANKS)
        return Folded(letters, letters, range(len(text)))
    plain: list[str] = []
    alike: list[str] = []
    places: list[int] = []
    dropped, blank = 0, False
    for run in _RUNS.finditer(text):
        at, end = run.span()
        if end - at > 1:
            dropped, blank = 0, False
            plain.append(run[0].lower())
            alike.append(plain[-1])
            places += range(at, end)
            continue
        letters, look = _letters(run[0])
        if not letters or (blank and letters == " "):
            dropped += 1
            if dropped <= DROPPED_MAX:
                continue
            letters = look = BREAK
        else:
            dropped = 0
        blank = letters[-1] == " "
        plain.append(letters)
        alike.append(look)
        places += [at] * len(letters)
    return Folded("".join(plain), "".join(alike), places)


@lru_cache(_CACHED)
def _letters(character: str) -> tuple[str, str]:
    """What a code point folds to: plain, and as what it looks like."""
    plain = alike = ""
    for each in unicodedata.normalize("NFKD", character):
        if DROPPED.match(each):
            continue
        letter = " " if each in _BLANKS else each.casefold()
        letter = COMPATIBLE.get(letter, letter)
        plain += letter
        alike += LOOK_ALIKES.get(letter, letter)
    return plain, alike


@lru_cache(_CACHED)
def continues_a_word(character: str) -> bool:
    """True for what stands in one word with a letter beside it; never in scripts without blanks."""
    if character.isascii():
        return character.isalnum() or character == "_"
    in_words = character.isalnum() or unicodedata.category(character)[0] == "M"
    return in_words and not SPACELESS.match(character)

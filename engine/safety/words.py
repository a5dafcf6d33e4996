"""Finds the words of a policy's lists in text that comes in pieces, however they are disguised. Pure.

A word matches where its text folds to it (engine/safety/folding.py), from the first code point of a letter to
the last one and the dropped ones behind it. Look-alikes count where at least one letter is the word's own: no
word of one script is found in another. Its edges are seen in the text itself, by one code point on either
side: none continues a word (a script without blanks has edges everywhere).
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import ahocorasick_rs

from engine.safety.folding import BREAK, DROPPED_MAX, Folded, continues_a_word, folded

_WORD_BYTES, _LETTER_BYTES = 400, 50  # as measured


class WordMatch(NamedTuple):
    """Indices of code points; `owner` is the number that the word came with."""

    start: int
    end: int
    owner: int
    word: str


class WordLists:
    """Words of all lists, each with an owner. Thread-safe: it has no state. `size`: bytes, estimated."""

    def __init__(self, words: Sequence[tuple[str, int]]) -> None:
        known: dict[str, set[tuple[str, int]]] = {}
        for word, owner in words:
            found = folded(word.strip())
            if (plain := found.plain.strip()) and BREAK not in plain:
                known.setdefault(found.alike.strip(), set()).add((plain, owner))
        self._sorted = sorted(known)
        self._words = [sorted(known[each]) for each in self._sorted]
        self._firsts = {each[0] for each in self._sorted}
        self._length_max = max(map(len, self._sorted), default=0)
        self.size = sum(_WORD_BYTES + _LETTER_BYTES * len(each) for each in self._sorted)
        self._automaton = ahocorasick_rs.AhoCorasick(self._sorted, store_patterns=False)

    def undecided(self, text: str, start: int) -> int:
        """Index of the first code point, from `start` on, where a word may begin that the text does not yet
        hold whole, or may not end there; its length, where there is none."""
        start = max(start, len(text) - self._length_max * (DROPPED_MAX + 1))
        seen = _from(text, start)
        for at in range(max(0, len(seen.alike) - self._length_max), len(seen.alike)):
            if seen.alike[at] in self._firsts and _begins(text, start, seen, at):
                rest = seen.alike[at:]
                next_one = bisect_left(self._sorted, rest)
                if next_one < len(self._sorted) and self._sorted[next_one].startswith(rest):
                    return start + seen.places[at]
        return len(text)

    def matches(self, text: str, start: int, stop: int) -> Iterator[WordMatch]:
        """Words that begin from `start` to before `stop`, in any order."""
        seen = _from(text, start)
        for number, first, last in self._automaton.find_matches_as_indexes(seen.alike, overlapping=True):
            begin = start + seen.places[first]
            if begin >= stop or not _begins(text, start, seen, first):
                continue
            if (end := _end(text, start, seen, last)) is None:
                continue
            plain = seen.plain[first:last]
            for word, owner in self._words[number]:
                if plain == word or _has_its_own(plain, word):
                    yield WordMatch(begin, end, owner, word)


def _from(text: str, start: int) -> Folded:
    return folded(text[start:] if start else text)


def _begins(text: str, start: int, seen: Folded, at: int) -> bool:
    """True where a word may begin at that folded character."""
    place = seen.places[at]
    if at and seen.places[at - 1] == place:
        return False  # within what one code point folds to
    point = start + place
    return not (point and continues_a_word(text[point - 1]) and continues_a_word(text[point]))


def _end(text: str, start: int, seen: Folded, last: int) -> int | None:
    """Where a word ends whose last folded character stands before `last`; None where none may."""
    place = seen.places[last - 1]
    after = seen.places[last] if last < len(seen.places) else len(text) - start
    if after == place:
        return None
    end = start + after
    inside = end < len(text) and continues_a_word(text[end]) and continues_a_word(text[start + place])
    return None if inside else end


def _has_its_own(plain: str, word: str) -> bool:
    return any(one == other and one.isalpha() for one, other in zip(plain, word, strict=True))

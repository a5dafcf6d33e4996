"""Finds the words of a policy's lists in text that comes in pieces, however they are disguised. Pure.

Of each list the longest word counts that matches at a place. A word matches where its text folds to it
(engine/safety/folding.py), from the first code point of a letter to the last one and the dropped ones behind
it. Look-alikes count where at least one letter is the word's own: no word of one script is found in another.
Its edges are seen in the text itself, by one code point on either side: none continues a word (a script
without blanks has edges everywhere).
"""

from bisect import bisect_left, bisect_right
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
        self._shorter = _shorter(self._sorted)
        self._firsts = {each[0] for each in self._sorted}
        self._length_max = max(map(len, self._sorted), default=0)
        self.size = sum(_WORD_BYTES + _LETTER_BYTES * len(each) for each in self._sorted)
        self._owners: list[frozenset[int]] = []  # of each word and those that it begins with
        shared: dict[frozenset[int], frozenset[int]] = {}
        for same, shorter in zip(self._words, self._shorter, strict=True):
            owners = frozenset(owner for _, owner in same)
            owners |= self._owners[shorter] if shorter >= 0 else frozenset()
            self._owners.append(shared.setdefault(owners, owners))
        heads = [each for each, shorter in zip(self._sorted, self._shorter, strict=True) if shorter < 0]
        self._heads = ahocorasick_rs.AhoCorasick(heads, store_patterns=False)

    def deepest(self) -> str:
        """The word that most others stand in the beginning of, as it looks; empty: there is none."""
        depths: list[int] = []
        for shorter in self._shorter:
            depths.append(1 + depths[shorter] if shorter >= 0 else 1)
        return self._sorted[depths.index(max(depths))] if depths else ""

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
        """Of each owner, the longest words that begin from `start` to before `stop`, by their beginnings. At
        each place one head matches at most: the time is linear, whatever words begin alike."""
        seen = _from(text, start)
        found = self._heads.find_matches_as_indexes(seen.alike, overlapping=True)
        for first in sorted([first for _, first, _ in found]):
            begin = start + seen.places[first]
            if begin >= stop:
                return
            if _begins(text, start, seen, first):
                for last, owner, word in self._longest(text, start, seen, first):
                    yield WordMatch(begin, last, owner, word)

    def _longest(self, text: str, start: int, seen: Folded, first: int) -> Iterator[tuple[int, int, str]]:
        """Of each owner, where its longest word ends that begins at that folded character, and the word."""
        rest = seen.alike[first : first + self._length_max]
        at = bisect_right(self._sorted, rest) - 1  # all words that the text goes on with are this or begin it
        found: set[int] = set()
        failed = ""  # a word without a letter of its own here: what it begins with has none either
        while at >= 0 and not self._owners[at] <= found:
            last = first + len(self._sorted[at])
            if rest.startswith(self._sorted[at]) and (end := _end(text, start, seen, last)) is not None:
                plain = seen.plain[first:last]
                for word, owner in self._words[at]:
                    if plain == word or (not failed.startswith(word) and _has_its_own(plain, word)):
                        if owner not in found:
                            found.add(owner)
                            yield end, owner, word
                    else:
                        failed = max(failed, word, key=len)
            at = self._shorter[at]


def _shorter(words: Sequence[str]) -> list[int]:
    """For each of these, which are sorted, the longest other one that it begins with; -1: none."""
    found: list[int] = []
    begun: list[int] = []  # those that the last one begins with, and itself
    for at, word in enumerate(words):
        while begun and not word.startswith(words[begun[-1]]):
            begun.pop()
        found.append(begun[-1] if begun else -1)
        begun.append(at)
    return found


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

"""Finds where patterns match, and where one may still match: many patterns at once. Pure, without state.

Patterns that begin with fixed letters are looked for by those letters, all in one automaton, and each is
tried only where its letters stand. The others are one expression, a few dozen at a time: of a thousand, RE2
would build its automaton anew all the time.
"""

from collections.abc import Sequence

import ahocorasick_rs
import re2

from engine.safety.rules import Match, RulePattern, expression, memory_max, size_of

BYTES_MAX = 4  # of a code point


class AnyLane:
    """Patterns as one expression, in the order of their rules. `shared`: all policies have the same ones.
    `size`: bytes, estimated."""

    def __init__(self, patterns: Sequence[RulePattern], shared: bool) -> None:
        program = sum(each.program for each in patterns)
        self.size = 0 if shared else 2 * memory_max(program)
        begun = "(?:" + "|".join(each.pattern.begun for each in patterns) + r")\z"
        self._begun = expression(begun, shared, program)
        whole = "|".join(f"(?:{each.pattern.whole})" for each in patterns)
        self._any = expression(whole, shared, program)
        self._by_first = [[each for each in patterns if byte in each.pattern.firsts] for byte in range(256)]

    def undecided(self, text: bytes, start: int) -> int:
        """Index of the first byte, from `start` on, where a match may begin that the text does not yet
        hold whole; its length, where there is none."""
        found = self._begun.search(text, start)
        return len(text) if found is None else found.start()

    def matches(self, text: bytes, base: int, start: int, stop: int) -> list[Match]:
        """Matches that begin at an index from `start` to before `stop`."""
        matches: list[Match] = []
        at = start
        while at < stop and (found := self._any.search(text, at)) is not None:
            if (begin := found.start()) >= stop:
                break
            patterns = self._by_first[text[begin]]
            matches += [match for each in patterns if (match := each.longest(text, begin, base))]
            at = begin + 1
        return matches


class HeadLane:
    """Patterns that begin with fixed letters, in either case. `size`: bytes, estimated."""

    def __init__(self, patterns: Sequence[RulePattern]) -> None:
        self.size = 0
        by_head: dict[bytes, list[tuple[RulePattern, re2._Regexp]]] = {}
        for each in patterns:
            begun = expression(each.pattern.begun)
            self.size += size_of(begun)
            for head in each.pattern.heads:
                by_head.setdefault(head, []).append((each, begun))
        self._patterns = list(by_head.values())
        self._automaton = ahocorasick_rs.BytesAhoCorasick(list(by_head))
        self._beginnings = {head[:length] for head in by_head for length in range(1, len(head))}
        self._length_max = max(map(len, by_head))
        self._reach = max(map(_reach, patterns))

    def undecided(self, text: bytes, start: int) -> int:
        """As of the other lane."""
        start = max(start, len(text) - self._reach)
        seen = text[start:].lower()
        found = len(seen)
        for length in range(min(self._length_max - 1, len(seen)), 0, -1):
            if seen[-length:] in self._beginnings:
                found = len(seen) - length
                break
        for number, at, _ in self._automaton.find_matches_as_indexes(seen, overlapping=True):
            if at < found and any(
                len(seen) - at <= _reach(each) and begun.fullmatch(text, start + at) is not None
                for each, begun in self._patterns[number]
            ):
                found = at
        return start + found

    def matches(self, text: bytes, base: int, start: int, stop: int) -> list[Match]:
        """As of the other lane."""
        matches: list[Match] = []
        seen = text[start : stop + self._length_max].lower()
        for number, at, _ in self._automaton.find_matches_as_indexes(seen, overlapping=True):
            if (begin := start + at) < stop:
                for each, _ in self._patterns[number]:
                    if match := each.longest(text, begin, base):
                        matches.append(match)
        return matches


def _reach(pattern: RulePattern) -> int:
    """Bytes of its longest match, at most: what began earlier is decided."""
    return BYTES_MAX * pattern.pattern.width

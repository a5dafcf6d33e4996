"""Finds a policy's matches in text that comes in pieces. Pure.

The matches of a text: for each pattern and each start the longest match there; where its check refuses that,
the longest shorter one that the check accepts; for each list and each start the longest word there
(engine/safety/words.py). They may overlap. Text is UTF-8 here, positions are bytes from its beginning.
"""

from collections.abc import Iterable, Iterator, Sequence

from engine.safety.lanes import AnyLane, HeadLane
from engine.safety.rules import PROGRAM_MAX, Match, Rule, RulePattern
from engine.safety.words import WordLists

TOGETHER_MAX = 64  # patterns in one expression


class Scanner:
    """All rules of one kind, compiled: up to `together_max` patterns in one expression. Thread-safe: it has
    no state. `size`: bytes, estimated. Raises PatternError."""

    def __init__(self, rules: Sequence[Rule], together_max: int = TOGETHER_MAX) -> None:
        self.rules = tuple(rules)
        lists = [(word, order) for order, rule in enumerate(rules) for word in rule.words]
        self._words = WordLists(lists) if lists else None
        patterns = [RulePattern(order, rule) for order, rule in enumerate(rules) if not rule.words]
        own = [each for each in patterns if each.rule.own]
        headed = [each for each in own if each.pattern.heads]
        others = [each for each in own if not each.pattern.heads]
        scopes = dict.fromkeys(each.rule.scope for each in others)  # apart: so their costs only add up
        detectors = [each for each in patterns if not each.rule.own]
        self._lanes: list[AnyLane | HeadLane] = [
            *(AnyLane(each, shared=True) for each in _in_parts(detectors, together_max)),
            *(
                AnyLane(part, shared=False)
                for scope in scopes
                for part in _in_parts((each for each in others if each.rule.scope == scope), together_max)
            ),
        ]
        if headed:
            self._lanes.append(HeadLane(headed))
        self.size = sum(each.size for each in (*patterns, *self._lanes))
        self.size += self._words.size if self._words else 0

    def undecided(self, text: bytes, start: int) -> int:
        """Index of the first byte, from `start` on, where a match may begin that the text does not yet
        hold whole; its length, where there is none."""
        found = len(text)
        for lane in self._lanes:
            found = min(found, lane.undecided(text, start))
        if self._words is None:
            return found
        known = text.decode()
        word = self._words.undecided(known, _point_of(text, known, start))
        return min(found, _bytes_of(known, 0, word))

    def matches(self, text: bytes, base: int, start: int, stop: int) -> list[Match]:
        """Matches that begin from `start` to before `stop`, in any order. `base` is the position of the
        text's first byte; `stop` is no later than what is undecided."""
        at, end = start - base, stop - base
        found: list[Match] = []
        if at < end:
            for lane in self._lanes:
                found += lane.matches(text, base, at, end)
            if self._words is not None:
                found += self._word_matches(self._words, text, base, at, end)
        return found

    def _word_matches(self, words: WordLists, text: bytes, base: int, at: int, end: int) -> Iterator[Match]:
        known = text.decode()
        found = words.matches(known, _point_of(text, known, at), _point_of(text, known, end))
        point = start = 0  # the last one, and its byte: a prompt may have a word in each of its lines
        for each in found:
            start += _bytes_of(known, point, each.start)
            point = each.start
            stop = start + _bytes_of(known, each.start, each.end)
            yield Match(base + start, base + stop, each.owner, self.rules[each.owner], each.word)


def _in_parts(patterns: Iterable[RulePattern], together_max: int) -> Iterator[list[RulePattern]]:
    """In order; no part has more patterns, or a larger program, than one expression may."""
    part: list[RulePattern] = []
    for each in patterns:
        program = each.program + sum(one.program for one in part)
        if part and (len(part) == together_max or program > PROGRAM_MAX):
            yield part
            part = []
        part.append(each)
    if part:
        yield part


def _point_of(text: bytes, known: str, at: int) -> int:
    """Index of the code point that begins at that byte. `known` is the text decoded."""
    return at if len(text) == len(known) else len(text[:at].decode())


def _bytes_of(known: str, start: int, stop: int) -> int:
    return len(known[start:stop].encode())

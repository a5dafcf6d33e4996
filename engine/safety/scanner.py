"""Finds a policy's matches in text that comes in pieces, by RE2. Pure.

The matches of a text: for each pattern and each start the longest match there; where its check refuses that,
the longest shorter one that the check accepts. They may overlap. Text is UTF-8 here, positions are bytes from
its beginning.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import re2

from engine.safety.checks import CHECKS, MatchCheck
from engine.safety.patterns import Pattern, parsed
from engine.safety.verdicts import Action, Scope

MEMORY_MAX = 64 << 20  # of one compiled expression; RE2 builds its automaton anew beyond it
_NEVER = r"[^\x{0}-\x{10ffff}]"


@dataclass(frozen=True)
class Rule:
    """One pattern of a policy and what is done about its matches. `tail`: letters of a key that follow are
    covered too (engine/safety/tail.py); `joins`: it belongs to a redaction that ends where it begins."""

    pattern: str
    category: str
    action: Action
    scope: Scope
    check: str = ""
    tail: bool = False
    joins: bool = False


@dataclass(frozen=True)
class Match:
    """What the rule numbered `order` covers, from `start` to `end`. The pattern may have begun earlier, where
    it has a part."""

    start: int
    end: int
    order: int
    rule: Rule
    text: str


class Scanner:
    """All rules of one kind, compiled. Thread-safe: it has no state."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        patterns = [parsed(rule.pattern) for rule in rules]
        self.rules = tuple(rules)
        self._begun = _compiled(
            "(?:" + "|".join(each.begun for each in patterns) + r")\z" if rules else r"\z"
        )
        self._any = _compiled("|".join(f"(?:{each.whole})" for each in patterns) if rules else _NEVER)
        compiled = [
            _RulePattern(order, rule, pattern, _compiled(pattern.whole))
            for order, (rule, pattern) in enumerate(zip(rules, patterns, strict=True))
        ]
        self._by_first = [
            [each for each in compiled if byte in each.pattern.firsts] for byte in range(256)
        ]  # in the rules' order

    def undecided(self, text: bytes, start: int) -> int:
        """Index of the first byte, from `start` on, where a match may begin that the text does not yet
        hold whole; its length, where there is none."""
        found = self._begun.search(text, start)
        return len(text) if found is None else found.start()

    def matches(self, text: bytes, base: int, start: int, stop: int) -> Iterator[Match]:
        """Matches that begin from `start` to before `stop`, by where they begin. `base` is the position of
        the text's first byte; `stop` is no later than what is undecided."""
        at, end = start - base, stop - base
        while at < end and (found := self._any.search(text, at)) is not None:
            if (begin := found.start()) >= end:
                return
            for each in self._by_first[text[begin]]:
                if match := each.longest(text, begin, base):
                    yield match
            at = begin + 1


@dataclass(frozen=True)
class _RulePattern:
    order: int
    rule: Rule
    pattern: Pattern
    expression: "re2._Regexp"

    def longest(self, text: bytes, begin: int, base: int) -> Match | None:
        """The match that begins there, None where there is none."""
        found = self.expression.match(text, begin)
        if found is None:
            return None
        check = CHECKS[self.rule.check] if self.rule.check else None
        if check is not None:
            found = self._accepted(text, begin, found.end(), check)
        if found is None:
            return None
        start, end = found.span(1) if self.pattern.has_part and found.start(1) >= 0 else found.span()
        return Match(base + start, base + end, self.order, self.rule, text[start:end].decode())

    def _accepted(self, text: bytes, begin: int, end: int, check: MatchCheck) -> "re2._Match | None":
        longest = text[begin:end].decode()
        for length in check.ends(longest):
            shorter = longest[:length]
            found = self.expression.fullmatch(text, begin, begin + len(shorter.encode()))
            if found is not None and check.good(shorter):
                return found
        return None


def _compiled(expression: str) -> "re2._Regexp":
    options = re2.Options()
    options.longest_match = True
    options.max_mem = MEMORY_MAX
    options.log_errors = False
    return re2.compile(expression.encode(), options)

"""What is looked for and what is done about it: rules of a policy, and their matches. Pure.

Text is UTF-8 here, positions are bytes from its beginning.
"""

from dataclasses import dataclass
from functools import lru_cache

import re2

from engine.safety.checks import CHECKS, MatchCheck
from engine.safety.patterns import SHOWN_MAX, Pattern, PatternError, parsed
from engine.safety.verdicts import Action, Scope

# Bytes of one compiled expression; RE2 builds its automaton anew beyond them. Own ones get some for each
# instruction, since a wide pattern that is slow in 1 MiB is fast in 4.
MEMORY_MAX = 64 << 20
OWN_MEMORY_MIN, OWN_MEMORY_MAX = 512 << 10, 8 << 20
OWN_MEMORY_OF_ONE = 4 << 10
SHARED_MAX = 256  # expressions of detectors, alone and together
PROGRAM_MAX = 10_000  # instructions of an own expression
_EXPRESSION_BYTES, _INSTRUCTION_BYTES = 3 << 10, 128  # as measured


@dataclass(frozen=True)
class Rule:
    """One pattern of a policy, or one list of words, and what is done about its matches. `tail`: letters of
    a key that follow are covered too (engine/safety/tail.py); `rest`: so is the rest of a word (rest.py);
    `joins`: it belongs to a redaction that ends where it begins. `not_behind`: a letter of ASCII that no
    match begins behind."""

    pattern: str
    category: str
    action: Action
    scope: Scope
    check: str = ""
    tail: bool = False
    joins: bool = False
    not_behind: str = ""
    words: tuple[str, ...] = ()  # the pattern is empty then
    own: bool = False  # a policy's own, no detector's
    rest: bool = False  # of no policy: a seam's


@dataclass(frozen=True)
class Match:
    """What the rule numbered `order` covers, from `start` to `end`. The pattern may have begun earlier, where
    it has a part. `text`: what it covers; of a word, the word as it folds."""

    start: int
    end: int
    order: int
    rule: Rule
    text: str


class RulePattern:
    """A rule with a pattern, compiled. `program`: its instructions; `size`: bytes, estimated. Raises
    PatternError."""

    def __init__(self, order: int, rule: Rule) -> None:
        self.pattern: Pattern = parsed(rule.pattern)
        self.rule = rule
        self._order = order
        self._not_behind = rule.not_behind.encode()
        self._check = CHECKS[rule.check] if rule.check else None
        self._whole = expression(self.pattern.whole, shared=not rule.own)
        self.program = self._whole.programsize
        if self.program > PROGRAM_MAX:
            why = f"{self.program:,} instructions; {PROGRAM_MAX:,} at most"
            raise PatternError(f"{rule.pattern[:SHOWN_MAX]!r} has {why}")
        self.size = size_of(self._whole) if rule.own else 0

    def longest(self, text: bytes, begin: int, base: int) -> Match | None:
        """The match that begins there, None where there is none. `base` is the position of the text's first
        byte."""
        behind = text[begin - 1 : begin] if self.rule.not_behind else b""  # one code point is always there
        found = self._whole.match(text, begin) if not behind or behind != self._not_behind else None
        if found is None:
            return None
        if self._check is not None:
            found = self._accepted(text, begin, found.end(), self._check)
        if found is None:
            return None
        start, end = found.span(1) if self.pattern.has_part and found.start(1) >= 0 else found.span()
        return Match(base + start, base + end, self._order, self.rule, text[start:end].decode())

    def _accepted(self, text: bytes, begin: int, end: int, check: MatchCheck) -> "re2._Match | None":
        longest = text[begin:end].decode()
        for length in check.ends(longest):
            shorter = longest[:length]
            found = self._whole.fullmatch(text, begin, begin + len(shorter.encode()))
            if found is not None and check.good(shorter):
                return found
        return None


def expression(text: str, shared: bool = False, program: int = PROGRAM_MAX) -> "re2._Regexp":
    """Compiled; of its matches at one place the longest counts. `shared`: all policies have the same one.
    `program`: about its instructions. Raises PatternError."""
    return _shared(text) if shared else _compiled(text, memory_max(program))


def memory_max(program: int) -> int:
    """Bytes that an own expression of so many instructions may take."""
    return min(max(OWN_MEMORY_MIN, OWN_MEMORY_OF_ONE * program), OWN_MEMORY_MAX)


@lru_cache(SHARED_MAX)
def _shared(text: str) -> "re2._Regexp":
    return _compiled(text, MEMORY_MAX)


def _compiled(text: str, memory: int) -> "re2._Regexp":
    options = re2.Options()
    options.longest_match = True
    options.max_mem = memory
    options.log_errors = False
    try:
        return re2._Regexp(text.encode(), options)  # `re2.compile` would keep it beyond its policy
    except re2.error as error:
        raise PatternError(f"{text[:SHOWN_MAX]!r}: {error}") from error


def size_of(compiled: "re2._Regexp") -> int:
    """Bytes of an expression for one pattern, estimated: a state of its automaton for each instruction, of up
    to a byte for each."""
    program = compiled.programsize
    return _EXPRESSION_BYTES + min(program * (program + _INSTRUCTION_BYTES), memory_max(program))
